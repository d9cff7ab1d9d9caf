"""Program that fits the latency profiles: `python -m hardware_db.fit` writes hardware_db/profiles.

The same tables and the same date give the same files.  Takes a few minutes on one core; needs
the extra `calibrate` (the tables).  `hardware_db.fit.other_devices` then adds devices measured by
other public benchmarks.
"""

from __future__ import annotations

import argparse
import datetime
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd
import yaml

import hardware_db
from genz_core.calibration.error_metrics import error_summary
from genz_core.errors import RidgelineError
from genz_core.latency.measured_operators import price_s
from genz_core.latency.parameters import CLASSES, Parameters
from genz_core.latency.profile import Fit
from hardware_db.fit.evaluation import FormatGroup, evaluate, residual_quantiles
from hardware_db.fit.regression import (
    defaults,
    fit_own,
    fit_poles,
    fit_typical,
    spread_over_families,
    with_kins_groups,
)
from hardware_db.fit.report import page
from hardware_db.fit.samples import SplitSeries, samples
from hardware_db.fit.tables import DEVICES, PACKAGE, package_version
from hardware_db.profile_schema import FittedProfile, write
from hardware_db.profiles import FOLDER, NARROW, RESIDUALS, WIDE
from hardware_db.profiles.validation import FILE, summary

log = logging.getLogger("hardware_db.fit")
_HEADING = """Latency constants fitted by `python -m hardware_db.fit`; do not edit by hand.
Data: operator tables of {package} {version} (NVIDIA, Apache-2.0).
The fields are explained in genz_core/latency/parameters.py."""
_Entries = dict[tuple[str, str], tuple[Parameters, Fit]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit all classes and write profiles, validation and residuals; returns the exit status."""
    parser = argparse.ArgumentParser(prog="hardware_db.fit", description=__doc__)
    parser.add_argument("--output", type=Path, default=FOLDER, help="folder for the profiles")
    parser.add_argument("--date", default=datetime.date.today().isoformat(), help="date to record")
    parser.add_argument("--classes", nargs="*", default=list(CLASSES), choices=list(CLASSES))
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    fitted: dict[str, _Entries] = defaultdict(dict)
    tables = []
    for operator in options.classes:
        for group, entries in _fit_class(operator, options.date):
            for name, of_format in entries.items():
                fitted[name].update(of_format)
            tables.append(evaluate(group))
            log.info("%s\n%s", group.samples[0].key, summary(tables[-1]).to_string(index=False))
    _write(fitted, pd.concat(tables, ignore_index=True), options.output, options.date)
    return 0


def _fit_class(operator: str, date: str) -> Iterator[tuple[FormatGroup, dict[str, _Entries]]]:
    """Fits of each format of a class: series with their constants, and entries by profile."""
    by_format: dict[str, list[SplitSeries]] = defaultdict(list)
    for sample in samples(operator, DEVICES):
        by_format[sample.series.fmt].append(sample)
    starts = [defaults(operator)]
    for pool in by_format.values():
        centre = fit_typical(pool, starts)
        starts = [defaults(operator), centre]
        own = {s.series.device: fit_own(s, [centre, defaults(operator)]).parameters for s in pool}
        own = with_kins_groups(pool, own)
        entries: dict[str, _Entries] = {
            s.series.device: {s.key: (own[s.series.device], _own_fit(s, own, date))} for s in pool
        }
        poles = fit_poles(pool, [centre, defaults(operator)])
        for name, pole in ((NARROW, poles["narrow"]), (WIDE, poles["wide"])):
            fit = _typical_fit(pole, pool, own, date)
            entries[name] = {pool[0].key: (pole, fit)}
        yield FormatGroup(pool, own), entries


def _own_fit(sample: SplitSeries, own: Mapping[str, Parameters], date: str) -> Fit:
    """Record of the fit of one device's constants, with the errors on its held-out shapes."""
    points = sample.points(sample.test)
    predicted = price_s(points, sample.system, own[sample.series.device])
    errors = error_summary(predicted, points.measured_s)
    return Fit(
        "measured",
        sample.series.data_set,
        len(sample.train),
        errors.points,
        errors.mape,
        errors.p90,
        errors.bias,
        date,
    )


def _typical_fit(
    typical: Parameters, pool: Sequence[SplitSeries], own: Mapping[str, Parameters], date: str
) -> Fit:
    """Record of the fit of typical constants, with their spread over families."""
    devices = ", ".join(sample.series.device for sample in pool)
    return Fit(
        "default",
        f"{PACKAGE} {package_version()}: {devices}",
        sum(len(sample.train) for sample in pool),
        date=date,
        spread=spread_over_families(typical, pool, own),
    )


def _write(fitted: Mapping[str, _Entries], table: pd.DataFrame, output: Path, date: str) -> None:
    """Write the profiles, by name, and the validation."""
    output.mkdir(parents=True, exist_ok=True)
    heading = _HEADING.format(package=PACKAGE, version=package_version())
    for name, entries in fitted.items():
        system = hardware_db.facts(name).system() if name in DEVICES else None
        profile = FittedProfile(
            name,
            system.family if system else "",
            (system.slug,) if system else (),
            {key: parameters for key, (parameters, _) in entries.items()},
            {key: fit for key, (_, fit) in entries.items()},
            "fitted on measurements of this device" if system else "typical of the fitted devices",
        )
        write(profile, output / f"{name}.yaml", heading)
    _write_validation(table, output, heading, date)


def _write_validation(table: pd.DataFrame, output: Path, heading: str, date: str) -> None:
    """Write the errors of all series, the page about them, and the quantiles of the residuals."""
    shown = table.drop(columns="residuals").round(5)
    shown = shown.assign(data=f"{PACKAGE} {package_version()}", date=date)
    shown.to_csv(output / FILE.name, index=False)
    (output / "README.md").write_text(page(shown), encoding="utf-8")
    data = {
        "note": "ln(measured / predicted) on points not used in the fit; every series alike",
        "data_sets": [f"{PACKAGE} {package_version()}"],
        "date": date,
        "classes": residual_quantiles(table),
    }
    comment = "".join(f"# {line}\n" for line in heading.splitlines())
    text = yaml.safe_dump(data, sort_keys=False, width=100, default_flow_style=None)
    (output / f"{RESIDUALS}.yaml").write_text(comment + text, encoding="utf-8")


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except RidgelineError as error:
        log.error("%s", error)
        raise SystemExit(2) from None
