"""Figures of a report as `ridgeline import --json` and metrics.json write them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.measuring import identity, result_table
from app.measuring.device_by_size import system_of, with_device
from app.measuring.identity import Known
from profilers import DEFAULT_PHASES, PhasePattern, Report, read_report, serving_results, summarise
from profilers.comparison import profile_account
from profilers.comparison.account import Check
from profilers.operators.by_shape import operators_by_shape
from profilers.phases.inferred_phases import phased
from profilers.phases.what_ran import what_ran

_NANOSECONDS_PER_S = 1e9


def file_documents(
    path: Path, *, phases: Sequence[PhasePattern] = DEFAULT_PHASES, by_shape: bool = False
) -> list[dict[str, Any]]:
    """The results in a benchmark's file, the figures of a server's log, or those of a report.

    phases, by_shape: of a report, see `profilers.read_report` and `report_document`.

    Raises:
        ReportError: a file that cannot be read.
    """
    if serving_results.is_result(path):
        return result_table.documents(serving_results.read_results(path))
    if serving_results.server_log.is_log(path):
        return [result_table.log_document(serving_results.server_log.read(path))]
    report = read_report(path, phases=phases)
    return [{"file": path.name, **report_document(report, by_shape=by_shape)}]


def report_document(report: Report, *, by_shape: bool = False) -> dict[str, Any]:
    """Figures of a report and its checks, as `ridgeline import --json` prints them.

    by_shape: also its operators by the shapes of their inputs.

    Raises:
        ReportError: shapes are requested, but no kernel has any.
    """
    checks = [check.document() for check in checks_of(report)]
    known = [one.document() for one in identity_of(report)]
    shapes = {"by_shape": operators_by_shape(report.kernels).to_dict("records")} if by_shape else {}
    return {**summary_document(summarise(report)), "checks": checks, "identity": known, **shapes}


def identity_of(report: Report) -> tuple[Known, ...]:
    """The facts about what ran in a report."""
    found = [phased(report, "", DEFAULT_PHASES)]
    return identity.of_reports(with_device(what_ran(found), found), found)


def checks_of(report: Report) -> tuple[Check, ...]:
    """The checks of a report by itself, with the datasheet of the device that it names."""
    return profile_account.of_report(report, system_of(report))


def summary_document(summary: Mapping[str, Any]) -> dict[str, Any]:
    """A summary with its times in whole nanoseconds, under keys that end in `_ns`.

    Args:
        summary: of `profilers.summarise`, in seconds; its idle_share has no key of the format.
    """
    document = _in_nanoseconds({k: v for k, v in summary.items() if k != "idle_share"})
    if summary["top_kernel"] is not None:
        document["top_kernel"] = _in_nanoseconds(summary["top_kernel"])
    for table in ("phases", "operator_classes"):
        document[table] = {name: _in_nanoseconds(row) for name, row in summary[table].items()}
    return document


def _in_nanoseconds(figures: Mapping[str, Any]) -> dict[str, Any]:
    """The figures with those named `_s`, numbers or mappings of numbers, in nanoseconds."""
    converted: dict[str, Any] = {}
    for key, value in figures.items():
        if not key.endswith("_s"):
            converted[key] = value
        elif isinstance(value, Mapping):
            converted[f"{key[:-2]}_ns"] = {name: _whole(part) for name, part in value.items()}
        else:
            converted[f"{key[:-2]}_ns"] = _whole(value)
    return converted


def _whole(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * _NANOSECONDS_PER_S)
