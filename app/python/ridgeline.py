"""Ridgeline in Python: what the command line and the dashboard show, from one call.

>>> import ridgeline
>>> answer = ridgeline.estimate("meta-llama/Llama-3.1-8B", system="h100", isl=4096, osl=512)
>>> answer.status
'ok'
>>> answer.bound_tpot_s < answer.tpot_s
True

Models, systems and engines are named as on the command line, or given as objects that `model`,
`system` and `engine` return.  Keywords are those of the points file.  Numbers in, numbers out;
lists and arrays in, arrays out, one configuration an element.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

_ROOMS = ("app", "genz_core", "hardware_db", "model_registry", "profilers")


def _foreign() -> str:
    """The sentence about another package that stands in for one of ours, "" where there is none."""
    here = Path(__file__).resolve()
    roots = {here.parent, here.parents[2]}  # installed beside the rooms, or inside of app/python
    for name in _ROOMS:
        spec = find_spec(name)
        origin = Path(spec.origin).resolve() if spec and spec.origin else None
        if origin is None or origin.parent.parent not in roots:
            place = origin or "a folder without an __init__.py"
            return (
                f"ridgeline: the package {name!r} that Python finds first is not Ridgeline's "
                f"({place}); leave that folder, or take it off PYTHONPATH"
            )
    return ""


if _sentence := _foreign():
    if Path(sys.argv[0]).stem == "ridgeline":  # the command: a sentence, no traceback
        sys.stderr.write(f"{_sentence}\n")
        raise SystemExit(2)
    raise ImportError(_sentence)

if TYPE_CHECKING:
    import numpy as np

    from app.scenario.results import Estimate, Served, Sweep
    from app.simulation.result import Simulated
    from genz_core.engine import EngineProfile
    from genz_core.serving.simulation import Requests
    from genz_core.types import Model, Num, System
    from genz_core.validity import OnError
    from profilers import Comparison, Report

    Numbers = Num | Sequence[float] | np.ndarray

__all__ = [
    "compare",
    "engine",
    "estimate",
    "model",
    "models",
    "read_report",
    "serve",
    "simulate",
    "sweep",
    "system",
    "systems",
]


def estimate(
    model: str | Path | Model | Mapping[str, Any],
    *,
    system: str | Path | System = "h100-sxm5-80gb",
    engine: str | EngineProfile = "generic",
    batch: Numbers = 1,
    isl: Numbers = 1024,
    osl: Numbers = 128,
    weights: str = "",
    moe_weights: str = "",
    kv: str = "",
    activations: str = "",
    compute: str = "",
    tp: Numbers = 1,
    pp: Numbers = 1,
    dp: Numbers = 1,
    ep: Numbers | None = None,
    moe_tp: Numbers | None = None,
    cp: Numbers = 1,
    expert_imbalance: Numbers = 1.0,
    offload: str = "",
    on_error: OnError = "raise",
) -> Estimate:
    """Price a static batch: TTFT, TPOT, memory, cost, each latency beside its bound and interval.

    Args:
        model: name, Hugging Face id, path to a config.json, its parsed content, or a `Model`.
        system: slug, alias, path to a YAML, or a `System`.
        engine: trtllm, vllm, sglang, hf, llama.cpp ..., or an `EngineProfile`.
        batch: sequences at once.  isl, osl: prompt and output tokens of each.
        weights, moe_weights, kv, activations, compute: number formats; "" for the checkpoint's
            own or the engine's default.
        tp, pp, dp, cp: degrees of tensor, pipeline, attention-data and context parallelism.
        ep, moe_tp: how the experts are split, ep * moe_tp = tp * dp; either follows from the other.
        expert_imbalance: rows of the busiest ep rank over the mean of all.
        offload: move what does not fit to the host, "weights" or "kv".
        on_error: "raise" the error of what cannot run, or give it a reason code ("status").

    Returns:
        The estimate: floats, or arrays where an argument was one; SI units.

    Raises:
        RidgelineError: a name, size or degree that cannot be, or (`on_error="raise"`) a
            configuration that does not fit; the sentence says what is near and what to do.

    >>> two = estimate("Qwen/Qwen3-8B", system="h200", batch=[1, 64])
    >>> bool(two.tpot_s[0] < two.tpot_s[1])
    True
    """
    arguments = dict(locals())
    from app.scenario import results

    return results.estimate(**arguments)


def serve(
    model: str | Path | Model | Mapping[str, Any],
    *,
    system: str | Path | System = "h100-sxm5-80gb",
    engine: str | EngineProfile = "vllm",
    concurrency: Numbers | None = None,
    rate: Numbers | None = None,
    trace: str | Path | Requests | None = None,
    isl: Numbers = 1024, osl: Numbers = 1024,
    length_ratio: float = 1.0,
    burst_start: bool = False,
    stream_interval: Numbers = 1,
    recv_interval: Numbers = 1,
    weights: str = "", moe_weights: str = "", kv: str = "", activations: str = "",
    compute: str = "",
    tp: Numbers = 1, pp: Numbers = 1, dp: Numbers = 1,
    ep: Numbers | None = None,
    moe_tp: Numbers | None = None,
    expert_imbalance: Numbers = 1.0,
    on_error: OnError = "raise",
) -> Served | Simulated:  # fmt: skip
    """Estimate a deployment under load: TTFT, TPOT and throughput by continuous batching.

    Args:
        concurrency: open requests over the whole deployment, or
        rate: requests that arrive per second, or
        trace: requests as they were recorded; give one of them.  A trace is simulated, see
            `simulate`, and its own lengths hold.
        length_ratio: real lengths are uniform in [ratio, 1] of isl and osl.
        burst_start: all users start at once, as in a benchmark of ten requests each.
        stream_interval: tokens that the engine gathers before it sends them.
        recv_interval: decode steps between two looks of the engine at new requests.
        The others: see `estimate`.

    Returns:
        The figures of every load: floats, or arrays where an argument was one; SI units.  Of a
        trace, the simulation.

    Raises:
        RidgelineError: as `estimate`; not one of concurrency, rate and trace.

    >>> busy = serve("meta-llama/Llama-3.1-8B", system="h100", concurrency=[1, 64], osl=256)
    >>> bool(busy.output_tokens_per_s[1] > busy.output_tokens_per_s[0])
    True
    """
    arguments = dict(locals())
    if arguments.pop("trace") is not None:
        for name in ("isl", "osl", "on_error", "burst_start", "stream_interval"):
            arguments.pop(name)
        return simulate(trace=trace, **arguments)
    from app.scenario import results

    return results.serve(**arguments)


def simulate(
    model: str | Path | Model | Mapping[str, Any],
    *,
    system: str | Path | System = "h100-sxm5-80gb",
    engine: str | EngineProfile = "vllm",
    concurrency: int | None = None, rate: float | None = None,
    trace: str | Path | Requests | None = None,
    burstiness: float = 1.0, ramp_to: float | None = None, ramp_s: float | None = None,
    requests: int | None = None,
    isl: int = 1024, osl: int = 1024, length_ratio: float = 1.0, length_spread: float = 0.0,
    lengths: str | Path | np.ndarray | None = None,
    turns: int = 1, think_s: float = 0.0, shared_tokens: int = 0, seed: int = 0,
    router: str = "least_loaded", replicas: int = 1,
    ttft_target_s: float | None = None, tpot_target_s: float | None = None,
    e2e_target_s: float | None = None,
    max_num_seqs: int = 0, max_num_batched_tokens: int = 0, memory_fraction: float = 0.0,
    kv_tokens: float = 0.0, prefix_caching: bool = True, recv_interval: int = 1,
    scheduler: str = "", step_scale: float | None = None,
    speculation: str = "", draft_tokens: int | None = None,
    draft_model: str | Path | Model | Mapping[str, Any] = "",
    acceptance: str | float | Sequence[float] = "",
    prefill_system: str | Path | System = "", prefill_workers: int = 0,
    prefill_tp: int = 1, prefill_pp: int = 1, prefill_dp: int = 1, prefill_ep: int = 1,
    prefill_weights: str = "",
    transfer_gbps: float = 0.0, transfer_latency_us: float | None = None, layer_wise: bool = False,
    weights: str = "", moe_weights: str = "", kv: str = "", activations: str = "",
    compute: str = "",
    tp: int = 1, pp: int = 1, dp: int = 1, ep: int | None = None, moe_tp: int | None = None,
    expert_imbalance: float = 1.0,
) -> Simulated:  # fmt: skip
    """Serve requests one by one under the engine's scheduler: percentiles, queues, preemptions.

    Args:
        concurrency: open requests of a closed loop, or
        rate: requests that arrive per second, or
        trace: a file of requests (CSV, JSON lines), or `Requests`; give one of them.
        burstiness: shape of the gamma-distributed gaps of a rate, 1 for Poisson, less is burstier.
        ramp_to, ramp_s: the rate climbs linearly to ramp_to over the first ramp_s seconds.
        requests: by default ten a slot, a thousand at a rate, the whole of a trace.
        isl, osl: tokens; uniform in [length_ratio, 1] of them, or lognormal with a standard
            deviation of length_spread means, or drawn from `lengths`: a file with the columns
            input_tokens and output_tokens, or an array [rows, 2].
        turns, think_s: requests of a session, each prompt repeating the conversation so far.
        shared_tokens: system prompt before every conversation.
        seed: of all draws; the same gives the same answers.
        router: "least_loaded", "round_robin" or "prefix".  replicas: equal deployments behind it.
        *_target_s: what a request must meet to count as good.
        max_num_seqs, max_num_batched_tokens: of a step, 0 for the engine's default.
        memory_fraction: of a device that the engine takes, 0 for its default.
        kv_tokens: that a rank's cache holds, 0 for what fits.  prefix_caching: reuse prefixes.
        recv_interval: decode steps between two looks of the scheduler at new requests.
        scheduler: "vllm", "sglang", "tensorrt_llm" or "static", in place of the engine's own.
        step_scale: measured over priced time of a step; None for your own calibration, if any.
        speculation: "mtp", "eagle", "draft_model" or "ngram" drafts `draft_tokens` a step (3), the
            third with `draft_model`.
        acceptance: of a token, given that those before it were accepted, or a share for each
            position; measured ones where nothing is given.
        prefill_system, prefill_workers: a pool that reads the prompts, of the same system and of
            one worker unless said; what is described beside it then decodes.
        prefill_tp, prefill_pp, prefill_dp, prefill_ep, prefill_weights: of a prefill worker.
        transfer_gbps, transfer_latency_us: of the cache's way [Gbit/s a device, microseconds]; by
            default the link that the systems state.  layer_wise: sent while later layers run.
        The others: see `estimate`.

    Returns:
        The simulation: figures by name, SI units; `to_dataframe()` has one row a request.

    Raises:
        RidgelineError: as `estimate`; a load or a length that cannot be, a file that is no trace.

    >>> busy = simulate("meta-llama/Llama-3.1-8B", system="h100", rate=4, requests=200, osl=128)
    >>> bool(busy.ttft_p50_s < busy.ttft_p99_s)
    True
    """
    arguments = dict(locals())
    from app.simulation import result

    return result.simulate(**arguments)


def sweep(
    model: str | Path | Model | Mapping[str, Any],
    *,
    system: str | Path | System = "h100-sxm5-80gb",
    engine: str | EngineProfile = "generic",
    weights: str = "",
    moe_weights: str = "",
    kv: str = "",
    activations: str = "",
    compute: str = "",
    on_error: OnError = "status",
    **axes: Numbers,
) -> Sweep:
    """Price every combination of some axes in one call.

    Args:
        axes: values of batch, isl, osl, tp, pp, dp, ep and cp, in the order they vary; a number
            is an axis of one value.
        on_error: see `estimate`; by default a combination that cannot run has a reason code.

    Returns:
        A table, one row a combination.

    Raises:
        RidgelineError: an axis or a value that cannot be.

    >>> table = sweep("meta-llama/Llama-3.1-8B", system="h100", batch=[1, 8, 64], tp=[1, 2])
    >>> len(table), table.rows[0]["status"]
    (6, 'ok')
    """
    arguments = dict(locals())
    from app.scenario import results

    return results.sweep(**arguments)


def compare(
    reports: str | Path | Report | Sequence[str | Path | Report],
    model: str | Path | Model | Mapping[str, Any],
    *,
    system: str | Path | System = "",
    engine: str | EngineProfile = "",
    batch: float | None = None,
    isl: float | None = None,
    osl: float | None = None,
    weights: str = "",
    kv: str = "",
    tp: int | None = None,
    phase: str = "",
    steps: Mapping[str, int] | None = None,
    fill: bool = True,
) -> Comparison:
    """Put profiler reports of one run beside the estimate of what ran.

    Args:
        reports: files, or reports that `read_report` returned.
        model, system, engine, batch, isl, osl, weights, kv, tp: what ran, as in `estimate`; what
            is not given is read from the reports, and the engine is hf where they name none.
        phase: what reports that name none are taken for, "prefill" or "decode"; "": what their
            shapes tell.
        fill: False: the defaults of `estimate` in place of what the reports say.
        steps: steps that a summary adds up, by phase.

    Returns:
        Data frames `phases`, `classes` and `operators`, and `findings` in words; no finding where
        what ran contradicts what is priced.

    Raises:
        RidgelineError: a file that cannot be read, names nobody knows, reports without a phase.
    """
    arguments = dict(locals())
    from app.measuring import comparison
    from app.scenario.local_files import model_source, system_source

    arguments |= {"model": model_source(model), "system": system_source(system)}
    several = [reports] if isinstance(reports, (str, Path)) else reports
    if not isinstance(several, Iterable):
        several = [several]
    arguments["reports"] = [
        read_report(report) if isinstance(report, (str, Path)) else report for report in several
    ]
    return comparison.compare_reports(**arguments)


def read_report(path: str | Path) -> Report:
    """Read a profiler's report: Nsight Systems, Nsight Compute or the PyTorch profiler.

    Raises:
        ReportError: it is none of these, or it is damaged.
    """
    import profilers

    return profilers.read_report(Path(path))


def model(
    name: str | Path | Mapping[str, Any],
    *,
    weights: str = "",
    moe_weights: str = "",
    kv: str = "",
    activations: str = "",
    compute: str = "",
) -> Model:
    """A model by name, Hugging Face id, path to a config.json, or the content of one.

    The number formats replace the checkpoint's own.

    >>> round(model("meta-llama/Llama-3.1-8B").parameters)
    8030261248

    Raises:
        RidgelineError: an unknown name, an architecture or format that nobody described.
    """
    import model_registry
    from app.scenario.local_files import model_source

    formats = {"weights": weights, "moe_weights": moe_weights, "kv": kv}
    formats |= {"activations": activations, "compute": compute}
    source = model_source(name)
    return model_registry.load(source, **{key: value or None for key, value in formats.items()})


def models(pattern: str = "*") -> list[str]:
    """The names of the models that ship, those that fit a pattern like "*llama*".

    >>> "meta-llama/Llama-3.1-8B" in models("*llama-3.1*")
    True
    """
    import model_registry

    return _fitting(model_registry.names(), pattern)


def system(name: str | Path | Mapping[str, Any]) -> System:
    """A system by slug or alias, path to a YAML, or the content of one.

    >>> system("H100 SXM").slug
    'h100-sxm5-80gb'

    Raises:
        RidgelineError: an unknown name, or a document that does not fit the schema.
    """
    import hardware_db
    from app.scenario.local_files import system_source

    return hardware_db.load(system_source(name))


def systems(pattern: str = "*") -> list[str]:
    """The slugs of all systems, those that fit a pattern like "h*"."""
    import hardware_db

    return _fitting(hardware_db.names(), pattern)


def engine(name: str = "generic") -> EngineProfile:
    """A serving engine by name, with what was measured of it; an unknown one is the generic.

    >>> engine("vLLM").name
    'vllm'
    """
    import hardware_db

    return hardware_db.load_engine(name)


def main() -> None:
    """The command `ridgeline`."""
    from app.cli import main as command_line

    command_line()


def __getattr__(name: str) -> Any:
    if name != "__version__":
        raise AttributeError(f"module 'ridgeline' has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ridgeline")
    except PackageNotFoundError:  # a checkout on the path, not installed
        return "0+unknown"


def _fitting(names: Sequence[str], pattern: str) -> list[str]:
    folded = pattern.casefold()
    return [name for name in names if fnmatchcase(name.casefold(), folded)]
