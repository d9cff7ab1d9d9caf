"""The best deployments for a load: `plan`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.planning.result import Planned
    from app.simulation.trace_file import Trace
    from genz_core.serving.simulation import Requests
    from genz_core.types import Model, System

    Degrees = int | Sequence[int] | str


def plan(
    model: str | Path | Model | Mapping[str, Any],
    *,
    systems: str | Path | System | Sequence[str | Path | System] = "h100-sxm5-80gb",
    devices: str | int | Sequence[int] = "1:8",
    engine: str | Sequence[str] = "",
    rate: float | None = None,
    concurrency: int | None = None,
    trace: str | Path | Trace | Requests | None = None,
    isl: int = 1024, osl: int = 256, length_ratio: float = 1.0,
    target: str = "",
    rank: str = "",
    confidence: float = 0.0,
    weights: str | Sequence[str] = "checkpoint", kv: str | Sequence[str] = "checkpoint",
    tp: Degrees = (), pp: Degrees = (), dp: Degrees = (), ep: Degrees = (),
    max_num_seqs: Degrees = (),
    kind: str | Sequence[str] = "", cross_systems: bool = False,
    speculation: str | Sequence[str] = "", draft_tokens: int | None = None,
    draft_model: str | Path | Model | Mapping[str, Any] = "",
    acceptance: str | float | Sequence[float] = "",
    prefix_hits: float = 0.0, shared_tokens: int = 0, turns: int = 1, prefix_tier: str = "device",
    samples: int = 1, beams: int = 1,
    lora_rank: int = 0, lora_adapters: int = 1,
    offload: str | Sequence[str] = "",
    price: str | Mapping[str, float] = "",
    top: int = 5,
    simulate: bool = True,
    pays: bool = False,
) -> Planned:  # fmt: skip
    """Find the deployments that serve a load within targets, best first.

    Args:
        systems: names, files or objects; "h200,b200".  devices: least and most of the whole
            deployment, "1:64".  engine: one or several; by default those that run on a system.
        rate: requests per second, or
        concurrency: open requests, or
        trace: a file of requests, or `Requests`; give one of them.
        isl, osl: tokens, uniform in [length_ratio, 1] of them.
        target: what must hold, "ttft_p95 < 500ms, tpot < 30ms, usd_per_mtok < 0.4".
        rank: the figure that orders the plans; by default cost, else devices.
        confidence: least probability that all targets are met; what nothing validates has none.
        weights, kv: number formats to try, "checkpoint,fp8".
        tp, pp, dp, ep: degrees of a replica to try; by default all that can be.
        max_num_seqs: limits of a rank's batch to try.
        kind: "aggregated", "disaggregated" (prompts have workers of their own), or both.
        cross_systems: whether prompts may be read on another system than answers are written on.
        speculation, draft_tokens, draft_model, acceptance: ways to draft, tried beside none; see
            `simulate`.
        prefix_hits: share of every prompt that is found in the cache, or
        shared_tokens: of a prompt that all requests start with, on top of isl, and
        turns: of a session, each with isl new tokens after all that was said before.
        prefix_tier: where found prefixes lie, "device" or "host".
        samples: answers to each prompt, all wanted; beams: of a search, one answer wanted.
        lora_rank, lora_adapters: rank and number of the LoRA adapters that requests name, evenly.
        offload: "weights", "kv" or "experts" on the host where the device is full, tried beside
            nothing there.
        price: rent of a device by system [USD per hour], "h200=3.5".
        top: plans to show.  simulate: whether these are simulated for their percentiles.
        pays: whether to say at which load drafts and prompts read apart stop paying.

    Returns:
        The plans as a table, and in `to_dict()` why the others lose, what would have to change
        where there is no plan, launch lines, and the measurement that would help most.

    Raises:
        RidgelineError: a name, a target or a number that cannot be.

    >>> found = plan("meta-llama/Llama-3.1-8B", systems="h100", rate=4, target="tpot < 20ms")
    >>> found.best["devices"], found.best["status"]
    (1, 'ok')
    """
    arguments = dict(locals())
    from app.planning import result
    from app.scenario.local_files import sources

    return result.plan(arguments.pop("model"), sources=sources, **arguments)
