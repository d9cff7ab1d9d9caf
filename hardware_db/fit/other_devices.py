"""Program that fits the profiles of devices from other public operator benchmarks.

``python -m hardware_db.fit.other_devices --tables FOLDER`` writes the profiles of `DEVICES` and
their rows of the validation and of the held-out points; the profiles and rows of the tables'
package are unchanged.  FOLDER holds tables as described in `hardware_db.fit.public_tables`.

Constants are kept only where they price held-out shapes better than the constants used without
them.  Where large products were published for a silicon, its share of the peak is theirs.
"""

from __future__ import annotations

import argparse
import csv
import datetime
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import yaml

import hardware_db
from genz_core.calibration.error_metrics import ErrorSummary, error_summary
from genz_core.latency.measured_operators import price_s, roofline_s
from genz_core.latency.parameters import CLASSES, GemmParameters, Parameters
from genz_core.latency.profile import Fit, LatencyProfile
from genz_core.systems import System
from genz_core.types import Array
from hardware_db.fit import held_out, tables
from hardware_db.fit.evaluation import residual_quantiles
from hardware_db.fit.public_tables import SOURCES, read_folder
from hardware_db.fit.regression import defaults, fit_own
from hardware_db.fit.report import page
from hardware_db.fit.samples import SplitSeries, samples, split
from hardware_db.profile_schema import FittedProfile, combine, layered, write
from hardware_db.profiles import FOLDER, RESIDUALS, measured_profiles, typical_profile
from hardware_db.profiles.validation import FILE
from hardware_db.tables import table

