"""ridgeline serve: TTFT, TPOT and throughput under load."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from app.answers.table import TableFormat, folded, render
from app.commands import options as opt
from app.commands.question_options import Given, of_verb

_RUNS = "measured runs by weight (the exponent of measured over uncorrected prediction)"
_NO_RUNS = "no measured run of this engine and model; figures come from the engine's profile alone"


#: Columns of a table of several loads that fit a terminal; JSON and CSV have all of them.
_BRIEF = (
    "status", "bound_ttft_s", "ttft_s", "ttft 80 %", "bound_tpot_s", "tpot_s", "tpot 80 %",
    "output_tokens_per_s", "usd_per_million_tokens",
)  # fmt: skip


@of_verb("serve")
def serve(
    given: Given,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the measured runs that correct each load.")
    ] = False,
    trace: Annotated[
        Path | None, typer.Option(help="Simulate recorded requests instead: see `simulate`.")
    ] = None,
    form: opt.Form = TableFormat.text,
) -> None:
    """Predict TTFT, TPOT and throughput under load."""
    import numpy as np

    from app.scenario import results
    from app.scenario.runs_behind import runs_behind

    if trace is not None:
        from app.commands.predict.simulate import run_and_print

        run_and_print(given.ask("simulate", trace=trace), form)
        return
    served = results.serve(given.ask("serve"), on_error="status")
    results.refuse_alone(served)
    rows = served.rows
    if not explain:
        if form in (TableFormat.text, TableFormat.markdown):
            _print(rows, (served.load, *served.varied), form)
        else:
            typer.echo(render(rows, form))
        return
    loads = ({served.load: np.array([value])} for value in served.values)
    behind = [runs_behind(served.resolved, load) for load in loads]
    together = [{**row, "runs": runs} for row, runs in zip(rows, behind, strict=True)]
    if form is TableFormat.csv:  # a single table: the runs of each load
        pairs = zip(served.values, behind, strict=True)
        rows = [{served.load: value, **run} for value, runs in pairs for run in runs]
    blocks: list[Any] = [rows]
    for value, runs in zip(served.values, behind, strict=True):
        blocks += [f"{served.load} {value:g}: {_RUNS if runs else _NO_RUNS}", runs]
    opt.show(form, together, *blocks)


def _print(rows: list[dict[str, Any]], varied: Sequence[str], form: TableFormat) -> None:
    """Print a single load with one figure per line; several loads with one line each, and each note
    once below.

    varied: the load, and the parameters with several values.
    """
    if len(rows) == 1:
        lines = [{"figure": name, "value": value} for name, value in folded(rows[0]).items()]
        typer.echo(render(lines, form))
        return
    names = (*varied, *_BRIEF)
    shown = [folded(row) for row in rows]
    brief = [{name: row[name] for name in names if name in row} for row in shown]
    typer.echo(render(brief, form))
    changing = [name for name in varied if len({row[name] for row in rows}) > 1] or varied[:1]
    loads: dict[str, list[str]] = {}
    for row in rows:
        named = " ".join(f"{name} {row[name]:g}" for name in changing)
        for words in filter(None, row["message"].split("; ")):
            loads.setdefault(words, []).append(named)
    for words, at in loads.items():
        where = f" ({', '.join(at)})" if len(at) < len(rows) else ""
        typer.echo(f"- {words}{where}")
