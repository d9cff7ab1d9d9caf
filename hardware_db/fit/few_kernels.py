"""Program that fits the profile of a device with only a handful of measured kernels.

``python -m hardware_db.fit.few_kernels --tables FOLDER`` writes the profiles of `SERIES`.  There
are too few kernels to hold shapes out: constants stay near typical ones (a prior), and the error of
each kernel is measured with constants fitted on the others.  FOLDER holds tables as described in
`public_tables`.
"""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

import hardware_db
from genz_core.calibration.error_metrics import error_summary
from genz_core.calibration.operator_calibration import fit
from genz_core.latency.measured_operators import OperatorPoints, price_s
from genz_core.latency.parameters import Parameters, describe
from genz_core.latency.profile import Fit
from genz_core.systems import System
from genz_core.types import Array, Mask
from hardware_db.profile_schema import FittedProfile, write
from hardware_db.profiles import FOLDER, typical_profile


@dataclass(frozen=True, slots=True)
class FewKernels:
    """A device's kernels of one class and format in a file of the tables, by their dimensions.

    fixed: constants that these kernels cannot determine, which stay typical: square products say
    nothing about reading weights.
    """

    device: str
    operator: str
    fmt: str
    dimensions: tuple[str, ...]
    fixed: frozenset[str] = frozenset()


SERIES = (
    FewKernels("tpu-v7", "gemm", "bf16", ("m", "n", "k"), frozenset({"memory_efficiency"})),
    FewKernels("tpu-v7", "pointwise", "default", ("bytes",)),
)
#: Devices whose tables time one core; they have two cores per chip.
_BY_CORE = frozenset({"tpu-v7"})
_DATA = "AI-Hypercomputer/tpu-recipes c8cfe2f"
_SPREAD = 0.7
_HEADING = """Latency constants fitted by `python -m hardware_db.fit.few_kernels`; do not edit.
Data: {data} (Apache-2.0), a handful of kernels.
The fields are explained in genz_core/latency/parameters.py."""


def measured_system(device: str) -> System:
    """The datasheet of what was timed: the device, or one of its two cores."""
    whole = hardware_db.facts(device).system()
    if device not in _BY_CORE:
        return whole
    return replace(
        whole,
        peak_flops_per_s={name: peak / 2 for name, peak in whole.peak_flops_per_s.items()},
        memory_bytes_per_s=whole.memory_bytes_per_s / 2,
        compute_units=1,
    )


def read_points(folder: Path, series: FewKernels) -> OperatorPoints:
    """The measured kernels of a series."""
    table = pd.read_csv(folder / f"{series.operator}.csv.gz", low_memory=False)
    rows = table[(table["device"] == series.device) & (table["fmt"] == series.fmt)]
    sizes = {name: rows[name].to_numpy(np.float64) for name in series.dimensions}
    return OperatorPoints(series.operator, series.fmt, sizes, rows["latency_s"].to_numpy(float))


def fitted(points: OperatorPoints, system: System, fixed: frozenset[str]) -> Parameters:
    """Constants near the typical ones, fitted to some kernels.  fixed: the unfitted ones."""
    start = typical_profile(system).parameters[points.operator, points.fmt]
    spread = dict.fromkeys((constant.name for constant in describe(type(start))), _SPREAD)
    return fit(points, system, start, spread=spread, prior=True, fixed=fixed).parameters


def _one_by_one(points: OperatorPoints, system: System, fixed: frozenset[str]) -> Array:
    """Seconds of each kernel with constants that were fitted on the others."""
    every = np.arange(len(points.measured_s))
    seconds = []
    for at in every:
        constants = fitted(_rows(points, every != at), system, fixed)
        seconds.append(price_s(_rows(points, every == at), system, constants)[0])
    return np.array(seconds)


def _rows(points: OperatorPoints, chosen: Mask) -> OperatorPoints:
    sizes = {name: values[chosen] for name, values in points.arrays().items()}
    return replace(points, dims=sizes, measured_s=points.measured_s[chosen])


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit and write the profiles; returns the exit status."""
    parser = argparse.ArgumentParser(prog="hardware_db.fit.few_kernels", description=__doc__)
    parser.add_argument("--tables", type=Path, required=True, help="folder of the tables")
    parser.add_argument("--date", default=datetime.date.today().isoformat(), help="date to record")
    options = parser.parse_args(arguments)
    for device in dict.fromkeys(series.device for series in SERIES):
        system, parameters, fits = measured_system(device), {}, {}
        for series in (series for series in SERIES if series.device == device):
            points, key = read_points(options.tables, series), (series.operator, series.fmt)
            errors = error_summary(_one_by_one(points, system, series.fixed), points.measured_s)
            parameters[key] = fitted(points, system, series.fixed)
            fits[key] = Fit("measured", _DATA, errors.points, errors.points, errors.mape,
                            errors.p90, errors.bias, options.date)  # fmt: skip
        note = "fitted on a handful of kernels of this device, near typical constants"
        profile = FittedProfile(device, system.family, (device,), parameters, fits, note)
        write(profile, FOLDER / f"{device}.yaml", _HEADING.format(data=_DATA))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