#: Devices to fit, by slug.
DEVICES = (
    "a800-sxm4-80gb",
    "h20-96gb",
    "h800-sxm5-80gb",
    "mi300x",
    "mi308x",
    "mi355x",
    "rtx-3090",
    "rtx-4090",
    "rtx-a6000",
)
#: Products of these devices include about 16 us of profiler time in each small one.
_TIMED_BY_PROFILER = frozenset({"rtx-3090", "rtx-a6000"})
_PROFILER_S = 16e-6
#: Devices whose thin products were timed in a kernel for large ones, which engines avoid: the
#: constants of thin products stay those of the family.
_THIN_AS_FAMILY = frozenset({"h20-96gb"})
_OF_THIN = frozenset({"launch_s", "memory_efficiency", "k_step_s", "split_s"})
#: Devices whose collectives were timed by events, including launch gaps: the constants of small
#: ones stay those of the family.
_TIMED_BY_EVENTS = frozenset({"a800-sxm4-80gb"})
_OF_SMALL = frozenset({"base_s", "step_s"})
_HELD_OUT = "held-out shapes"
_HEADING = """Latency constants fitted by `python -m hardware_db.fit.other_devices`; do not edit.
Data: {sources}.
The fields are explained in genz_core/latency/parameters.py."""
_Kept = dict[tuple[str, str], tuple[SplitSeries, Parameters, Fit]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit all devices and write their profiles and rows; returns the exit status."""
    parser = argparse.ArgumentParser(prog="hardware_db.fit.other_devices", description=__doc__)
    parser.add_argument("--tables", type=Path, required=True, help="folder of the tables")
    parser.add_argument("--date", default=datetime.date.today().isoformat(), help="date to record")
    options = parser.parse_args(arguments)
    kept: dict[str, _Kept] = defaultdict(dict)
    rows: list[dict[str, object]] = []
    for series in read_folder(options.tables, DEVICES):
        sample = split(series, system_of(series.device))
        fitted = fit_own(sample, _starts(sample), _fixed(sample)).parameters
        rows += (row | {"date": options.date} for row in _validation(sample, fitted))
        errors, without = (_errors(sample, p) for p in (fitted, _stand_in(sample)))
        if errors.mape < without.mape:
            record = _fit(sample, errors, options.date)
            kept[series.device][sample.key] = (sample, fitted, record)
        else:
            print(f"not kept: {sample.slug} {sample.key}: {errors.mape:.3f}, {without.mape:.3f}")
    for device, entries in kept.items():
        _write(device, entries)
    _write_rows(rows, kept, options.date)
    return 0


def system_of(device: str) -> System:
    """The device according to its YAML, without fitted constants."""
    return hardware_db.facts(device).system()


def _typical(sample: SplitSeries) -> Parameters:
    """Typical constants for a device of this width, of the nearest format that has some."""
    profile = layered(sample.slug, [typical_profile(sample.system)])
    return profile.constants(*sample.key)


def _stand_in(sample: SplitSeries) -> Parameters:
    """The constants that price a series where the device was not measured."""
    return _without_own(sample).constants(*sample.key)


def _without_own(sample: SplitSeries) -> LatencyProfile:
    """A device's profile without its own fits: from its family in the tables' package, or typical
    constants.
    """
    family = [
        profile
        for profile in measured_profiles()
        if profile.family == sample.family and profile.name in tables.DEVICES
    ]
    relatives = [combine(family, sample.family, "sibling")] if family else []
    return layered(sample.slug, [*relatives, typical_profile(sample.system)])


def _starts(sample: SplitSeries) -> list[Parameters]:
    """Starting points: the constants used without a fit, typical constants, and the defaults."""
    starts = [_stand_in(sample), _typical(sample), defaults(sample.series.operator)]
    if reached := _reached(sample):
        return [replace(cast(GemmParameters, s), compute_efficiency=reached) for s in starts]
    if _fixed(sample):
        return starts[:1]
    if sample.series.device not in _TIMED_BY_PROFILER:
        return starts
    return [
        replace(start, launch_s=_PROFILER_S) if isinstance(start, GemmParameters) else start
        for start in starts
    ]


def _fixed(sample: SplitSeries) -> frozenset[str]:
    """Constants that the series cannot determine."""
    series = sample.series
    if _reached(sample):
        return frozenset({"compute_efficiency"})
    if series.operator == "gemm" and series.device in _THIN_AS_FAMILY:
        return _OF_THIN
    if series.operator == "collective" and series.device in _TIMED_BY_EVENTS:
        return _OF_SMALL
    return frozenset()


def _reached(sample: SplitSeries) -> float | None:
    """Share of the peak of the best large products that were published for the silicon of a series,
    the geometric mean over its boards; None where none were.

    Most products of such a series are thin.  Their time depends on the arithmetic as little as on
    the bandwidth, so a fit to them exchanges one for the other.
    """
    shares = []
    for row in table("measurements", "large_products"):
        system = system_of(row["system"])
        if ("gemm", row["fmt"]) == sample.key and system.family == sample.family:
            shares.append(float(row["flops_per_s"]) / system.peak(row["fmt"]))
    return float(np.exp(np.mean(np.log(shares)))) if shares else None


def _errors(sample: SplitSeries, parameters: Parameters) -> ErrorSummary:
    """Errors of constants on the held-out shapes."""
    points = sample.points(sample.test)
    return error_summary(price_s(points, sample.system, parameters), points.measured_s)


def _fit(sample: SplitSeries, errors: ErrorSummary, date: str) -> Fit:
    """Record of a fit, with its errors on held-out shapes."""
    return Fit(
        "measured", sample.series.data_set, len(sample.train), errors.points, errors.mape,
        errors.p90, errors.bias, date,
    )  # fmt: skip


def _write(device: str, entries: _Kept) -> None:
    """Write a device's profile."""
    cited = {fit.data_set for _, _, fit in entries.values()}
    sources = "; ".join(f"{s.name} ({s.licence})" for s in SOURCES.values() if s.name in cited)
    system = system_of(device)
    profile = FittedProfile(
        device,
        system.family,
        (system.slug,),
        {key: parameters for key, (_, parameters, _) in entries.items()},
        {key: fit for key, (_, _, fit) in entries.items()},
        "fitted on measurements of this device",
    )
    write(profile, FOLDER / f"{device}.yaml", _HEADING.format(sources=sources))


# ------------------------------------------------------------------------------- rows


def _validation(sample: SplitSeries, own: Parameters) -> Iterator[dict[str, object]]:
    """Rows of the validation: the roofline, the fit, and the constants used without it."""
    tier = _without_own(sample).fit(*sample.key).tier
    without = {"sibling": "sibling", "default": "unseen family"}.get(tier, "sibling")
    cases = (
        ("roofline", sample.test, None),
        ("in sample", sample.train, own),
        (_HELD_OUT, sample.test, own),
        (without, sample.test, _stand_in(sample)),
    )
    for name, shapes, parameters in cases:
        points = sample.points(shapes)
        predicted: Array = np.asarray(roofline_s(points, sample.system))
        if parameters is not None:
            predicted = price_s(points, sample.system, parameters)
        errors = error_summary(predicted, points.measured_s)
        yield {
            "operator": sample.series.operator, "system": sample.slug, "family": sample.family,
            "fmt": sample.series.fmt, "split": name, "draw": 0, "points": errors.points,
            "left_out": sample.impossible, "mape": errors.mape, "median": errors.median,
            "p90": errors.p90, "bias": errors.bias, "data": sample.series.data_set,
            "residuals": np.log(points.measured_s / predicted),
        }  # fmt: skip


def _write_rows(rows: list[dict[str, object]], kept: Mapping[str, _Kept], date: str) -> None:
    """Append the rows of these devices to the rows of the tables' package."""
    ours = {source.name for source in SOURCES.values()}
    others = pd.read_csv(FILE)
    new = pd.DataFrame(rows)
    others = others[~others["data"].isin(ours)]
    pd.concat([others, new.drop(columns="residuals").round(5)]).to_csv(FILE, index=False)
    _write_residuals(new)
    (FOLDER / "README.md").write_text(page(pd.read_csv(FILE)), encoding="utf-8")
    with held_out.FILE.open(encoding="utf-8", newline="") as handle:
        drawn = [row for row in csv.DictReader(handle) if row["data"] not in ours]
    for entries in kept.values():
        for sample, parameters, fit in entries.values():
            facts = {"data": fit.data_set, "date": date}
            drawn += (row | facts for row in held_out.drawn(sample, parameters))
    held_out.write(drawn)


def _write_residuals(new: pd.DataFrame) -> None:
    """Combine the held-out points of these devices with those of the tables' package.

    new: rows of `_validation`.  Quantiles of measured devices change; the others do not.
    """
    pooled = pd.concat([pd.DataFrame(_of_package()), new[new["split"] == _HELD_OUT]])
    file = FOLDER / f"{RESIDUALS}.yaml"
    text = file.read_text(encoding="utf-8")
    data = yaml.safe_load(text)
    for operator, tiers in residual_quantiles(pooled).items():
        data["classes"][operator]["measured"] = tiers["measured"]
    ours = {source.name for source in SOURCES.values()}
    before = [data.pop("data_set", ""), *data.get("data_sets", ())]
    kept = [name for name in before if name and name not in ours]
    data["data_sets"] = [*kept, *sorted(set(new["data"]))]
    heading = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    file.write_text(
        heading + yaml.safe_dump(data, sort_keys=False, width=100, default_flow_style=None)
    )


def _of_package() -> Iterator[dict[str, object]]:
    """Held-out residuals of the package's series with the shipped constants."""
    own = {profile.systems[0]: profile for profile in measured_profiles()}
    for operator in CLASSES:
        for sample in samples(operator, tables.DEVICES):
            points = sample.points(sample.test)
            predicted = price_s(points, sample.system, own[sample.slug].parameters[sample.key])
            yield {
                "operator": operator, "system": sample.slug, "split": _HELD_OUT,
                "residuals": np.log(points.measured_s / predicted),
            }  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
