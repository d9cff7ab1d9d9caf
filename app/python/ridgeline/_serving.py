"""A deployment under load: in closed form, or request by request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from app.scenario.results import Served
    from app.simulation.result import Simulated
    from genz_core.engine import EngineProfile
    from genz_core.serving.simulation import Requests
    from genz_core.types import Model, Num, System
    from genz_core.validity import OnError

    Numbers = Num | Sequence[float] | np.ndarray

#: Keywords of `serve` that a trace has no use for.
_OF_SERVE = ("images", "image_size", "audio_seconds")


def serve(
    model: str | Path | Model | Mapping[str, Any],
    *,
    system: str | Path | System = "h100-sxm5-80gb",
    engine: str | EngineProfile = "vllm",
    concurrency: Numbers | None = None,
    rate: Numbers | None = None,
    trace: str | Path | Requests | None = None,
    isl: Numbers = 1024, osl: Numbers = 1024,
    images: int = 0, image_size: str = "", audio_seconds: float = 0.0,
    length_ratio: float = 1.0,
    burst_start: bool = False,
    stream_interval: Numbers = 1,
    recv_interval: Numbers = 1,
    speculation: str = "", draft_tokens: int | None = None,
    draft_model: str | Path | Model | Mapping[str, Any] = "",
    acceptance: str | float | Sequence[float] = "",
    prefix_hits: float = 0.0, shared_tokens: int = 0, turns: int = 1, prefix_tier: str = "device",
    samples: int = 1, beams: int = 1,
    lora_rank: int = 0, lora_adapters: int = 1,
    offload: str = "",
    max_num_seqs: int = 0, max_num_batched_tokens: int = 0,
    weights: str = "", moe_weights: str = "", kv: str = "", activations: str = "",
    compute: str = "",
    tp: Numbers = 1, pp: Numbers = 1, dp: Numbers = 1,
    ep: Numbers | None = None,
    moe_tp: Numbers | None = None,
    expert_imbalance: Numbers = 1.0, redundant_experts: Numbers = 0, overlap: str = "none",
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
        speculation, draft_tokens, draft_model, acceptance: see `simulate`.
        prefix_hits, shared_tokens, turns, prefix_tier, samples, beams, lora_rank, lora_adapters:
            see `plan`.
        offload: what the host holds where a device is full: "weights", "kv" or "experts".
        max_num_seqs, max_num_batched_tokens: see `simulate`.
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
    from app.scenario import load_options, results

    if arguments.pop("trace") is not None:
        for name in (*_OF_SERVE, "isl", "osl", "on_error", "burst_start", "stream_interval"):
            arguments.pop(name)
        given = {name: arguments.pop(name) for name in load_options.KEYWORDS}
        told = load_options.LoadOptions.of(given).of_trace()
        return simulate(trace=trace, **arguments, **told)
    from app.scenario.local_files import sources

    return results.serve(**sources(arguments))


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
    expert_imbalance: float = 1.0, redundant_experts: int = 0, overlap: str = "none",
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
    from app.scenario.local_files import sources
    from app.simulation import result

    return result.simulate(**sources(arguments))
