"""The points file: a CSV of configurations in, a CSV of estimates out; an invalid row never stops
the rest.

Rows with the same model, precisions, system and engine are priced in one array call.
"""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from app.answers.column import THROUGHPUT_ENDS, ends
from app.question import comparison
from app.question.query import Sources
from app.scenario import intervals
from app.scenario.points_row import Point, notes, parse
from app.scenario.scenario import Resolved, estimate_resolved, told
from app.scenario.served_rows import columns as served_columns
from app.scenario.served_rows import deployed, sentences, served
from app.scenario.summary import messages
from genz_core import Parallelism, Workload, decode_step
from genz_core.common.cells import spreadsheet_cell
from genz_core.errors import InvalidValue, RidgelineError, file_problem
from genz_core.limits import checked_size
from genz_core.models.speculative import steps_per_token
from genz_core.types import Array
from genz_core.workload import WITH_TIMES
from hardware_db.whole_file import write_whole

Row = dict[str, str]


@dataclass(frozen=True, slots=True)
class Figure:
    """Columns of a measurable figure: the prediction and its bound."""

    predicted: str
    bound: str


#: By metric. The bound of a whole request is that of its prompt.
FIGURES: Mapping[str, Figure] = {
    "ttft_s": Figure("ttft_s", "bound_prefill_s"),
    "tpot_s": Figure("tpot_s", "bound_decode_step_s"),
    "prefill": Figure("prefill_s", "bound_prefill_s"),
    "decode": Figure("decode_step_s", "bound_decode_step_s"),
    "e2e": Figure("e2e_s", "bound_prefill_s"),
}
_LATENCIES = ("prefill_s", "decode_step_s", "ttft_s", "tpot_s", "e2e_s")
#: Status of rows that have times.
_TIMED = ("ok", *WITH_TIMES)
COLUMNS = (
    "id",
    "status",
    "message",
    *_LATENCIES,
    "wait_s",
    "output_tokens_per_s",
    "fits",
    "memory_bytes_per_device",
    "bound_prefill_s",
    "bound_decode_step_s",
    *(end for name in _LATENCIES for end in ends(name)),
    *THROUGHPUT_ENDS,
    "not_validated",
)


def price_file(
    source: Path,
    target: Path,
    progress: Callable[[int, int], None] = lambda done, of: None,
    sources: Sources = dict,
) -> list[Row]:
    """Price every row of `source` and write `target`; returns what was written.

    sources: function that resolves models and systems; by default they open no file.

    Raises:
        InvalidValue: the file cannot be read as CSV, or has no `model` or `system` column.
    """
    rows = read(source)
    priced = price(rows, progress, sources)
    write(target, priced)
    return priced


def read(source: Path) -> list[Row]:
    """The rows of a points file, columns stripped, missing ones empty.

    Raises:
        InvalidValue: not a CSV, no model or system column, or too many rows.
    """
    try:
        with source.open(newline="", encoding="utf-8-sig") as handle:
            reader = csv.DictReader(handle)
            header = [name.strip() for name in reader.fieldnames or ()]
            if len(header) == 1 and (sign := next(filter(header[0].count, ";\t|"), "")):
                raise InvalidValue(
                    f"{source} separates its columns with {sign!r}: write commas in their place"
                )
            missing = [name for name in ("model", "system") if name not in header]
            if missing:
                raise InvalidValue(
                    f"{source} has no column {' and '.join(missing)}; a points file needs model, "
                    "system, isl, osl, and one of batch, concurrency or rate"
                )
            return [_stripped(row, at) for at, row in enumerate(reader, start=1)]
    except UnicodeDecodeError:
        raise InvalidValue(f"{source} is not a text file: a points file is a CSV") from None
    except (OSError, csv.Error) as error:
        raise InvalidValue(f"{source}: {file_problem(error)}") from None


def _stripped(row: Mapping[str | None, Any], number: int) -> Row:
    """A row with cells stripped, and missing ones empty."""
    checked_size("rows", number)
    return {
        str(name).strip(): (cell or "").strip()
        for name, cell in row.items()
        if isinstance(cell, str) or cell is None
    }


def write(target: Path, rows: Iterable[Row], columns: Sequence[str] = COLUMNS) -> None:
    """Write rows; the file appears complete or not at all."""
    with write_whole(target) as draft, draft.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, columns)
        writer.writeheader()
        writer.writerows({k: spreadsheet_cell(v) for k, v in row.items()} for row in rows)


def price(
    rows: Sequence[Row],
    progress: Callable[[int, int], None] = lambda done, of: None,
    sources: Sources = dict,
) -> list[Row]:
    """Price rows in their order; an error in a row is reported in its status and message.

    sources: as in `price_file`.
    """
    results: list[Row] = [{}] * len(rows)
    groups: dict[tuple[object, ...], list[tuple[int, Point]]] = {}
    for at, row in enumerate(rows):
        try:
            point = parse(row, str(at), sources)
            groups.setdefault(point.group, []).append((at, point))
        except RidgelineError as error:
            results[at] = _failed(row.get("id") or str(at), error)
    done = 0
    for members in groups.values():
        outcomes = _price_or_fail([point for _, point in members])
        for (at, _), outcome in zip(members, outcomes, strict=True):
            results[at] = outcome
        done += len(members)
        progress(done, len(rows))
    return results


