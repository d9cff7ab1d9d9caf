"""Records of the tensor operators that a forward pass dispatches, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from genz_core.errors import InvalidValue

LARGEST_DISPATCH = 40_000


@dataclass(frozen=True, slots=True)
class DispatchedTensor:
    """A tensor of a record: shape, identity of its storage, name if it is a parameter.

    offset: its offset in elements, where it is a part of a parameter's storage.
    """

    shape: tuple[int, ...]
    storage: int
    parameter: str = ""
    floating: bool = True
    offset: int = 0

    @property
    def elements(self) -> int:
        """The product of its lengths."""
        count = 1
        for length in self.shape:
            count *= length
        return count


@dataclass(frozen=True, slots=True)
class DispatchedOp:
    """The record of one dispatched operator.

    path: module it ran in.  operator: name without overload ("mm", "attention", "experts").
    facts: sizes that shapes do not show (causal, window, top_k ...).
    """

    path: str
    operator: str
    inputs: tuple[DispatchedTensor, ...]
    outputs: tuple[DispatchedTensor, ...]
    facts: Mapping[str, float] = field(default_factory=dict)

    @property
    def parameters(self) -> tuple[DispatchedTensor, ...]:
        """The inputs that are parameters of the model."""
        return tuple(tensor for tensor in self.inputs if tensor.parameter)


@dataclass(frozen=True, slots=True)
class Segment:
    """The records of one decoder layer, or of the operators between layers.

    path: of the layer that was run ("" outside layers).  layers: all indices that it stands for.
    """

    path: str
    layers: tuple[int, ...]
    records: tuple[DispatchedOp, ...]


class Recorder:
    """Collects the records of one forward pass; see `capture.record_pass`."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.records: list[DispatchedOp] = []
        self.path: list[str] = [""]
        self.names = {_storage(p): name for name, p in model.named_parameters()}
        self.alive: list[Any] = []
        self.dispatched = 0

    def tensor(self, value: Any) -> DispatchedTensor:
        """The record of a torch tensor, which is kept alive so that its identity stays unique."""
        self.alive.append(value)
        storage = _storage(value)
        name = self.names.get(storage, "")
        offset = int(value.storage_offset()) if name else 0
        return DispatchedTensor(
            tuple(value.shape), storage, name, value.is_floating_point(), offset
        )

    def count(self) -> None:
        """Count one dispatch; raise `InvalidValue` beyond `LARGEST_DISPATCH`, as in a loop."""
        self.dispatched += 1
        if self.dispatched > LARGEST_DISPATCH:
            raise InvalidValue(
                f"the model runs more than {LARGEST_DISPATCH} operators for a few tokens; "
                "a size in its config is beyond any model"
            )

    def same(self, source: Any, copy: Any) -> None:
        """Give the copy of a parameter in another format the name of that parameter."""
        name = self.names.get(_storage(source))
        if name:
            self.alive.append(copy)
            self.names[_storage(copy)] = name

    def add(self, operator: str, inputs: Any, outputs: Any, **facts: float) -> None:
        """Record an operator that runs in the current module."""
        self.records.append(
            DispatchedOp(
                self.path[-1],
                operator,
                tuple(self.tensor(value) for value in _tensors(inputs)),
                tuple(self.tensor(value) for value in _tensors(outputs)),
                facts,
            )
        )

    def attention(
        self, module: Any, query: Any, key: Any, value: Any, mask: Any = None, **options: Any
    ) -> tuple[Any, None]:
        """Stand-in for an attention kernel: q, k, v [batch, heads, tokens, dim]."""
        own = getattr(module, "sliding_window", None)
        window = options.get("sliding_window", own) or mask_window(mask)
        causal = options.get("is_causal")
        causal = getattr(module, "is_causal", True) if causal is None else causal
        result = query.new_empty(query.shape[0], query.shape[2], query.shape[1], value.shape[-1])
        self.add(
            "attention",
            (query, key, value),
            result,
            causal=float(bool(causal)),
            window=float(window) if isinstance(window, int) else 0.0,
        )
        return result, None

    def experts(self, module: Any, hidden: Any, chosen: Any, weights: Any, *_: Any) -> Any:
        """Stand-in for the grouped products of routed experts: hidden [tokens, width]."""
        bank = [p for p in module.parameters() if p.dim() >= 2]
        result = hidden.new_empty(hidden.shape)
        self.add("experts", (hidden, *bank), result, **_bank_facts(module, hidden, chosen))
        return result


def marked_mask(mask: Any, window: int) -> Any:
    """`mask`, marked with the window of tokens that it allows, 0 for all earlier tokens."""
    mask.ridgeline_window = window
    return mask


def mask_window(mask: Any) -> int:
    """The window that `marked_mask` marked, 0 for anything else."""
    return int(getattr(mask, "ridgeline_window", 0))


def _bank_facts(module: Any, hidden: Any, chosen: Any) -> dict[str, float]:
    """Sizes of a set of experts, from its parameters; three matrices per expert imply a gate.

    idle_choices: of the router, for experts that pass a token through unchanged.
    """
    bank = [p for p in module.parameters() if p.dim() >= 2 and "bias" not in _name_in(module, p)]
    experts = bank[-1].shape[0] if bank[-1].dim() == 3 else module.num_experts
    intermediate = bank[-1].numel() // (experts * hidden.shape[-1])
    matrices = sum(p.numel() for p in bank) / bank[-1].numel()
    return {
        "experts": float(experts),
        "intermediate": float(intermediate),
        "top_k": float(chosen.shape[-1]),
        "idle_choices": float(getattr(module, "zero_expert_num", None) or 0),
        "gated": float(matrices > 2.5),
        "bias": float(any("bias" in name for name, _ in module.named_parameters())),
    }


def _name_in(module: Any, parameter: Any) -> str:
    return next(name for name, own in module.named_parameters() if own is parameter)


def _storage(value: Any) -> int:
    return int(value.untyped_storage()._cdata)


def _tensors(values: Any) -> Iterator[Any]:
    """The tensors in nested lists, tuples and dicts, in order."""
    import torch

    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _tensors(value)
    elif isinstance(values, Mapping):
        for value in values.values():
            yield from _tensors(value)
