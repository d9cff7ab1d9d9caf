"""Writes a sweep as one tidy table, Parquet or CSV, part by part, so that it can be resumed.

Parts are kept in a folder beside the table, named after the sweep's definition; a sweep that is
started again prices the missing ones, writes the complete table, and removes the folder.
"""

import csv
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from app.answers.table import Table
from app.planning import sweep_block
from app.planning.sweep_axes import NUMERIC, STRUCTURAL, SweepAxes
from app.planning.sweep_block import Columns
from app.planning.sweep_workers import Part, priced
from app.simulation.executor import HERE, Where
from genz_core.common.cells import spreadsheet_cell
from genz_core.errors import InvalidValue
from genz_core.search import pareto
from hardware_db.whole_file import write_whole

ROWS_A_PART = 50_000
_GOOD = b"good"  # metadata key for the number of rows of a part that can run
#: Columns in which few values repeat.
_REPEATED = (
    *STRUCTURAL, *NUMERIC, "status", "message", "devices", "not_validated",
)  # fmt: skip
KINDS = (".parquet", ".csv")
Progress = Callable[[float, str], None]


@dataclass(frozen=True, slots=True)
class Swept:
    """A sweep that was written.

    rows: of the table.  good: number of rows that can run.  kept: rows that an earlier run had
    priced.
    """

    path: Path
    rows: int
    good: int
    kept: int


def sweep(
    axes: SweepAxes,
    target: Path,
    progress: Progress = lambda share, words: None,
    cancelled: Callable[[], bool] = lambda: False,
    *,
    bounds_only: bool = False,
    where: Where = HERE,
) -> Swept | None:
    """Price every row and write the table; None if it was cancelled (finished parts are kept).

    Raises:
        InvalidValue: a target that is neither Parquet nor CSV, or Dask is not installed.
        MeasurementError: a worker died, or no cluster answers; rows priced so far are kept.
        RidgelineError: an unknown name.
    """
    if target.suffix not in KINDS:
        raise InvalidValue(f"{target.name}: give a file that ends in {' or '.join(KINDS)}")
    kind = "bounds" if bounds_only else "figures"
    folder = target.parent / f".{target.name}.{axes.digest}.{kind}"
    folder.mkdir(parents=True, exist_ok=True)
    left = [part for part in _parts(axes) if not _path(folder, part).exists()]
    total, missing = len(axes), sum(part.stop - part.start for part in left)
    kept = done = total - missing
    for part in priced(left, bounds_only, where, partial(_keep, folder), cancelled):
        done += part.stop - part.start
        progress(done / max(total, 1), f"{done:,} of {total:,} rows")
    if done < total:
        return None
    good = _together(axes, folder, target)
    shutil.rmtree(folder)
    return Swept(target, total, good, kept)


def table(axes: SweepAxes, *, bounds_only: bool = False) -> Columns:
    """Every row in memory, {column of `COLUMNS`: [rows]}.

    Raises:
        RidgelineError: an unknown name.
    """
    blocks = []
    for block in axes.blocks:
        found = sweep_block.resolve(block)
        blocks.append(sweep_block.price(block, found, 0, len(block), bounds_only))
    names = sweep_block.names_of(bounds_only)
    return {name: np.concatenate([block[name] for block in blocks]) for name in names}


def frontier(columns: Columns) -> Columns:
    """The rows that no other row beats in TPOT and tokens per second and device, among those that
    fit.
    """
    good = np.flatnonzero(columns["status"] == "ok")
    pair = (columns[name][good] for name in ("tpot_s", "output_tokens_per_s_per_device"))
    kept = good[pareto(*pair)]
    return {name: values[kept] for name, values in columns.items()}


def stated(columns: Columns) -> Table:
    """The columns with a value in any row, whole numbers as integers."""
    said = {name: values for name, values in columns.items()
            if name in ("status", "fits") or not _is_empty(values)}  # fmt: skip
    whole = {name: _integers(said[name]) for name in sweep_block.WHOLE if name in said}
    return Table(said | whole, len(columns["status"]))


def _is_empty(values: np.ndarray) -> bool:
    """Whether every cell is an empty text, False or NaN."""
    return not np.any((values == values) & (values != "") & (values != False))  # noqa: E712


def _integers(values: np.ndarray) -> np.ndarray:
    """Whole numbers as integers; columns with unknown values are unchanged."""
    known = values == values
    if known.all():
        return values.astype(int)
    cells = values.astype(object)
    cells[known] = values[known].astype(int)
    return cells


