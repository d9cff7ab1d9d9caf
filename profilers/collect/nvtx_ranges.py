"""NVTX ranges of a run's phases and modules, in their own domain and colours.

The nvtx package marks them on CPUs and GPUs alike; where it is missing, torch's own ranges are used
on a GPU, without domain and colour.  Without a profiler attached a range costs next to nothing.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

#: Domain of all ranges: Nsight filters by it ("prefill@ridgeline", "ridgeline@decode/").
DOMAIN = "ridgeline"
#: Colour of a range by its name, as RRGGBB.
COLORS = {"prefill": 0x2F6FDB, "decode": 0xE07B39}
_MODULE_COLOR, _OTHER_COLOR = 0x8B95A1, 0x5A6675

Push = Callable[[str, int], None]
Pop = Callable[[], None]


@contextmanager
def phase_range(name: str) -> Iterator[None]:
    """An NVTX range and an annotation of torch's profiler around the block."""
    import torch

    push, pop = _ranges()
    with torch.profiler.record_function(name):
        push(name, COLORS.get(name, _OTHER_COLOR))
        try:
            yield
        finally:
            pop()


@contextmanager
def module_ranges(model: Any, wanted: bool = True) -> Iterator[None]:
    """An NVTX range around the forward pass of every module, named by its path."""
    handles = []
    if wanted:
        push, pop = _ranges()
        for name, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(_opening(push, name or "model")))
            handles.append(module.register_forward_hook(_closing(pop), always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _opening(push: Push, name: str) -> Callable[[Any, Any], None]:
    def before(_module: Any, _inputs: Any) -> None:
        push(name, _MODULE_COLOR)

    return before


def _closing(pop: Pop) -> Callable[[Any, Any, Any], None]:
    def after(_module: Any, _inputs: Any, _outputs: Any) -> None:
        pop()

    return after


@cache
def _ranges() -> tuple[Push, Pop]:
    """The functions that open a range and close the last one on this thread."""
    if importlib.util.find_spec("nvtx") is not None:
        import nvtx

        domain = nvtx.get_domain(DOMAIN)
        return _of_domain(domain), domain.pop_range
    import torch

    if torch.cuda.is_available():  # needs a GPU
        mark = torch.cuda.nvtx
        return (lambda name, _color: mark.range_push(name)), mark.range_pop
    return (lambda _name, _color: None), (lambda: None)


def _of_domain(domain: Any) -> Push:
    """The function that opens a range in a domain; each name and colour is registered once."""

    @cache
    def attributes(name: str, color: int) -> Any:
        return domain.get_event_attributes(message=name, color=color)

    return lambda name, color: domain.push_range(attributes(name, color))
