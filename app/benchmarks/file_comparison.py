"""A user's files as results of benchmarks: compared with their prediction, or judged."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from app.benchmarks import guard
from app.benchmarks.comparison import Comparison, compare
from app.benchmarks.deployment import Deployment, deployments
from app.benchmarks.guard import Guarded
from app.benchmarks.levels import checked_level
from app.question.query import Query
from genz_core.errors import InvalidValue
from profilers.serving_results import ServingMeasurement, is_result, read_many, server_log


def are_results(files: Iterable[Any]) -> bool:
    """Whether files are results of benchmarks, judged by content; parsed objects are not.

    Raises:
        InvalidValue: results are mixed with other files.
    """
    files = list(files)
    paths = [one for one in files if isinstance(one, (str, Path))]
    logs = [one for one in paths if server_log.is_log(Path(one))]
    if logs and len(logs) == len(files):
        raise InvalidValue(
            f"{Path(logs[0]).name} is a server's log, which holds limits and no measured run: give "
            "it beside a benchmark's result"
        )
    files = [one for one in files if one not in logs]
    found = {isinstance(one, (str, Path)) and is_result(one): one for one in files}
    if len(found) > 1:
        other, result = (getattr(found[of], "name", found[of]) for of in (False, True))
        raise InvalidValue(
            f"{other} is not a benchmark result, but {result} is: compare them separately"
        )
    return True in found


def asked_of(files: Iterable[str | Path], query: Query) -> list[Deployment]:
    """The deployments of the runs in result files; the user's parameters take precedence over the
    file.

    Raises:
        RidgelineError: a file that cannot be read.
    """
    return deployments(read_with_logs(files), query)


def read_with_logs(files: Iterable[str | Path]) -> list[ServingMeasurement]:
    """The runs of result files, completed from server logs among the files.

    Raises:
        RidgelineError: a file that cannot be read.
    """
    paths = list(map(Path, files))
    logs = [path for path in paths if server_log.is_log(path)]
    runs = read_many(path for path in paths if path not in logs)
    return server_log.with_logs(runs, [server_log.read(path) for path in logs])


def compared(runs: Sequence[Deployment], level: float) -> Comparison:
    """Runs with their predictions.  level: percent of runs that an interval should contain.

    Raises:
        InvalidValue: an impossible level.
    """
    return compare(runs, checked_level(level))


def refuse_unpredicted(found: Comparison) -> None:
    """Refuse runs without any prediction, with advice on what to give.

    Raises:
        InvalidValue: no run can be priced.
    """
    if not found.predicted:
        raise InvalidValue("; ".join(dict.fromkeys(point.refusal for point in found.points)))


def judged(
    files: Iterable[str | Path],
    query: Query,
    level: float,
    tolerance: float,
    baseline: Iterable[str | Path] = (),
) -> tuple[Guarded, Comparison]:
    """Results judged by their prediction, and by earlier ones of the same loads.

    level: as in `compared`.  tolerance: percent by which equal runs may differ.

    Raises:
        RidgelineError: a file that cannot be read, or nothing that can be judged.
    """
    found = compared(asked_of(files, query), level)
    return guard.guard(found, read_many(map(Path, baseline)), tolerance / 100.0), found
