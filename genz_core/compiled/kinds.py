"""Kinds of lanes: what distinguishes steps besides their sizes; each kind has its plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genz_core.compiled.lanes import OF_GRAPH, Lanes, Some
from genz_core.symbolic.formulas import Formulas
from genz_core.types import Array, Group, Parallelism


@dataclass(frozen=True, slots=True)
class Kind:
    """What distinguishes steps besides degrees and sizes.

    reads: they prefill prompts, with more new tokens per sequence than a decoding sequence has;
    otherwise they decode.  fullest: the sequences of the fullest rank are given, and differ between
    nodes.  drafted, sampled: as in `Group`.
    """

    reads: bool
    fullest: bool = False
    drafted: float = 0.0
    sampled: float = 1.0

    def group(self, formulas: Formulas) -> Group:
        """A group of sequences with symbols for its sizes."""
        some, decoded = float(np.finfo(float).tiny), 1.0 + self.drafted
        size: Callable[[str, float], Any] = formulas.size
        return Group(
            size("sequences", some),
            size("new", float(np.nextafter(decoded, np.inf))) if self.reads else decoded,
            size("cached", 0.0),
            self.drafted,
            self.sampled,
            size("prompt", 0.0),
            size("fullest", some) if self.fullest else None,
        )

    def has(self, lanes: Lanes) -> bool:
        """Whether lanes are of this kind at all of their nodes; a lane may read prompts at some
        nodes only.
        """
        return self.reads or bool((lanes.new == 1.0 + self.drafted).all())


def kinds(lanes: Lanes, most: float) -> list[tuple[Parallelism, Kind, Some]]:
    """(degrees as numbers, kind, lanes) of the lanes that each plan prices; none of them if there
    are more than `most`.
    """
    split = lanes.split
    degrees = ((name, getattr(split, name)) for name in OF_GRAPH)
    columns: dict[str, Array] = {name: values for name, values in degrees if np.ndim(values)}
    varying = [column for column in columns.values() if np.any(column != column[0])]
    reads = np.all(lanes.new > 1.0 + lanes.drafted, axis=0)
    given = lanes.fullest is not None, lanes.drafted, lanes.sampled
    if not varying and (reads.all() or not reads.any()):
        return [(_numbers(columns, split, 0), Kind(bool(reads[0]), *given), slice(None))]
    code = reads.astype(np.intp)
    for column in varying:
        values, of = np.unique(column, return_inverse=True)
        code = code * len(values) + of
    _, first, of = np.unique(code, return_index=True, return_inverse=True)
    if len(first) > most:
        return []
    return [
        (_numbers(columns, split, one), Kind(bool(reads[one]), *given), np.flatnonzero(of == at))
        for at, one in enumerate(first.tolist())
    ]


def _numbers(columns: Mapping[str, Array], split: Parallelism, at: int) -> Parallelism:
    """The degrees of one lane; columns: the degrees that are arrays [lanes]."""
    if not columns:
        return split
    degrees: dict[str, Any] = {name: float(column[at]) for name, column in columns.items()}
    return replace(split, **degrees)
