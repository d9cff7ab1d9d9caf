"""What a fit works on: one series of points of one device, shapes to fit apart from the rest."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

import hardware_db
from genz_core.latency.device import Device
from genz_core.latency.measured_operators import OperatorPoints, bound_s
from genz_core.operator_calibration import TOLERANCE
from genz_core.types import System
from hardware_db.fit.tables import Series, read

HELD_OUT_SHARE = 0.4
TRAIN_POINTS = 2400
TEST_POINTS = 2000


@dataclass(frozen=True, slots=True)
class Sample:
    """A series with the system it was measured on; `train` and `test` share no shape family.

    impossible: points that were left out because physics forbids them.
    """

    series: Series
    system: System
    train: pd.DataFrame
    test: pd.DataFrame
    impossible: int

    @property
    def device(self) -> Device:
        return Device.of(self.system)

    @property
    def family(self) -> str:
        return self.system.family

    @property
    def slug(self) -> str:
        return self.system.slug

    @property
    def key(self) -> tuple[str, str]:
        return self.series.operator, self.series.fmt

    def points(self, rows: pd.DataFrame) -> OperatorPoints:
        return self.series.points(rows)


def samples(operator: str, folders: Iterable[str]) -> list[Sample]:
    """The samples of one class over devices, every format."""
    found = []
    for folder in folders:
        system = hardware_db.facts(folder).system()
        found += [_split(series, system) for series in read(folder, operator)]
    return found


def _split(series: Series, system: System) -> Sample:
    """Hold out 40 % of the shape families; draw at most so many points of each side."""
    points = series.points()
    allowed = points.measured_s >= bound_s(points, system) / (1.0 + TOLERANCE)
    table = series.table[allowed]
    rng = np.random.default_rng(seed(series))
    held = table["shape"].isin(_held_out(series, table, rng))
    return Sample(
        series,
        system,
        _draw(table[~held], TRAIN_POINTS, rng),
        _draw(table[held], TEST_POINTS, rng),
        int((~allowed).sum()),
    )


def _held_out(series: Series, table: pd.DataFrame, rng: np.random.Generator) -> list[int]:
    """Shape families that fit nothing; of message sizes, which form a line, every second one."""
    families = np.sort(table["shape"].unique())
    if series.operator == "collective":
        return list(families[1::2])
    return list(rng.permutation(families)[: round(HELD_OUT_SHARE * len(families))])


def seed(series: Series) -> int:
    """The same draw on every machine: from the names alone."""
    return zlib.crc32(f"{series.device} {series.operator} {series.fmt}".encode())


def _draw(table: pd.DataFrame, most: int, rng: np.random.Generator) -> pd.DataFrame:
    if len(table) > most:
        table = table.iloc[np.sort(rng.choice(len(table), most, replace=False))]
    return table.reset_index(drop=True)
