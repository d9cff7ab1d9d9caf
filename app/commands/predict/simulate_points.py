"""ridgeline simulate --points: a file of simulations, over all cores or a cluster, resumable."""

from __future__ import annotations

from pathlib import Path

import typer

from app.commands.options import writable_file
from app.commands.progress_bar import INTERRUPTED, running
from genz_core.errors import InvalidValue


def simulate_points(source: Path, target: Path | None, workers: int, cluster: str) -> None:
    """Simulate the rows of a file; a stopped run goes on where it was.

    Raises:
        InvalidValue: no --output, a negative number of workers, or as `fleet.run_file`.
    """
    from app.scenario import points_file
    from app.scenario.points_row import unknown_columns
    from app.simulation import fleet
    from app.simulation.points import KNOWN

    target = writable_file(target)
    if target is None:
        raise InvalidValue("name the file of the answers with --output")
    if not 0 <= workers <= 1024:
        raise InvalidValue(f"--workers {workers}: give a number from 1 to 1024, 0 for one a core")
    rows = points_file.read(source)
    for sentence in unknown_columns(rows[0] if rows else (), KNOWN):
        typer.echo(f"warning: {sentence}", err=True)
    with running("simulating") as under_way:
        done = fleet.run_file(
            source, target, workers, cluster, under_way.progress, under_way.cancelled
        )
    good = sum(row["status"] == "ok" for row in done.rows)
    kept = f", {done.kept:,} of them from before" if done.kept else ""
    if not done.complete:
        typer.echo(
            f"stopped: {len(done.rows):,} of {done.asked:,} rows are in {target}; the same "
            "command runs the others",
            err=True,
        )
        raise typer.Exit(INTERRUPTED)
    typer.echo(f"{done.asked:,} rows simulated{kept}, {good:,} ok -> {target}")
