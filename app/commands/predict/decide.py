"""ridgeline economics, sensitivity, routing, study, fleet: what follows for a decision."""

from pathlib import Path
from typing import Annotated

import typer

from app.answers.table import TableFormat
from app.commands import options as opt
from app.commands.progress_bar import running
from app.commands.question_options import Extra, Given, of_verb


@of_verb("economics")
def economics(
    given: Given,
    kept_runs: Annotated[
        bool, typer.Option(help="Use the measured power of a kept run near this load.")
    ] = True,
    json: opt.Json = False,
) -> None:
    """Show cost, energy and carbon of tokens: rented, owned, compared with an API."""
    from app.decide.economics import economics as account
    from app.decide.economics_words import sentences
    from app.measuring import run_store

    stores = run_store.stores() if kept_runs else ()
    named = account(given.ask("economics"), stores)
    opt.show(json, named, "\n".join(sentences(named)))


@of_verb("sensitivity")
def sensitivity(given: Given, form: opt.Form = TableFormat.text) -> None:
    """Show how figures depend on each resource, and the hardware that targets need."""
    from app.decide.sensitivity_rows import document, sentences, table

    named = document(given.ask("sensitivity"))
    opt.show(form, named, table(named), "\n".join(sentences(named)))


@of_verb("routing")
def routing(
    given: Given,
    statistics: Annotated[
        Path,
        typer.Option(
            help="Tokens routed to each expert: CSV with layer_id, expert_id, count, or JSON lists."
        ),
    ],
    copies: Extra,
    form: opt.Form = TableFormat.text,
) -> None:
    """Show the cost of uneven expert routing in a run, and the gain from redundant experts."""
    from app.decide import routing as decide

    rows = decide.routing(given.ask("routing"), decide.read_statistics(statistics), copies)
    opt.show(form, rows, rows)


def study(
    file: Annotated[
        Path, typer.Argument(help="YAML of the study; examples are in app/samples/studies.")
    ],
    chart: Annotated[Path | None, opt.target("File for the chart: .svg.")] = None,
    form: opt.Form = TableFormat.text,
) -> None:
    """Compare the chips, formats and techniques of a study file."""
    from app.decide import study as decide
    from app.decide import svg
    from app.scenario.local_files import sources
    from hardware_db import yaml_document

    found = decide.study(yaml_document.read(file), sources)
    if chart is not None:
        opt.write_text(chart, svg.study(found))
    opt.show(form, found.to_dict(), found.rows)


def fleet(
    file: Annotated[
        Path, typer.Argument(help="YAML of the fleet; an example is in app/samples/fleets.")
    ],
    chart: Annotated[Path | None, opt.target("File for a chart of the machines: .svg.")] = None,
    form: opt.Form = TableFormat.text,
) -> None:
    """Assign several models to a set of machines, by priority."""
    from app.decide import svg
    from app.fleets import report, result
    from app.scenario.local_files import sources
    from hardware_db import yaml_document

    given = yaml_document.read(file)
    with running("fleet") as job:
        found = result.fleet(given, sources, job.progress, job.cancelled)
    named = found.to_dict()
    if chart is not None:
        opt.write_text(chart, svg.fleet(named))
    first = named["deployments"] if form is TableFormat.csv else report.shown_rows(named)
    opt.show(
        form, named, report.headline(named), first, report.model_rows(named),
        report.machine_rows(named), "\n".join(report.sentences(named)),
    )  # fmt: skip
