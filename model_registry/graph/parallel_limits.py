"""Whether degrees of parallelism can split a model, and the nearest degrees that can.

Each block type states in `limits` (see `model_registry.spec`) what a degree must divide; this file
collects the limits over the layers and words the refusal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from genz_core.common.memo import ByIdentity
from genz_core.types import DEGREES, Parallelism, scalar
from model_registry.spec import Attention, Block, ModelSpec, SplitLimit

#: Larger degrees are not suggested.
_LARGEST_NEAR = 1024
_LIMITS: ByIdentity[list[SplitLimit]] = ByIdentity()


#: Sizes that the graph pads, by the noun of their limit; see `genz_core.engine.Padding`.
_FILLED = {
    "experts": "experts",
    "attention heads": "heads",
    "KV heads": "heads",
    "feed-forward columns": "heads",
}


def fillable(spec: ModelSpec) -> frozenset[str]:
    """What an engine can pad in a model: "experts", "heads", "windows"."""
    sizes = {_FILLED[limit.what] for limit in split_limits(spec) if limit.what in _FILLED}
    blocks = (block for layer in spec.layers for block in layer.blocks)
    attentions = [block for block in blocks if isinstance(block, Attention)]
    windowed = any(block.window or block.chunk for block in attentions)
    return frozenset(sizes | ({"windows"} if windowed else set()))


def with_whole_caches(spec: ModelSpec) -> ModelSpec:
    """The model with the whole sequence in the cache of every attention."""
    whole = {
        layer: replace(layer, blocks=tuple(map(_with_whole_cache, layer.blocks)))
        for layer in set(spec.layers)
    }
    return replace(spec, layers=tuple(whole[layer] for layer in spec.layers))


def _with_whole_cache(block: Block) -> Block:
    return replace(block, whole_cache=True) if isinstance(block, Attention) else block


def invalid_reason(
    spec: ModelSpec, par: Parallelism, filled: frozenset[str] = frozenset()
) -> str | None:
    """Why scalar degrees cannot split `spec`, in a sentence with the nearest that can; or None.

    filled: what the engine pads; a degree up to its number need not divide it.
    """
    degrees = {name: scalar(getattr(par, name)) for name in (*DEGREES, "redundant_experts")}
    for name, degree in list(degrees.items())[: len(DEGREES)]:
        if degree < 1 or degree != int(degree):
            return f"{name} {degree:g} is not a degree of parallelism; use a whole number from 1"
    if degrees["pp"] > len(spec.layers):
        return f"pp {degrees['pp']:g} exceeds the {len(spec.layers)} layers of {spec.name}"
    if spec.kind != "decoder" and (reason := _undivided(spec, degrees)):
        return reason
    limits = [limit for limit in split_limits(spec) if not _fills(limit, degrees, filled)]
    return _exceeded(spec, limits, "tp", int(degrees["tp"])) or _experts_reason(
        spec, limits, degrees, scalar(par.expert_tp)
    )


def _fills(limit: SplitLimit, degrees: Mapping[str, float], filled: frozenset[str]) -> bool:
    """Whether the engine pads the size of a limit; experts are replicated as often as needed."""
    if _FILLED.get(limit.what) not in filled:
        return False
    return limit.degree == "ep" or limit.copied or degrees[limit.degree] <= limit.size


def _undivided(spec: ModelSpec, degrees: Mapping[str, float]) -> str | None:
    """Why a pipeline or context split of an encoder or its model is refused: no engine does it."""
    for name in ("pp", "cp"):
        if degrees[name] > 1:
            kind = f"{spec.kind} model"
            return (
                f"{name} {degrees[name]:g} splits {spec.name}, of the kind {kind}, which no engine "
                "splits that way; use tp or dp"
            )
    return None


def split_limits(spec: ModelSpec) -> list[SplitLimit]:
    """Every size that a degree must divide in some layer, each once; the result must not be
    changed.
    """
    return _LIMITS.get(lambda: _limits_of(spec), spec)


def _limits_of(spec: ModelSpec) -> list[SplitLimit]:
    layers = (*(spec.encoder.layers if spec.encoder else ()), *spec.layers)
    blocks = dict.fromkeys(block for layer in layers for block in layer.blocks)
    return list(dict.fromkeys(limit for block in blocks for limit in block.limits()))


def _exceeded(spec: ModelSpec, limits: list[SplitLimit], name: str, degree: int) -> str | None:
    """The first limit that does not allow the degree called `name`, and the nearest degree that all
    limits allow; None where all allow it.
    """
    here = [limit for limit in limits if limit.degree == name]
    broken = next((limit for limit in here if not limit.allows(degree)), None)
    if broken is None:
        return None
    fine = [d for d in range(1, _LARGEST_NEAR + 1) if all(limit.allows(d) for limit in here)]
    near = _near(fine, degree)
    return f"{name} {degree} does not divide {broken} of {spec.name}; nearest: {name} {near}"


def _near(fine: list[int], degree: int) -> str:
    """The possible degrees next to one that is not: "2 or 4"."""
    below = max((d for d in fine if d < degree), default=None)
    above = min((d for d in fine if d > degree), default=None)
    return " or ".join(str(d) for d in (below, above) if d is not None)


def _experts_reason(
    spec: ModelSpec, limits: list[SplitLimit], degrees: Mapping[str, float], moe_tp: float
) -> str | None:
    """Why ep and moe_tp cannot split the experts: together they use all tp x dp devices, ep
    divides the experts' number and moe_tp their width.  None without experts."""
    if not any(limit.degree == "ep" for limit in split_limits(spec)):
        return None
    ep, devices = int(degrees["ep"]), int(degrees["tp"] * degrees["dp"])
    if devices % ep:
        fine = [d for d in range(1, devices + 1) if devices % d == 0]
        return f"ep {ep} does not divide tp x dp = {devices} devices; nearest: ep {_near(fine, ep)}"
    if ep * moe_tp != devices or moe_tp != int(moe_tp):
        return f"moe_tp {moe_tp:g} x ep {ep} is not tp x dp = {devices} devices"
    return _uneven_experts(spec, limits, ep, int(degrees["redundant_experts"])) or _exceeded(
        spec, limits, "moe_tp", int(moe_tp)
    )


def _uneven_experts(
    spec: ModelSpec, limits: list[SplitLimit], ep: int, redundant: int
) -> str | None:
    """Why ep does not divide the experts with their redundant copies, and which number
    would work.
    """
    sizes = [limit.size for limit in limits if limit.degree == "ep"]
    if all((size + redundant) % ep == 0 for size in sizes):
        return None
    if redundant:
        size = next(size for size in sizes if (size + redundant) % ep)
        held = f"the {size} experts and {redundant} redundant ones of {spec.name}"
        return f"ep {ep} does not divide {held}; use {-size % ep} redundant experts"
    refused = _exceeded(spec, limits, "ep", ep) or ""
    more = -sizes[0] % ep
    return f"{refused}; or {more} redundant experts" if ep < sizes[0] else refused
