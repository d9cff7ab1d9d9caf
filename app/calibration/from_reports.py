"""Calibrate a system with profiler reports: datasheet figures, with latency constants fitted on
kernels.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import hardware_db
from app.calibration.machine import user_profile
from app.measuring.device_by_size import device_name
from genz_core.calibration.operator_calibration import Calibration, calibrate, impossible
from genz_core.errors import InvalidValue
from genz_core.latency.measured_operators import OperatorPoints, bound_s
from genz_core.latency.profile import LatencyProfile
from genz_core.systems import System
from hardware_db import system_files, user_files
from profilers import Report
from profilers.comparison import account, profile_account
from profilers.operators.operator_points import OperatorTiming, operator_points, operator_timings


@dataclass(frozen=True, slots=True)
class ReportCalibration:
    """A system calibrated with reports.

    system: with its fitted profile, under the id for saving.  prior: the profile before the fit.
     points: the data of the fit.  refused: a sentence for each point faster than the device's peaks
    allow.  share: share of the kernels' time in calls that the points describe.
    document: the system's YAML as a mapping.
    """

    system: System
    prior: LatencyProfile
    calibration: Calibration
    points: tuple[OperatorPoints, ...]
    refused: tuple[str, ...]
    share: float
    document: Mapping[str, Any]


def fit(reports: Sequence[Report], system: str = "", name: str = "") -> ReportCalibration:
    """Fit the latency profile of a system to the kernels of reports of one device.

    Args:
        system: slug, alias or YAML; default: the device named in the reports.
        name: id of the calibrated system; default: the system's id with "-from-report".

    Raises:
        ReportError: no kernel states its shape.
        InvalidValue: no device is named, it has no latency profile, `name` is a shipped system,
            most points of an operator are faster than its peaks allow, or a report fails a
            consistency check.
    """
    record = hardware_db.facts(system or device_name(reports))
    base = hardware_db.load(record.id)
    if base.latency is None:
        raise InvalidValue(f"{base.name} has no latency profile to start the fit from")
    timings = operator_timings(reports)
    labels = _labels(reports)
    document = _document(record, name or f"{record.id}-from-report", labels)
    possible, refused = _possible(timings, base)
    for report in reports:
        if apart := account.failed(profile_account.of_report(report, base)):
            said = "; ".join(check.sentence for check in apart)
            raise InvalidValue(
                f"{report.label}: its consistency checks fail, so it is not used: {said}"
            )
    points = operator_points(possible, f"kernels of {labels}")
    calibration = calibrate(base.latency, base, points)
    return ReportCalibration(
        system=replace(
            base, slug=document["id"], name=document["name"], latency=calibration.profile
        ),
        prior=base.latency,
        calibration=calibration,
        points=points,
        refused=refused,
        share=_share(possible, reports),
        document=document,
    )


def save(fitted: ReportCalibration) -> list[Path]:
    """Write system and profile to the user's data folder; returns both paths.

    Raises:
        MeasurementError: the data folder cannot be written.
    """
    heading = "Fitted by ridgeline calibrate report."
    return [
        user_files.write_system(fitted.document),
        user_files.write_profile(user_profile(fitted.calibration, fitted.system.slug), heading),
    ]


def _possible(
    points: Sequence[OperatorTiming], system: System
) -> tuple[list[OperatorTiming], tuple[str, ...]]:
    """The timings that are possible with the device's peaks, and a sentence for each other one."""
    possible, refused = [], []
    for point in points:
        (entry,) = operator_points([point], "")
        if impossible(entry, system)[0]:
            refused.append((point, float(bound_s(entry, system)[0])))
        else:
            possible.append(point)
    sentences = tuple(
        f"{point.operator} {point.shape} took {point.time_s * 1e6:.2f} us, while the peaks of "
        f"{system.name} allow {least * 1e6:.2f} us at best"
        for point, least in refused
    )
    of_operator = Counter(point.operator for point in points)
    refused_of_operator = Counter(point.operator for point, _ in refused)
    for (point, _), words in zip(refused, sentences, strict=True):
        operator = point.operator
        if 2 * refused_of_operator[operator] > of_operator[operator]:
            raise InvalidValue(
                f"{refused_of_operator[operator]} of {of_operator[operator]} points of {operator} "
                f"are faster than this system allows ({words}): name the system that the reports "
                "come from"
            )
    return possible, tuple(f"{words}: left out" for words in sentences)


def _labels(reports: Sequence[Report]) -> str:
    labels = list(dict.fromkeys(report.label[:50] for report in reports))
    return labels[0] + (f" and {len(labels) - 1} more" if len(labels) > 1 else "")


def _share(points: Sequence[OperatorTiming], reports: Sequence[Report]) -> float:
    total = sum(float(np.nansum(report.kernels["duration_s"])) for report in reports)
    return min(sum(point.time_s * point.calls for point in points) / max(total, 1e-300), 1.0)


def _document(record: hardware_db.SystemRecord, name: str, labels: str) -> dict[str, Any]:
    """The calibrated system's YAML as a mapping: the facts of `record` under the id `name`."""
    if name in system_files.shipped():
        raise InvalidValue(f"{name} ships with Ridgeline; give the calibrated system another name")
    if record.id in system_files.shipped():
        facts: dict[str, Any] = {"include": record.id}
    else:
        facts = record.model_dump(mode="json", exclude_none=True)
    document = {
        **facts,
        "id": name,
        "name": f"{record.name[:60]} (from {labels})"[:120],
        "aliases": [],
        "notes": [f"latency constants fitted on the kernels of {labels}"],
    }
    hardware_db.load(document)  # refuses an invalid id
    return document
