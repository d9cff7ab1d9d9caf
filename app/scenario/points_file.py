"""The points file: a CSV of configurations in, a CSV of estimates out, a row never stops the rest.

Rows that name the same model, precisions, system and engine are priced in one array call.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from app.scenario import intervals
from app.scenario.drafting import Drafting, drafted
from app.scenario.points_row import NAMES, Point, parse
from app.scenario.scenario import Resolved, Scenario, estimate_resolved, resolve
from app.scenario.served_rows import WAVES, serve_resolved
from app.scenario.served_rows import columns as served_columns
from genz_core import Parallelism, Workload, decode_step
from genz_core.cells import spreadsheet_cell
from genz_core.errors import InvalidValue, RidgelineError
from genz_core.limits import checked_size
from genz_core.speculative import steps_per_token
from genz_core.workload import OUT_OF_MEMORY
from hardware_db.whole_file import write_whole

Row = dict[str, str]
LookUp = Callable[[Scenario], Resolved]


@dataclass(frozen=True, slots=True)
class Figure:
    """Columns of a figure that can be measured: what is predicted, and the least it can be."""

    predicted: str
    bound: str


#: By metric.  Whole requests take at least their prompt.
FIGURES: Mapping[str, Figure] = {
    "ttft_s": Figure("ttft_s", "bound_prefill_s"),
    "tpot_s": Figure("tpot_s", "bound_decode_step_s"),
    "prefill": Figure("prefill_s", "bound_prefill_s"),
    "decode": Figure("decode_step_s", "bound_decode_step_s"),
    "e2e": Figure("e2e_s", "bound_prefill_s"),
}
_LATENCIES = ("prefill_s", "decode_step_s", "ttft_s", "tpot_s", "e2e_s")
COLUMNS = (
    "id",
    "status",
    "message",
    *_LATENCIES,
    "output_tokens_per_s",
    "fits",
    "memory_bytes_per_device",
    "bound_prefill_s",
    "bound_decode_step_s",
    *(end for name in _LATENCIES for end in intervals.ends(name)),
    *intervals.THROUGHPUT_ENDS,
    "not_validated",
)


def price_file(
    source: Path,
    target: Path,
    progress: Callable[[int, int], None] = lambda done, of: None,
    look_up: LookUp = resolve,
) -> list[Row]:
    """Price every row of `source` and write `target`; returns what was written.

    look_up: as of `price`.

    Raises:
        InvalidValue: the file cannot be read as CSV, or has no `model` or `system` column.
    """
    rows = read(source)
    priced = price(rows, progress, look_up)
    write(target, priced)
    return priced


def read(source: Path) -> list[Row]:
    """The rows of a points file, columns stripped, missing ones empty.

    Raises:
        InvalidValue: no CSV, without a model or a system column, or with too many rows.
    """
    try:
        with source.open(newline="", encoding="utf-8-sig") as handle:
            reader = csv.DictReader(handle)
            header = [name.strip() for name in reader.fieldnames or ()]
            missing = [name for name in ("model", "system") if name not in header]
            if missing:
                raise InvalidValue(
                    f"{source} has no column {' and '.join(missing)}; a points file needs at "
                    "least model and system, and isl, osl, and batch, concurrency or rate"
                )
            return [_stripped(row, at) for at, row in enumerate(reader, start=1)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidValue(f"cannot read {source}: {error}") from None


def _stripped(row: Mapping[str | None, Any], number: int) -> Row:
    """A row without blanks around its cells, missing ones empty.

    Raises:
        InvalidValue: it is one row more than a file may have.
    """
    checked_size("rows", number)
    return {
        str(name).strip(): (cell or "").strip()
        for name, cell in row.items()
        if isinstance(cell, str) or cell is None
    }


def write(target: Path, rows: Iterable[Row]) -> None:
    """Write priced rows; the file appears whole or not at all."""
    with write_whole(target) as draft, draft.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, COLUMNS)
        writer.writeheader()
        writer.writerows({k: spreadsheet_cell(v) for k, v in row.items()} for row in rows)


def price(
    rows: Sequence[Row],
    progress: Callable[[int, int], None] = lambda done, of: None,
    look_up: LookUp = resolve,
) -> list[Row]:
    """Price rows in their order; whatever is wrong with one stands in its status and message.

    look_up: finds model, system and engine of a scenario: by name, unless told otherwise.
    """
    results: list[Row] = [{}] * len(rows)
    groups: dict[tuple[object, ...], list[tuple[int, Point]]] = {}
    for at, row in enumerate(rows):
        try:
            point = parse(row, str(at))
            groups.setdefault(group_of(point), []).append((at, point))
        except RidgelineError as error:
            results[at] = _failed(row.get("id") or str(at), error)
    done = 0
    for members in groups.values():
        outcomes = _price_or_fail(members, look_up)
        for (at, _), outcome in zip(members, outcomes, strict=True):
            results[at] = outcome
        done += len(members)
        progress(done, len(rows))
    return results


# ------------------------------------------------------------------------------- one group


def group_of(point: Point) -> tuple[object, ...]:
    """What rows must share to be priced in one array call."""
    scenario = point.scenario
    return (
        *(getattr(scenario, name) for name in NAMES),
        scenario.moe_tp is None,
        point.load,
        point.mtp_tokens,
        point.options.memory_fraction,
    )


def _price_or_fail(members: Sequence[tuple[int, Point]], look_up: LookUp) -> list[Row]:
    points = [point for _, point in members]
    try:
        resolved = look_up(points[0].scenario)
        return price_group(resolved, points)
    except RidgelineError as error:
        if len(points) > 1 and not isinstance(error, LookupError):
            return [_price_or_fail([member], look_up)[0] for member in members]
        return [_failed(point.id, error) for point in points]


def price_group(resolved: Resolved, points: Sequence[Point]) -> list[Row]:
    """Rows of one group, arrays side by side."""
    resolved = _as_told(resolved, points[0])
    figures = (_static if points[0].load == "batch" else _served)(resolved, points)
    missing = np.broadcast_to(figures.not_validated, (len(points),))
    return [
        _row(
            point.id,
            str(figures.status[at]),
            "; ".join(filter(None, [figures.message(at), *resolved.notes, *point.notes])),
            {name: column[at] for name, column in figures.columns.items()},
            {"fits": str(bool(figures.fits[at])).lower(), "not_validated": str(missing[at])},
        )
        for at, point in enumerate(points)
    ]


def _as_told(resolved: Resolved, point: Point) -> Resolved:
    """The scenario of a row with its engine's part of the memory and what it drafts."""
    resolved = replace(resolved, engine=point.options.with_memory(resolved.engine))
    if not point.mtp_tokens:
        return resolved
    return drafted(resolved, Drafting("mtp", draft_tokens=point.mtp_tokens))