def _parts(axes: SweepAxes) -> Iterator[Part]:
    number = 0
    for block in axes.blocks:
        for start in range(0, len(block), ROWS_A_PART):
            yield Part(number, block, start, min(start + ROWS_A_PART, len(block)))
            number += 1


def _path(folder: Path, part: Part) -> Path:
    return folder / f"{part.number:06d}.arrow"


def _keep(folder: Path, part: Part, columns: Columns) -> None:
    """Write a part in the layout that it has in memory."""
    import pyarrow

    table = _arrow(columns)
    with (
        write_whole(_path(folder, part)) as draft,
        pyarrow.ipc.new_file(draft, table.schema) as writer,
    ):
        writer.write_table(table)


def _kept(path: Path) -> Any:
    """The table of a part, whose columns stay in the file until they are used."""
    import pyarrow

    with pyarrow.memory_map(str(path)) as file, pyarrow.ipc.open_file(file) as reader:
        return reader.read_all()


def _arrow(columns: Columns) -> Any:
    """An Arrow table of columns, with the number of rows that can run in its metadata; NaN becomes
    null.

    It is built from buffers: `pyarrow.array` would import pandas, which takes as long as thousands
    of rows.
    """
    import pyarrow

    arrays = []
    for name, values in columns.items():
        if values.dtype == object:
            arrays.append(_strings(values))
            continue
        known = np.packbits(values == values, bitorder="little")
        if values.dtype == bool:
            kind, cells = pyarrow.bool_(), np.packbits(values, bitorder="little")
        elif name in sweep_block.WHOLE:
            kind, cells = pyarrow.int64(), np.where(values == values, values, 0).astype(np.int64)
        else:
            kind, cells = pyarrow.float64(), np.ascontiguousarray(values)
        buffers = [pyarrow.py_buffer(known), pyarrow.py_buffer(cells)]
        arrays.append(pyarrow.Array.from_buffers(kind, len(values), buffers))
    good = str(np.count_nonzero(columns["status"] == "ok"))
    return pyarrow.Table.from_arrays(arrays, names=list(columns), metadata={_GOOD: good})


def _strings(values: Any) -> Any:
    """A column of texts, most of which are equal."""
    import pyarrow

    first = str(values[0]).encode()
    if (values == values[0]).all():
        ends, text = np.arange(len(values) + 1, dtype=np.int32) * len(first), first * len(values)
    else:
        cells = [str(value).encode() for value in values]
        ends, text = np.zeros(len(values) + 1, dtype=np.int32), b"".join(cells)
        np.cumsum([len(cell) for cell in cells], out=ends[1:])
    buffers = [None, pyarrow.py_buffer(ends), pyarrow.py_buffer(text)]
    return pyarrow.Array.from_buffers(pyarrow.string(), len(values), buffers)


def _together(axes: SweepAxes, folder: Path, target: Path) -> int:
    """Write the table of all parts; returns how many rows can run."""
    parts = (_kept(_path(folder, part)) for part in _parts(axes))
    with write_whole(target) as draft:
        return (_as_parquet if target.suffix == ".parquet" else _as_csv)(parts, draft)


def _as_parquet(parts: Iterator[Any], draft: Path) -> int:
    import pyarrow.parquet as parquet

    good, writer = 0, None
    try:
        for part in parts:
            writer = writer or parquet.ParquetWriter(
                draft,
                part.schema.remove_metadata(),
                compression="snappy",
                use_dictionary=list(_REPEATED),
            )
            writer.write_table(part.replace_schema_metadata())
            good += int(part.schema.metadata[_GOOD])
    finally:
        if writer is not None:
            writer.close()
    return good


def _as_csv(parts: Iterator[Any], draft: Path) -> int:
    good = 0
    with draft.open("w", newline="", encoding="utf-8") as handle:
        lines = csv.writer(handle)
        for number, part in enumerate(parts):
            if not number:
                lines.writerow(part.column_names)
            columns = (_cells(part[name]) for name in part.column_names)
            lines.writerows(zip(*columns, strict=True))
            good += int(part.schema.metadata[_GOOD])
    return good


def _cells(column: Any) -> list[Any]:
    """A column as cells: text made safe for spreadsheets, numbers with nine digits, empty
    for None.
    """
    values = column.to_pylist()
    if str(column.type) == "string":
        return [spreadsheet_cell(value) for value in values]
    if str(column.type) == "bool":
        return ["" if value is None else str(value).lower() for value in values]
    return ["" if value is None else f"{value:.9g}" for value in values]
