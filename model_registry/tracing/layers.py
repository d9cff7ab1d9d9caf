"""Decoder layers of a module tree: paths, signatures, and the replay of equal layers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from model_registry.tracing.records import DispatchedOp, Recorder, Segment, mask_window

_LAYER_LISTS = frozenset({"layers", "h", "blocks", "layer", "block"})
_BOOKKEEPING = frozenset({"layer_idx", "layer_id", "layer_number", "training"})


class LayerHooks:
    """Hooks that track the module path, split the records by layer and reuse records of equal
    layers.
    """

    def __init__(self, model: Any, recorder: Recorder, replay: bool) -> None:
        self.model, self.recorder, self.replay = model, recorder, replay
        self.segments: list[Segment] = []
        self._seen: dict[Any, tuple[int, Any]] = {}
        self.layers = decoder_layers(model)
        self._sharing = _sharing_layers(self.layers)

    @contextlib.contextmanager
    def hooked(self) -> Iterator[None]:
        """Install the hooks on every module, and remove them after the block."""
        handles, replaced = [], []
        for name, module in self.model.named_modules():
            enter, leave = self._path_hooks(name)
            handles += [
                module.register_forward_pre_hook(enter),
                module.register_forward_hook(leave),
            ]
        for path, index, layer in self.layers:
            layer.forward = self._layer(path, index, layer, layer.forward)
            replaced.append(layer)
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            for layer in replaced:
                del layer.__dict__["forward"]

    def _path_hooks(self, name: str) -> tuple[Callable[..., None], Callable[..., None]]:
        stack = self.recorder.path
        return (lambda *_: stack.append(name)), (lambda *_: (stack.pop(), None)[1])

    def _layer(self, path: str, index: int, layer: Any, forward: Any) -> Callable[..., Any]:
        own = path if path in self._sharing or not self.replay else ""
        alike = (path.rpartition(".")[0], own, signature(layer))

        def run(*args: Any, **kwargs: Any) -> Any:
            self.close()
            key = (*alike, tuple(mask_window(value) for value in (*args, *kwargs.values())))
            if key in self._seen:
                position, out = self._seen[key]
                seen = self.segments[position]
                self.segments[position] = Segment(seen.path, (*seen.layers, index), seen.records)
                return out
            out = forward(*args, **kwargs)
            self._seen[key] = (len(self.segments), out)
            self.segments.append(Segment(path, (index,), self._take()))
            return out

        return run

    def close(self) -> None:
        """End the segment outside layers that is being recorded."""
        records = self._take()
        if records:
            self.segments.append(Segment("", (), records))

    def _take(self) -> tuple[DispatchedOp, ...]:
        taken = tuple(self.recorder.records)
        self.recorder.records.clear()
        return taken


def decoder_layers(model: Any) -> list[tuple[str, int, Any]]:
    """(path, index, module) of the repeating layers: the longest lists of modules by name."""
    import torch

    layers: list[tuple[str, int, Any]] = []
    lists: tuple[str, ...] = ()
    for name, module in model.named_modules():
        repeats = isinstance(module, torch.nn.ModuleList) and len(module) > 0
        listed = repeats and name.rpartition(".")[2] in _LAYER_LISTS
        if listed and not name.startswith(lists):
            lists = (*lists, f"{name}.")
            layers += [(f"{name}.{index}", index, layer) for index, layer in enumerate(module)]
    return layers


def _sharing_layers(layers: list[tuple[str, int, Any]]) -> set[str]:
    """Paths of the layers that share a parameter with another layer."""
    owner: dict[int, str] = {}
    sharing: set[str] = set()
    for path, _, layer in layers:
        for parameter in layer.parameters():
            first = owner.setdefault(id(parameter), path)
            if first != path:
                sharing |= {first, path}
    return sharing


def signature(layer: Any) -> tuple[Any, ...]:
    """Classes, settings and shapes inside a layer; equal for layers that run the same operators."""
    parts: list[Any] = []
    for name, module in layer.named_modules():
        settings = tuple(
            sorted(
                (key, repr(value))
                for key, value in vars(module).items()
                if _is_setting(value) and key not in _BOOKKEEPING and not key.startswith("_")
            )
        )
        parts.append((name, type(module).__name__, settings))
    parts += [(name, tuple(p.shape), str(p.dtype)) for name, p in layer.named_parameters()]
    return tuple(parts)


def _is_setting(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return len(value) <= 64 and all(_is_setting(entry) for entry in value)
    return isinstance(value, int | float | str | bool | None)
