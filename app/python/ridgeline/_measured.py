"""Profiler reports, and what ran beside what was predicted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genz_core.errors import InvalidValue

if TYPE_CHECKING:
    from app.benchmarks.comparison import Comparison as ComparedResults
    from genz_core.engine import EngineProfile
    from genz_core.types import Model, System
    from profilers import Comparison, Report


def compare(
    reports: str | Path | Report | Sequence[str | Path | Report],
    model: str | Path | Model | Mapping[str, Any] = "",
    *,
    system: str | Path | System = "",
    engine: str | EngineProfile = "",
    batch: float | None = None,
    isl: float | None = None,
    osl: float | None = None,
    weights: str = "",
    kv: str = "",
    tp: int | None = None,
    phase: str = "",
    steps: Mapping[str, int] | None = None,
    fill: bool = True,
    level: float = 80.0,
) -> Comparison | ComparedResults:
    """Put profiler reports of one run, or results of serving benchmarks, beside their prediction.

    Args:
        reports: files, or reports that `read_report` returned; or result files of benchmarks.
        model, system, engine, batch, isl, osl, weights, kv, tp: what ran, as in `estimate`; what
            is not given is read from the reports, and the engine is hf where they name none.
        phase: what reports that name none are taken for, "prefill" or "decode"; "": what their
            shapes tell.
        fill: False: the defaults of `estimate` in place of what the reports say.
        steps: steps that a summary adds up, by phase.
        level: of results, percent of runs that an interval is to hold.

    Returns:
        Data frames `phases`, `classes` and `operators`, and `findings` in words; no finding where
        what ran contradicts what is priced.  Of results: `points`, a measured run each with a row
        a figure, and `to_dataframe`.

    Raises:
        RidgelineError: a file that cannot be read, names nobody knows, reports without a phase.
    """
    arguments = dict(locals())
    arguments.pop("level")
    given = [reports] if isinstance(reports, (str, Path)) else reports
    if isinstance(given, Sequence):
        from profilers.serving_results import is_result

        paths = [path for path in given if isinstance(path, (str, Path)) and is_result(path)]
        if paths and len(paths) == len(given):
            return _compare_results(paths, arguments, level)
    if not model:
        raise InvalidValue("name the model that the reports are of")
    from app.measuring import comparison
    from app.scenario.local_files import model_source, system_source

    arguments |= {"model": model_source(model), "system": system_source(system)}
    several = [reports] if isinstance(reports, (str, Path)) else reports
    if not isinstance(several, Iterable):
        several = [several]
    arguments["reports"] = [
        read_report(report) if isinstance(report, (str, Path)) else report for report in several
    ]
    return comparison.compare_reports(**arguments)


def _compare_results(
    paths: Sequence[Any], arguments: Mapping[str, Any], level: float
) -> ComparedResults:
    """Results of benchmarks beside their prediction; names, files and objects as in `estimate`."""
    from app.benchmarks.comparison import compare
    from app.benchmarks.deployment import GIVEN, deployments
    from app.benchmarks.levels import checked_level
    from app.scenario.local_files import model_source, system_source
    from app.scenario.scenario import Resolved, Scenario, resolve_objects
    from profilers.serving_results import read_many

    objects = {name: arguments[name] for name in ("model", "system", "engine") if arguments[name]}
    given = {name: arguments[name] for name in GIVEN if arguments.get(name)}
    given |= {name: str(value) for name, value in objects.items()}

    def look_up(scenario: Scenario) -> Resolved:
        names = {name: getattr(scenario, name) for name in ("model", "system", "engine")} | objects
        sources = model_source(names["model"]), system_source(names["system"])
        return resolve_objects(scenario, *sources, names["engine"], scenario.precisions)

    return compare(deployments(read_many(paths), given, look_up), checked_level(level))


def read_report(path: str | Path) -> Report:
    """Read a profiler's report: Nsight Systems, Nsight Compute or the PyTorch profiler.

    Raises:
        ReportError: it is none of these, or it is damaged.
    """
    import profilers

    return profilers.read_report(Path(path))
