"""Price equal loads once: configurations are grouped by the numbers that determine a figure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from genz_core.alone.program_choice import step_seconds as one_step_seconds
from genz_core.deployment import Deployment
from genz_core.phases import decode, prefill
from genz_core.types import Array, Num, Parallelism, Places, Workload
from genz_core.validity import columns, split_of

_ONE: Places = np.zeros(1, dtype=np.intp)


@dataclass(frozen=True, slots=True)
class Kinds:
    """Groups of equal configurations.

    first: the first configuration of each group, [kinds].  of: the group of each, [configs].
    """

    first: Places
    of: Places

    @classmethod
    def told_by(cls, numbers: Iterable[Array]) -> Kinds:
        """Groups of configurations that agree in all of the given numbers, each [configs]."""
        code: Array | Places = np.zeros(0)
        for column in numbers:
            if column.size == 1:
                return cls(_ONE, _ONE)
            if not code.size:
                code = column
            elif column.size and np.any(column != column[0]):
                values, places = np.unique(column, return_inverse=True)
                code = np.unique(code, return_inverse=True)[1] * values.size + places
        _, first, of = np.unique(code, return_index=True, return_inverse=True)
        return cls(first, of)


def picked_columns(record: Any, chosen: Places) -> dict[str, Array]:
    """{field: its columns of the chosen configurations} of a record's arrays, [...,
    configs] each, contiguous.
    """
    values = ((field.name, getattr(record, field.name)) for field in fields(record))
    return {
        name: value.take(chosen, axis=-1) for name, value in values if isinstance(value, np.ndarray)
    }


def step_seconds(
    deployed: Deployment, phase: Literal["prefill", "decode"], load: Workload, split: Parallelism
) -> tuple[Array, Array, Array]:
    """Time of a phase of each load, the host's part of it, and its lower bound [s], [configs] each.

    Equal loads are priced once.
    """
    numbers = columns(load, split)
    kinds = Kinds.told_by(numbers.values())
    once: dict[str, Num] = {name: column[kinds.first] for name, column in numbers.items()}
    if kinds.first.size == 1:
        once = {name: float(column[kinds.first[0]]) for name, column in numbers.items()}
    varying = {name: once[name] for name in once if np.ndim(getattr(split, name, 0.0))}
    loads = Workload(once["batch"], once["isl"], once["osl"], once["cached"])
    few = split_of(split, varying) if varying else split
    alone = one_step_seconds(deployed, loads, few, _PHASES.index(phase))
    if alone is None:
        price = prefill if phase == "prefill" else decode
        priced = price(deployed.model, deployed.system, loads, few, deployed.engine)
        alone = priced.total_s, priced.host_s, priced.bound_total_s
    total, host, bound = (seconds[kinds.of] for seconds in alone)
    return total, host, bound


_PHASES = ("prefill", "decode")
