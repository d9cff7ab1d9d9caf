"""Notes on weights that are only stored in their format and multiplied in another."""

from collections.abc import Iterator
from contextlib import suppress

from genz_core.common.memo import ByIdentity
from genz_core.errors import MissingSpec
from genz_core.graphs import Model
from genz_core.latency.roofline import fastest_of
from genz_core.precision import bytes_of
from genz_core.systems import System
from genz_core.types import Parallelism, Step

_SIXTEEN_BIT = 2.0
_KEPT: ByIdentity[tuple[str, ...]] = ByIdentity()


def format_notes(model: Model, system: System, products: str) -> tuple[str, ...]:
    """A note on each weight format below 16 bits whose products run in 16 bits or more.

    products: the engine's own arithmetic type for them, see `EngineProfile`.
    """
    if products in system.peak_flops_per_s:
        return ()
    return _KEPT.get(lambda: tuple(_notes(model, system)), model, system)


def _notes(model: Model, system: System) -> Iterator[str]:
    ops = model.graph(Step.decode(1.0, 1.0), Parallelism()).ops
    with suppress(MissingSpec):  # the price refuses a forced arithmetic that the system lacks
        pairs = dict.fromkeys((op.weights, fastest_of(op, system)) for op in ops if op.weights)
        for weights, runs in pairs:
            if bytes_of(weights) < _SIXTEEN_BIT <= bytes_of(runs):
                yield (
                    f"{weights} weights are unpacked to {runs} for their products on {system.name}"
                )
