"""ridgeline doctor: what this machine can measure, and what to install for more."""

from __future__ import annotations

import typer

from app.commands import options as opt


def register(cli: typer.Typer) -> None:
    cli.command("doctor", help="Say what this machine can measure, and how to get the rest.")(
        doctor
    )


def doctor(json: opt.Json = False) -> None:
    import hardware_db
    from app.answers.table import TableFormat, render, to_json
    from hardware_db.data_folder import data_folder
    from profilers.collect.doctor import examine

    rows = [check.row() for check in examine()]
    calibrated = (data_folder() / "systems" / "this-machine.yaml").is_file()
    if json:
        typer.echo(
            to_json({"checks": rows, "calibrated": calibrated, "left_out": hardware_db.left_out()})
        )
        return
    shown = [{key: row[key] for key in ("name", "status", "found", "enables")} for row in rows]
    typer.echo(render(shown, TableFormat.text))
    for row in rows:
        if row["advice"]:
            typer.echo(f"{row['name']}: {row['advice']}")
    for sentence in hardware_db.left_out():
        typer.echo(sentence)
    if not calibrated:
        typer.echo("this machine is not calibrated yet: run `ridgeline calibrate machine`")
