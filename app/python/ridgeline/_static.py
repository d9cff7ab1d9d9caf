"""A static batch: one estimate, or every combination of some axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from app.planning.sweep_result import SweptTable
    from app.scenario.results import Estimate, Sweep
    from genz_core.engine import EngineProfile
    from genz_core.types import Model, Num, System
    from genz_core.validity import OnError

    Numbers = Num | Sequence[float] | np.ndarray


def estimate(
    model: str | Path | Model | Mapping[str, Any],
    *,
    system: str | Path | System = "h100-sxm5-80gb",
    engine: str | EngineProfile = "generic",
    batch: Numbers = 1,
    isl: Numbers = 1024,
    osl: Numbers = 128,
    images: int = 0,
    image_size: str = "",
    audio_seconds: float = 0.0,
    diffusion_steps: int = 0,
    block_length: int = 0,
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
    redundant_experts: Numbers = 0,
    overlap: str = "none",
    offload: str = "",
    on_error: OnError = "raise",
) -> Estimate:
    """Price a static batch: TTFT, TPOT, memory, cost, each latency beside its bound and interval.

    Args:
        model: name, Hugging Face id, path to a config.json, its parsed content, or a `Model`.
        system: slug, alias, path to a YAML, or a `System`.
        engine: trtllm, vllm, sglang, hf, llama.cpp ..., with a version if it matters ("vllm 0.6.3",
            "llama.cpp b6918", "vllm 2024-05"), or an `EngineProfile`.
        batch: sequences at once.  isl, osl: prompt and output tokens of each.
        images, image_size: images of each prompt, whose tokens add to the isl, and their width and
            height in pixels ("1024x768").  audio_seconds: of sound, for a model that hears.
        diffusion_steps, block_length: passes of a diffusion model over an answer, and tokens that
            it refines together.
        weights, moe_weights, kv, activations, compute: number formats; "" for the checkpoint's
            own or the engine's default.
        tp, pp, dp, cp: degrees of tensor, pipeline, attention-data and context parallelism.
        ep, moe_tp: how the experts are split, ep * moe_tp = tp * dp; either follows from the other.
        expert_imbalance: rows of the busiest ep rank over the mean of all.
        redundant_experts: copies of busy experts, so that ep divides all of them.
        overlap: what runs beside the exchange of tokens, "shared_experts" or "two_batch".
        offload: move what does not fit to the host, "weights", "kv", or
            "experts", which are computed there; "levels" places weights and cache over the
            device's own memory and its second one.
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
    from app.scenario.local_files import sources

    return results.estimate(**sources(arguments))


def sweep(
    model: str | Path | Model | Mapping[str, Any] | Sequence[str],
    *,
    system: str | Path | System | Sequence[str] = "h100-sxm5-80gb",
    engine: str | EngineProfile | Sequence[str] = "generic",
    weights: str | Sequence[str] = "",
    moe_weights: str | Sequence[str] = "",
    kv: str | Sequence[str] = "",
    activations: str | Sequence[str] = "",
    compute: str | Sequence[str] = "",
    on_error: OnError = "status",
    output: str | Path | None = None,
    bounds_only: bool = False,
    **axes: Any,
) -> Sweep | SweptTable:
    """Price every combination of some axes.

    Args:
        model: one, several, or a YAML file of axes (docs/planning.md).
        axes: values of batch, isl, osl, tp, pp, dp, ep and cp, in the order they vary; a number
            is an axis of one value.  With several names, a file, or any other axis of the points
            file (concurrency, rate, ...), also a range {"from": 1, "to": 8, "step": 1}.
        on_error: see `estimate`; by default a combination that cannot run has a reason code.
        output: where the table goes, .parquet or .csv; it is taken up again where it stopped.
        bounds_only: the least times alone.

    Returns:
        A table, one row a combination.

    Raises:
        RidgelineError: an axis or a value that cannot be.

    >>> table = sweep("meta-llama/Llama-3.1-8B", system="h100", batch=[1, 8, 64], tp=[1, 2])
    >>> len(table), table.rows[0]["status"]
    (6, 'ok')
    """
    arguments = dict(locals())
    from app.planning import sweep_result
    from app.scenario import results
    from app.scenario.local_files import sources

    output, bounds_only = arguments.pop("output"), arguments.pop("bounds_only")
    if output is not None or bounds_only or sweep_result.several(arguments):
        return sweep_result.sweep(arguments, output, bounds_only, sources)
    return results.sweep(**sources(arguments))