@dataclass(frozen=True, slots=True)
class _Figures:
    """What a group's rows say: output columns, intervals among them, and why one is not "ok"."""

    status: np.ndarray
    message: Callable[[int], str]
    columns: Mapping[str, np.ndarray]
    fits: np.ndarray
    not_validated: str | np.ndarray


def _static(resolved: Resolved, points: Sequence[Point]) -> _Figures:
    """A static batch; real lengths are drawn from [ratio, 1], so their mean is priced."""
    mean = np.array([(1.0 + point.length_ratio) / 2.0 for point in points])
    column = _columns(points)
    for name in ("isl", "osl"):
        column[name] = np.maximum(np.round(column[name] * mean), 1.0)
    result = estimate_resolved(resolved, **column)
    load, split = _sound(result.workload, result.parallelism, result.valid)
    context = load.isl + np.where(np.asarray(load.osl) > 1, np.asarray(load.osl) / 2.0, 0.0)
    model, system = resolved.model, resolved.system
    step = decode_step(model, system, load.batch, context, split, resolved.engine)
    each = steps_per_token(model, load.osl)
    latencies = {
        "prefill_s": result.prefill.total_s,
        "decode_step_s": step.total_s * each,
        "ttft_s": result.ttft_s,
        "tpot_s": result.tpot_s,
        "e2e_s": result.e2e_s,
    }
    bounds = {**intervals.bounds_of(result), "decode_step_s": step.bound_total_s * each}
    known, rate = intervals.of_batch(result), result.output_tokens_per_s
    columns = intervals.beside(latencies, known, bounds)
    return _Figures(
        status=result.status,
        message=result.message,
        fits=result.memory.fits,
        not_validated=columns.pop("not_validated"),
        columns={
            **columns,
            "output_tokens_per_s": rate,
            **intervals.of_throughput(rate, columns),
            "memory_bytes_per_device": result.memory.total_bytes,
            "bound_prefill_s": result.prefill.bound_total_s,
            "bound_decode_step_s": step.bound_total_s * each,
        },
    )


