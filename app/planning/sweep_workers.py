"""Pricing the parts of a sweep: in this process, on all cores, or on a Dask cluster."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from app.planning import sweep_block
from app.planning.sweep_axes import Block
from app.planning.sweep_block import Columns
from app.simulation.executor import Where, outcomes


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of a block that are priced and written together."""

    number: int
    block: Block
    start: int
    stop: int


Keep = Callable[[Part, Columns], None]


def priced(
    parts: Sequence[Part],
    bounds_only: bool,
    where: Where,
    keep: Keep,
    cancelled: Callable[[], bool],
) -> Iterator[Part]:
    """Yields each part as soon as it is priced and stored; none after a cancellation.

    keep: writes the columns of a part; run by the process that priced it, or here for a cluster.

    Raises:
        InvalidValue: Dask is not installed.
        MeasurementError: a worker died, or no cluster answers.
        RidgelineError: an unknown name.
    """
    if not parts:
        return
    if where.here(len(parts)):
        yield from _here(parts, bounds_only, keep, cancelled)
        return
    there = None if where.cluster else keep
    pieces = {at: (part, bounds_only, there) for at, part in enumerate(parts)}
    for at, columns in outcomes(_price, pieces, where, cancelled):
        if columns is not None:
            keep(parts[at], columns)
        yield parts[at]


def _here(
    parts: Sequence[Part], bounds_only: bool, keep: Keep, cancelled: Callable[[], bool]
) -> Iterator[Part]:
    found: dict[int, Any] = {}
    for part in parts:
        if cancelled():
            return
        names = found.get(id(part.block))
        if names is None:
            names = found[id(part.block)] = sweep_block.resolve(part.block)
        keep(part, sweep_block.price(part.block, names, part.start, part.stop, bounds_only))
        yield part


def _price(part: Part, bounds_only: bool, keep: Keep | None) -> Columns | None:
    """A part's columns, or None where they were stored; runs in a worker."""
    names = sweep_block.resolve(part.block)
    columns = sweep_block.price(part.block, names, part.start, part.stop, bounds_only)
    if keep is None:
        return columns
    keep(part, columns)
    return None
