"""Answer a "tune" question: with a server, with the simulator, or with what to run next."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.question.parameters import PARAMETERS
from app.question.query import Query, read
from app.scenario import points_file
from app.tuning.loop import Runner, Tuned, proposed, tune
from app.tuning.outcome import Outcome
from app.tuning.real_server import Commands, RealServer
from app.tuning.report import markdown
from app.tuning.run_points import points
from app.tuning.simulated_server import SimulatedServer, hidden_moves
from app.tuning.space import Setting, Space, space
from app.tuning.study import Record, opened
from genz_core.common.progress import Cancel, Progress, never, silent
from genz_core.errors import InvalidValue
from genz_core.limits import brief

REPORT, POINTS = "report.md", "points.csv"
_SIMULATOR = "the simulator"
_STATUSES = ("measured", "failed", "contradicts", "no result")


def answer(
    query: Query,
    goal: str = "output_tokens_per_s",
    runs: int = 12,
    within: float = 5.0,
    level: float = 80.0,
    dry_run: bool = False,
    *,
    commands: Commands | None = None,
    folder: Path | None = None,
    measured: Sequence[Mapping[str, Any]] = (),
    progress: Progress = silent,
    cancelled: Cancel = never,
) -> Tuned:
    """Search the settings of a question.

    Args:
        goal, runs, within, level, dry_run: see `app.question.extras`.
        commands: how a server is started and loaded; without commands and without `dry_run` nothing
            is run, and the answer is the setting to run next.
        folder: of the search, new or to be continued; None stores nothing.
        measured: runs made elsewhere, each {"setting": {...}, "figures": {...}}, or with "status":
            "failed" and "why".

    Raises:
        RidgelineError: there is only one setting, the folder holds another search, or a program
            cannot be run.
    """
    if commands is not None and dry_run:
        raise InvalidValue("a dry run starts no server: leave out the server's command")
    found, share, held = space(query, goal), within / 100.0, level / 100.0
    study = opened(folder, query, goal, _words(commands, dry_run))
    if measured and study.records:
        raise InvalidValue("measured runs and a folder with runs were both given: give one of them")
    for row in measured:
        setting, outcome = _given(found, row)
        study.add(Record(len(study.records) + 1, setting, outcome))
    if commands is None and not dry_run:
        choice = proposed(found, study.records, share, held)
        return Tuned(found, tuple(study.records), choice, choice.stop, share, held)
    runner: Runner
    if commands is not None:
        runner = RealServer(query, commands)
    else:
        runner = SimulatedServer(query, hidden_moves(query.question.seed))
    done = tune(found, runner, study, runs, share, held, progress, cancelled)
    if folder is not None:
        (folder / REPORT).write_text(markdown(done), encoding="utf-8")
        if commands is not None and (taught := points(query, done.records)):
            points_file.write(folder / POINTS, taught, tuple(taught[0]))
    return done


def _words(commands: Commands | None, dry_run: bool) -> str:
    """Name of what runs the settings of a folder: one folder never mixes two of them."""
    if commands is not None:
        return f"{commands.server} | {commands.client}"
    return _SIMULATOR if dry_run else ""


def _given(found: Space, row: Mapping[str, Any]) -> tuple[Setting, Outcome]:
    """A run that was made elsewhere."""
    setting, figures = row.get("setting"), row.get("figures") or {}
    if not isinstance(setting, Mapping) or not isinstance(figures, Mapping):
        raise InvalidValue(
            'a measured run is {"setting": {"max_num_seqs": 64}, "figures": {"ttft": 0.2, '
            '"output_tokens_per_s": 900}}'
        )
    status = row.get("status", "measured")
    if status not in _STATUSES:
        raise InvalidValue(f"status = {str(status)[:40]!r}: choose {', '.join(_STATUSES)}")
    values = {n: read(PARAMETERS[n], v) for n, v in setting.items() if n in PARAMETERS}
    values |= {n: v for n, v in setting.items() if n not in PARAMETERS}
    for name, figure in figures.items():
        if not isinstance(figure, (int, float)) or isinstance(figure, bool) or not figure > 0:
            raise InvalidValue(f"{str(name)[:40]} = {brief(figure)}: give a number above 0")
    if status == "measured" and found.goal.name not in figures:
        raise InvalidValue(f"a measured run has no {found.goal.name}: give this figure")
    at = found.at(values)
    return found.settings[at], Outcome(
        status,
        {str(name): float(value) for name, value in figures.items()},
        str(row.get("why", "")),
    )
