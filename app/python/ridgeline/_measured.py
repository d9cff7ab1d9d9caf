"""Profiler reports, and what ran beside what was predicted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genz_core.engine import EngineProfile
    from genz_core.types import Model, System
    from profilers import Comparison, Report


def compare(
    reports: str | Path | Report | Sequence[str | Path | Report],
    model: str | Path | Model | Mapping[str, Any],
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
) -> Comparison:
    """Put profiler reports of one run beside the estimate of what ran.

    Args:
        reports: files, or reports that `read_report` returned.
        model, system, engine, batch, isl, osl, weights, kv, tp: what ran, as in `estimate`; what
            is not given is read from the reports, and the engine is hf where they name none.
        phase: what reports that name none are taken for, "prefill" or "decode"; "": what their
            shapes tell.
        fill: False: the defaults of `estimate` in place of what the reports say.
        steps: steps that a summary adds up, by phase.

    Returns:
        Data frames `phases`, `classes` and `operators`, and `findings` in words; no finding where
        what ran contradicts what is priced.

    Raises:
        RidgelineError: a file that cannot be read, names nobody knows, reports without a phase.
    """
    arguments = dict(locals())
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


def read_report(path: str | Path) -> Report:
    """Read a profiler's report: Nsight Systems, Nsight Compute or the PyTorch profiler.

    Raises:
        ReportError: it is none of these, or it is damaged.
    """
    import profilers

    return profilers.read_report(Path(path))