# ------------------------------------------------------------------------------- one group


def _price_or_fail(points: Sequence[Point]) -> list[Row]:
    try:
        return price_group(deployed(points[0].query), points)
    except RidgelineError as error:
        if len(points) > 1 and not isinstance(error, LookupError):
            return [_price_or_fail([point])[0] for point in points]
        return [_failed(point.id, error) for point in points]


def price_group(resolved: Resolved, points: Sequence[Point]) -> list[Row]:
    """Price the rows of one group as arrays.

    resolved: of the group, as returned by `deployed`.
    """
    arrays = _columns(points)
    engine = told(resolved.engine, resolved.scenario, resolved.system)
    resolved = replace(resolved, engine=engine)
    figures = (_static if points[0].load == "batch" else _served)(resolved, arrays)
    figures = intervals.where_it_runs(figures, figures["status"])
    timed = np.isin(figures["status"], _TIMED)
    said = zip(figures["message"], points, strict=True)
    cells = {
        **{name: _cells(values, timed) for name, values in figures.items()},
        "id": [point.id for point in points],
        "status": figures["status"].tolist(),
        "message": ["; ".join(filter(None, [words, *notes(point)])) for words, point in said],
    }
    return [
        dict(zip(COLUMNS, row, strict=True))
        for row in zip(*(cells[name] for name in COLUMNS), strict=True)
    ]


def _static(resolved: Resolved, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Static batches: the output columns except the id."""
    result = estimate_resolved(resolved, **arrays)
    load, split = _sound(result.workload, result.parallelism, result.valid)
    context = load.isl + np.where(np.asarray(load.osl) > 1, np.asarray(load.osl) / 2.0, 0.0)
    model, system = resolved.model, resolved.system
    priced = decode_step(model, system, load.batch, context, split, resolved.engine)
    step = result.correction.of_step(priced)
    each = steps_per_token(model, load.osl)
    latencies = {
        "prefill_s": result.prefill.total_s,
        "decode_step_s": step.total_s * each,
        "ttft_s": result.ttft_s,
        "tpot_s": result.tpot_s,
        "e2e_s": result.e2e_s,
    }
    bounds = {**intervals.bounds_of(result), "decode_step_s": step.bound_total_s * each}
    of, rate = comparison.of_batch(result), result.output_tokens_per_s
    columns = intervals.beside(latencies, intervals.of_batch(result, of), bounds)
    return {
        **columns,
        "status": result.status,
        "message": messages(resolved, result, resolved.notes, of),
        "wait_s": np.zeros_like(rate),
        "output_tokens_per_s": rate,
        **intervals.of_throughput(rate, columns),
        "fits": result.fits,
        "memory_bytes_per_device": result.memory_bytes,
        "bound_prefill_s": result.prefill.bound_total_s,
        "bound_decode_step_s": step.bound_total_s * each,
    }


def _served(resolved: Resolved, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Loads: the output columns except the id, with the same figures as in `ridgeline serve`."""
    closed = resolved.scenario.kind == "concurrency"
    result = served(resolved, arrays)
    load = resolved.scenario.kind
    return {
        **served_columns(resolved, result, _LATENCIES, ("output_tokens_per_s",), closed=closed),
        "message": sentences(resolved, result, load),
        "wait_s": result.wait_s,
        "fits": result.capacity >= 1.0,
        "memory_bytes_per_device": result.memory_bytes,
        "bound_prefill_s": result.bound_prefill_s,
        "bound_decode_step_s": result.bound_decode_step_s,
    }


def _columns(points: Sequence[Point]) -> dict[str, Array]:
    """The numbers of rows as arrays, [rows] each; those that no row states are left out."""
    standard = points[0].query.question
    stated = dict.fromkeys(name for point in points for name in point.numbers)
    return {
        name: np.array(
            [point.numbers.get(name, getattr(standard, name)) for point in points], dtype=float
        )
        for name in stated
    }


def _sound(load: Workload, split: Parallelism, valid: np.ndarray) -> tuple[Workload, Parallelism]:
    """The same configurations, with ones in place of the sizes that cannot run."""
    fields: dict[str, Any] = {
        name: np.where(valid, getattr(split, name), 1.0) for name in ("tp", "pp", "dp", "ep")
    }
    moe_tp = None if split.moe_tp is None else np.where(valid, split.moe_tp, 1.0)
    sizes = (np.where(valid, size, 1.0) for size in (load.batch, load.isl, load.osl))
    return Workload(*sizes), replace(split, **fields, moe_tp=moe_tp)


def _cells(values: Any, timed: np.ndarray) -> list[str]:
    """A column as cells, empty in rows without times: numbers with nine digits, texts, truths."""
    values = np.broadcast_to(values, timed.shape)
    if values.dtype == bool:
        values = np.where(values, "true", "false")
    if values.dtype.kind in "UO":
        return np.where(timed, values, "").tolist()
    known = (timed & ~np.isnan(values)).tolist()
    each = zip(values.tolist(), known, strict=True)
    return [f"{value:.9g}" if stated else "" for value, stated in each]


def _failed(identity: str, error: RidgelineError) -> Row:
    stated = {"id": identity, "status": error.code, "message": str(error)}
    return dict.fromkeys(COLUMNS, "") | stated
