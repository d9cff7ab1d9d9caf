"""Measured series, split into shapes to fit and shapes to hold out."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

import hardware_db
from genz_core.calibration.operator_calibration import TOLERANCE
from genz_core.latency.device import Device
from genz_core.latency.measured_operators import OperatorPoints, bound_s
from genz_core.systems import System
from hardware_db.fit.tables import MeasuredSeries, read

HELD_OUT_SHARE = 0.4
TRAIN_POINTS = 2400
TEST_POINTS = 2000


@dataclass(frozen=True, slots=True)
class SplitSeries:
    """A series and the system that was measured; `train` and `test` share no shape family.

    impossible: number of points left out because they are faster than the device's bound.
    """

    series: MeasuredSeries
    system: System
    train: pd.DataFrame
    test: pd.DataFrame
    impossible: int

    @property
    def device(self) -> Device:
        """The measured device, as the latency models see it."""
        return Device.of(self.system)

    @property
    def family(self) -> str:
        """Family of the system."""
        return self.system.family

    @property
    def slug(self) -> str:
        """Slug of the system."""
        return self.system.slug

    @property
    def key(self) -> tuple[str, str]:
        """(operator class, format)."""
        return self.series.operator, self.series.fmt

    def points(self, rows: pd.DataFrame) -> OperatorPoints:
        """Rows of the table as points."""
        return self.series.points(rows)


def samples(operator: str, folders: Iterable[str]) -> list[SplitSeries]:
    """The split series of one class over devices, all formats.  folders: of the tables."""
    splits = []
    for folder in folders:
        system = hardware_db.facts(folder).system()
        splits += [split(series, system) for series in read(folder, operator)]
    return splits


def split(series: MeasuredSeries, system: System) -> SplitSeries:
    """Hold out 40 % of the shape families; draw a limited number of points from each side."""
    points = series.points()
    allowed = points.measured_s >= bound_s(points, system) / (1.0 + TOLERANCE)
    table = series.table[allowed]
    rng = np.random.default_rng(seed(series))
    held_out = table["shape"].isin(_held_out(series, table, rng))
    return SplitSeries(
        series,
        system,
        _draw(table[~held_out], TRAIN_POINTS, rng),
        _draw(table[held_out], TEST_POINTS, rng),
        int((~allowed).sum()),
    )


def _held_out(series: MeasuredSeries, table: pd.DataFrame, rng: np.random.Generator) -> list[int]:
    """Shape families to hold out; for message sizes, which form a line, every second one."""
    families = np.sort(table["shape"].unique())
    if series.operator == "collective":
        return list(families[1::2])
    return list(rng.permutation(families)[: round(HELD_OUT_SHARE * len(families))])


def seed(series: MeasuredSeries) -> int:
    """Seed for the draws of a series, derived from its names so that every machine draws
    the same.
    """
    return zlib.crc32(f"{series.device} {series.operator} {series.fmt}".encode())


def _draw(table: pd.DataFrame, most: int, rng: np.random.Generator) -> pd.DataFrame:
    """At most `most` rows of a table, drawn at random."""
    if len(table) > most:
        table = table.iloc[np.sort(rng.choice(len(table), most, replace=False))]
    return table.reset_index(drop=True)