def _served(resolved: Resolved, points: Sequence[Point]) -> _Figures:
    """Serving at a concurrency, as public benchmarks measure it, or at an arrival rate.

    At a concurrency each user sends ten requests, the first of all users at once.  First tokens
    wait as in the engine's published measurements.
    """
    column = _columns(points)
    isl, osl, users = (column.pop(name) for name in ("isl", "osl", "batch"))
    degrees: dict[str, Any] = dict(column)
    rates = np.array([point.rate for point in points])
    closed = points[0].load == "concurrency"
    result = serve_resolved(
        resolved,
        isl=isl,
        osl=osl,
        parallelism=replace(resolved.scenario.parallelism, **degrees),
        length_ratio=np.array([point.length_ratio for point in points]),
        concurrency=users if closed else None,
        rate_per_s=None if closed else rates,
        waves=WAVES,
        stream_interval=np.array([point.stream_interval for point in points]),
        recv_interval=np.array([point.recv_interval for point in points]),
        as_benchmarked=True,
        max_num_seqs=np.array([point.options.max_num_seqs for point in points]),
        max_num_batched_tokens=np.array([point.options.max_num_batched_tokens for point in points]),
    )
    table = served_columns(resolved, result, _LATENCIES, ("output_tokens_per_s",), closed=closed)
    return _Figures(
        status=table.pop("status"),
        message=lambda at: result.messages.get(at, ""),
        fits=result.capacity >= 1.0,
        not_validated=table.pop("not_validated"),
        columns={
            **table,
            "memory_bytes_per_device": result.memory_bytes,
            "bound_prefill_s": result.bound_prefill_s,
            "bound_decode_step_s": result.bound_decode_step_s,
        },
    )


def _columns(points: Sequence[Point]) -> dict[str, np.ndarray]:
    column = {
        name: np.array([getattr(point.scenario, name) for point in points], dtype=float)
        for name in ("batch", "isl", "osl", "tp", "pp", "dp", "ep")
    }
    if points[0].scenario.moe_tp is not None:
        column["moe_tp"] = np.array([float(p.scenario.moe_tp or 1) for p in points])
    return column


def _sound(load: Workload, split: Parallelism, valid: np.ndarray) -> tuple[Workload, Parallelism]:
    """The same configurations, ones in place of those that cannot run."""
    fields: dict[str, Any] = {
        name: np.where(valid, getattr(split, name), 1.0) for name in ("tp", "pp", "dp", "ep")
    }
    moe_tp = None if split.moe_tp is None else np.where(valid, split.moe_tp, 1.0)
    sizes = (np.where(valid, size, 1.0) for size in (load.batch, load.isl, load.osl))
    return Workload(*sizes), replace(split, **fields, moe_tp=moe_tp)


def _row(
    identity: str,
    status: str,
    message: str,
    values: Mapping[str, float],
    words: Mapping[str, str],
) -> Row:
    row = dict.fromkeys(COLUMNS, "")
    row |= {"id": identity, "status": status, "message": message}
    if status in ("ok", OUT_OF_MEMORY):
        row |= {name: f"{float(v):.9g}" for name, v in values.items() if not np.isnan(v)}
        row |= words
    return row


def _failed(identity: str, error: RidgelineError) -> Row:
    return _row(identity, error.code, str(error), {}, {})
