"""ridgeline validate: predictions against measured points, and the closed form against the
simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.answers.table import TableFormat
from app.commands import options as opt
from app.commands.progress_bar import running
from genz_core.errors import InvalidValue

if TYPE_CHECKING:
    from hardware_db.tables import TableFolder

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Validated:
    """The result of a validation.

    rows: all of them, for a file.  table: printed in every format.  more: tables and headings that
    only text and Markdown show.  kept: tables that documents and plans use, by folder and name.
    document: a document of its own.
    """

    rows: Sequence[Row]
    table: Sequence[Row]
    more: Callable[[], Sequence[Sequence[Row] | str]]
    kept: Mapping[tuple[TableFolder, str], Sequence[Row]] = field(default_factory=dict)
    document: Callable[[], str] | None = None


def validate(
    what: Annotated[
        str,
        typer.Argument(
            help="serving, published, operators, throughput, disaggregated, decisions, "
            "simulation or plan."
        ),
    ] = "published",
    by: Annotated[str, typer.Option(help="Group by columns: engine,system,model ...")] = "",
    worst: Annotated[
        int, opt.sized("worst", "Show this many of the points with the largest errors.")
    ] = 0,
    rows: Annotated[Path | None, opt.target("Write every row to this CSV.")] = None,
    write_docs: Annotated[
        Path | None, typer.Option(help="Write the document with all tables to this file, and exit.")
    ] = None,
    count: Annotated[
        int, typer.Option(min=1, max=10_000, help="Number of deployments drawn for `simulation`.")
    ] = 300,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep", help="Store the table of `disaggregated` or `decisions` for the documents."
        ),
    ] = False,
    form: opt.Form = TableFormat.text,
) -> None:
    """Compare predictions with the shipped measurements."""
    from app.accuracy.tables import path_of

    if what not in _VALIDATIONS:
        raise InvalidValue(f"cannot validate {what!r}; choose {', '.join(_VALIDATIONS)}")
    if write_docs is not None and what not in ("simulation", "plan"):
        from app.accuracy import document, measured_points

        points = measured_points.published(), measured_points.serving()
        for path in document.write_documents(write_docs, *points):
            typer.echo(f"wrote {path}")
        return
    found = _VALIDATIONS[what](list(filter(None, by.split(","))), worst, count)
    opt.write_rows(rows, found.rows)
    if write_docs is not None and found.document is not None:
        opt.write_text(write_docs, found.document())
        typer.echo(f"wrote {write_docs}")
        return
    more = found.more() if form in (TableFormat.text, TableFormat.markdown) else ()
    opt.show(form, found.table, found.table, *more)
    for (folder, name), table in found.kept.items() if keep else ():
        path = path_of(folder, name)
        opt.write_rows(path, table)
        typer.echo(f"wrote {path}", err=True)


def _measured(what: str, by: list[str], worst: int, _: int) -> _Validated:
    """Errors on measured rows with the shipped constants, then on held-out rows."""
    from app.accuracy import likely_causes, measured_points, shipped_errors
    from app.accuracy.tables import columns_of

    columns = ["metric", *by]
    _check(columns, measured_points.columns(what))
    records = (measured_points.serving if what == "serving" else measured_points.published)()
    points = columns_of(records)
    table = measured_points.error_table(points, columns)
    if not by and what == "published":
        table = [{"metric": "all", **measured_points.error_table(points)[0]}, *table]
    metrics = measured_points.SERVING_METRICS if what == "serving" else shipped_errors.BATCH_METRICS

    def more() -> list[Sequence[Row] | str]:
        fitted = shipped_errors.fit_errors(metrics)
        furthest = measured_points.worst(points, worst)
        suspected = likely_causes.suspected_records(points, furthest)
        heading = "By how the fit used the points:" if fitted else ""
        return [heading, fitted, likely_causes.brief(suspected)]

    return _Validated(records, table, more)


def _operators(by: list[str], worst: int, _: int) -> _Validated:
    """Errors of the latency models, one row per operator and split, or by the columns of --by."""
    from app.accuracy import likely_causes, shipped_errors

    series = shipped_errors.operator_series()
    columns = by or ["operator"]
    _check(columns, list(series[0]) if series else columns)
    held_out = [row for row in series if row["split"] == "held-out shapes"]
    furthest = sorted(held_out, key=lambda row: -row["mape %"])[:worst]
    return _Validated(
        series,
        shipped_errors.operator_summary(series, [*columns, "split"]),
        lambda: [likely_causes.suspected_series(furthest)],
    )


def _throughput(by: list[str], worst: int, _: int) -> _Validated:
    """Errors of tokens per second of simulated runs that send all requests at once."""
    from app.accuracy import saturated_runs

    _check(by, list(saturated_runs.measured()[0]))
    with running("simulating") as under_way:
        found = saturated_runs.records(
            None,
            0,
            lambda done, of: under_way.progress(done / of, f"{done} of {of} runs"),
            under_way.cancelled,
        )
    groups = [by] if by else [[], *([name] for name in saturated_runs.BY)]
    first, *others = (saturated_runs.error_table(found, group) for group in groups)
    return _Validated(found, first, lambda: [*others, saturated_runs.worst(found, worst)])


def _disaggregated(by: list[str], worst: int, _: int) -> _Validated:
    """Errors of simulated disaggregated runs, and refusals; by default by split and by each
    column.
    """
    from app.accuracy import disaggregated_runs as runs
    from app.accuracy import kind_intervals

    _check(by, runs.BY)
    with running("simulating") as under_way:

        def records(start: float, *, learned: bool) -> list[Row]:
            return runs.records(
                0,
                lambda done, of: under_way.progress(start + share * done / of, f"{done} of {of}"),
                under_way.cancelled,
                learned=learned,
            )

        share = 1.0 if by else 0.5
        shipped = records(0.0, learned=True)
        physics = [] if by else records(0.5, learned=False)
    refused = [runs.refusals(shipped), runs.worst(shipped, worst)]
    if by:
        return _Validated(shipped, runs.group_table(shipped, by), lambda: refused)
    groups = [runs.group_table(shipped, (name,)) for name in runs.BY]
    spans = kind_intervals.table(kind_intervals.measured())
    return _Validated(
        shipped,
        runs.split_table(shipped, physics),
        lambda: [*groups, spans, *refused],
        {
            ("measurements", runs.KEPT): runs.kept_rows(shipped, physics),
            ("engines", kind_intervals.KEPT): spans,
        },
    )


def _decisions(by: list[str], _worst: int, _: int) -> _Validated:
    """Regret of choices by prediction on measured frontiers, by split and one column."""
    from app.accuracy.decisions import kept, loads, scores

    _check([",".join(by)] if by else [], ("model", "system", "target"))
    found = loads.loads_by_split()
    table = scores.group_table(found, by[0]) if by else scores.split_table(found)
    corrections = scores.choice_corrections(found)
    return _Validated(
        scores.choice_rows(found),
        table,
        lambda: [] if by else [corrections],
        {
            ("measurements", kept.KEPT): kept.kept_rows(found),
            ("measurements", kept.CHOICES): corrections,
        },
    )


def _simulation(_by: list[str], worst: int, count: int) -> _Validated:
    """Deviation of the closed form of serving from the simulation of the same load."""
    from app.accuracy import simulation_document, simulation_grid

    with running("simulating") as under_way:
        compared = simulation_grid.compared(
            simulation_grid.with_pools(count),
            0,
            lambda done, of: under_way.progress(done / of, f"{done} of {of} deployments"),
            under_way.cancelled,
        )
    return _Validated(
        compared,
        simulation_grid.summary(compared),
        lambda: [simulation_grid.exceptions(compared), simulation_grid.furthest(compared, worst)],
        document=lambda: simulation_document.document(compared),
    )


def _plan(_by: list[str], _worst: int, _: int) -> _Validated:
    """How often targets were met at each probability that the planner gave."""
    from app.planning import reliability

    records = reliability.measured()
    pairs = reliability.chances(records)
    return _Validated(
        records,
        reliability.table(pairs),
        lambda: [reliability.scores(pairs), reliability.of_choices()],
        document=lambda: reliability.document(records),
    )


#: For each validation: default columns of --by, number of worst points, and number of deployments
#: drawn.
_VALIDATIONS: Mapping[str, Callable[[list[str], int, int], _Validated]] = {
    "serving": partial(_measured, "serving"),
    "published": partial(_measured, "published"),
    "operators": _operators,
    "throughput": _throughput,
    "disaggregated": _disaggregated,
    "decisions": _decisions,
    "simulation": _simulation,
    "plan": _plan,
}


def _check(columns: Sequence[str], there_are: Sequence[str]) -> None:
    """Raise `InvalidValue` if one of `columns` is not among `there_are`."""
    if unknown := [name for name in columns if name not in there_are]:
        raise InvalidValue(f"no column {unknown[0]!r}; there are {', '.join(there_are)}")
