"""Operator tables of other public benchmarks, converted to one form, as measured series.

A folder holds one CSV (or CSV.gz) per class with the columns `source, device, operator, fmt,
<dimensions>, latency_s, warm_cache, shape, kernel, note`: dimensions as in `OperatorPoints`, times
in seconds, `warm_cache` 0 where the operands were cold and empty where that is not known, and
`shape` for the rows that a split keeps together.  `SOURCES` gives the origin and licence of the
figures.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from hardware_db.fit.tables import MeasuredSeries


@dataclass(frozen=True, slots=True)
class Source:
    """A public repository with measured operators: its name with the commit, and its licence."""

    name: str
    licence: str


SOURCES: Mapping[str, Source] = {
    "aiter": Source("ROCm/aiter e404860", "MIT"),
    "frontier": Source("NetX-lab/Frontier a4b22df", "MIT"),
    "llmservingsim": Source("casys-kaist/LLMServingSim 5daddb2", "MIT"),
    "pipeweave": Source("zksainx/pipeweave 55e0317", "Apache-2.0"),
}
#: {class: file}, in the order of the fit. Collectives over PCIe depend on the host and are left
#: out.
_FILES: Mapping[str, str] = {
    "gemm": "gemm",
    "prefill_attention": "attention",
    "decode_attention": "attention",
    "moe": "moe",
    "pointwise": "pointwise",
    "collective": "collective",
}
#: Devices whose collectives run behind switches inside their machine, so they are the same in any
#: other.
_SWITCHED = frozenset({"a800-sxm4-80gb", "h20-96gb", "h800-sxm5-80gb"})
#: Formats of the tables by the key of the constants that price them; the others keep their name.
_FORMATS: Mapping[str, str] = {"mxfp4_mxfp4": "nvfp4"}
#: Formats that duplicate another series of the device.
_LEFT_OUT = frozenset({"mxfp8"})
#: Series (source, class, device) whose times include launch gaps, because they were timed by
#: events.
_WITH_GAPS = frozenset(
    {
        ("frontier", "gemm", "a800-sxm4-80gb"),
        ("frontier", "moe", "a800-sxm4-80gb"),
    }
)
#: Where two sources have a series, the first counts: frontier's fp8 products quantise their inputs
#: as engines do.
_ORDER = ("frontier", "aiter", "llmservingsim", "pipeweave")
_LEAST_POINTS, _LEAST_SHAPES = 24, 3
_OF_NO_SHAPE = ["source", "device", "operator", "warm_cache", "kernel", "note"]


def read_folder(folder: Path, devices: Collection[str]) -> list[MeasuredSeries]:
    """The series of `devices` (slugs) in a folder of tables, by class, device and format.

    Series of fewer than 24 points or three shapes are left out, since no points could be held out.
    """
    found: dict[tuple[str, str, str], MeasuredSeries] = {}
    for operator, name in _FILES.items():
        table = _table(folder, name)
        rows = table[(table["operator"] == operator) & table["device"].isin(devices)]
        for (device, source, fmt), part in rows.groupby(["device", "source", "fmt"], sort=True):
            large = len(part) >= _LEAST_POINTS and part["shape"].nunique() >= _LEAST_SHAPES
            if large and (source, operator, device) not in _WITH_GAPS:
                series = _series(operator, str(device), _FORMATS.get(str(fmt), str(fmt)), part)
                key = (operator, series.device, series.fmt)
                found[key] = min(found.get(key, series), series, key=_rank)
    return list(found.values())


def _rank(series: MeasuredSeries) -> int:
    """Rank of a series' source in `_ORDER`."""
    return next(i for i, name in enumerate(_ORDER) if SOURCES[name].name == series.data_set)


def _table(folder: Path, name: str) -> pd.DataFrame:
    """A class's table, restricted to the sources in `SOURCES`."""
    path = next(path for path in sorted(folder.glob(f"{name}.csv*")))
    table = pd.read_csv(path)
    table = table[table["source"].isin(SOURCES) & ~table["fmt"].isin(_LEFT_OUT)]
    if "group_per_node" in table:
        inside = (table["group_per_node"] == table["group"]) & table["device"].isin(_SWITCHED)
        return table[inside].drop(columns="group_per_node")
    if "new_tokens" not in table:
        return table
    # A step of one token is priced as decode, whatever the kernel's name.
    one = (table["new_tokens"] == 1) & (table["operator"] == "prefill_attention")
    return table[~one]


def _series(operator: str, device: str, fmt: str, part: pd.DataFrame) -> MeasuredSeries:
    """Rows of one source, device and format as a series."""
    cited = SOURCES[str(part["source"].iloc[0])].name
    tidy = part.drop(columns=_OF_NO_SHAPE).dropna(axis=1, how="all").reset_index(drop=True)
    tidy = tidy.drop(columns="fmt").assign(shape=tidy.groupby("shape").ngroup())
    warm = bool(part["warm_cache"].isna().all())
    return MeasuredSeries(device, operator, fmt, tidy, cited, warm)
