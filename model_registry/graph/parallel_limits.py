"""Whether degrees of parallelism can split a model, and which ones near them can."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from genz_core.types import Num, Parallelism
from model_registry.spec import (
    Attention,
    Block,
    CompressedAttention,
    DeltaNet,
    FeedForward,
    LatentAttention,
    Mamba,
    Mamba2,
    Mixture,
    ModelSpec,
    SharedTransformer,
)

Rule = tuple[str, Callable[[int], bool]]
_NAMES = ("tp", "pp", "dp", "ep", "cp", "moe_tp")


def reason(spec: ModelSpec, par: Parallelism) -> str | None:
    """Why scalar degrees cannot split `spec`, in a sentence with the nearest that can; or None."""
    degrees = {name: _scalar(getattr(par, name)) for name in _NAMES[:-1]}
    degrees["moe_tp"] = _scalar(par.expert_tp)
    for name, degree in degrees.items():
        if name != "moe_tp" and (degree < 1 or degree != int(degree)):
            return f"{name} {degree:g} is no degree of parallelism; use a whole number from 1"
    if degrees["pp"] > len(spec.layers):
        return f"pp {degrees['pp']:g} exceeds the {len(spec.layers)} layers of {spec.name}"
    blocks = list(dict.fromkeys(block for layer in spec.layers for block in layer.blocks))
    return _first(spec, "tp", int(degrees["tp"]), _tp_rules(blocks)) or _experts(
        spec, degrees, [block for block in blocks if isinstance(block, Mixture)]
    )


def _scalar(value: Num) -> float:
    return float(np.asarray(value, dtype=float).reshape(-1)[0])


def _first(spec: ModelSpec, name: str, degree: int, rules: list[Rule]) -> str | None:
    """The first rule that a degree breaks, and the nearest degrees that break none."""
    for what, holds in rules:
        if not holds(degree):
            fine = [d for d in range(1, 1025) if all(rule(d) for _, rule in rules)]
            below = max((d for d in fine if d < degree), default=None)
            above = min((d for d in fine if d > degree), default=None)
            near = " or ".join(str(d) for d in (below, above) if d is not None)
            return f"{name} {degree} does not divide {what} of {spec.name}; nearest: {name} {near}"
    return None


def _tp_rules(blocks: list[Block]) -> list[Rule]:
    rules: dict[str, Rule] = {}
    for block in blocks:
        for what, size, copied in _sizes(block):
            text = f"the {size} {what}"
            rules[text] = (text, _copying(size) if copied else _dividing(size))
    return list(rules.values())


def _dividing(size: int) -> Callable[[int], bool]:
    return lambda degree: size % degree == 0


def _copying(size: int) -> Callable[[int], bool]:
    """Heads that may be copied: one divides the other."""
    return lambda degree: size % degree == 0 or degree % size == 0


def _sizes(block: Block) -> Iterator[tuple[str, int, bool]]:
    """(what, how many, copied when there are more devices) that tp divides."""
    if isinstance(block, Attention):
        yield "attention heads", block.heads, False
        yield "KV heads", block.kv_heads, True
    elif isinstance(block, LatentAttention):
        yield "attention heads", block.heads, False
    elif isinstance(block, CompressedAttention):
        yield "attention heads", block.heads, False
        yield "output groups", block.output_groups, True
    elif isinstance(block, SharedTransformer):
        yield "attention heads", block.heads, False
        yield "KV heads", block.kv_heads, True
        yield "feed-forward columns", block.intermediate, False
    elif isinstance(block, Mamba):
        yield "state-space channels", block.inner, False
    elif isinstance(block, Mamba2):
        yield "state-space heads", block.heads, False
        yield "state-space groups", block.groups, True
    elif isinstance(block, DeltaNet):
        yield "linear-attention value heads", block.value_heads, False
        yield "linear-attention key heads", block.key_heads, False
    elif isinstance(block, FeedForward):
        yield "feed-forward columns", block.intermediate, False
    elif isinstance(block, Mixture) and block.shared:
        yield "shared-expert columns", block.shared, False


def _experts(spec: ModelSpec, degrees: dict[str, float], banks: list[Mixture]) -> str | None:
    """ep divides the experts, moe_tp their width, and together they use the tp x dp devices."""
    if not banks:
        return None
    ep, moe_tp = int(degrees["ep"]), degrees["moe_tp"]
    devices = int(degrees["tp"] * degrees["dp"])
    if ep * moe_tp != devices or moe_tp != int(moe_tp):
        return (
            f"moe_tp {moe_tp:g} x ep {ep} is not tp x dp = {devices} devices; "
            f"ep must divide {devices}"
        )
    counts: list[Rule] = [
        (f"the {bank.experts} experts", _dividing(bank.experts)) for bank in banks
    ]
    widths: list[Rule] = [
        (f"the {bank.intermediate} columns of an expert", _dividing(bank.intermediate))
        for bank in banks
    ]
    return _first(spec, "ep", ep, counts) or _first(spec, "moe_tp", int(moe_tp), widths)
