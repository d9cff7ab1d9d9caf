"""Program that writes a sample of held-out points of every series with their predictions.

``python -m hardware_db.fit.held_out`` writes hardware_db/profiles/held_out_points.csv: a few points
of every series (operator, device, format), spread over the range of its latencies, priced with the
shipped constants.  The points come from the tables that the profiles are fitted on; needs the extra
`calibrate`.
"""

from __future__ import annotations

import csv
import datetime
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from genz_core.latency.measured_operators import price_s, roofline_s
from genz_core.latency.parameters import CLASSES, Parameters
from hardware_db.fit.samples import SplitSeries, samples
from hardware_db.fit.tables import DEVICES, PACKAGE, package_version
from hardware_db.profiles import FOLDER, measured_profiles

FILE = FOLDER / "held_out_points.csv"
PER_SERIES = 12
COLUMNS = (
    "operator", "system", "fmt", "shape", "predicted_s", "measured_s", "roofline_s", "data", "date",
)  # fmt: skip


def rows(sample: SplitSeries) -> Iterator[dict[str, Any]]:
    """Rows of `COLUMNS` for a series, priced with the shipped constants."""
    own = [profile for profile in measured_profiles() if sample.slug in profile.systems]
    if own and sample.key in own[0].parameters:
        yield from drawn(sample, own[0].parameters[sample.key])


def drawn(
    sample: SplitSeries, parameters: Parameters, count: int = PER_SERIES
) -> Iterator[dict[str, Any]]:
    """Rows of `COLUMNS` for `count` held-out points of a series, evenly spaced in the rank of
    latency.
    """
    if sample.test.empty:
        return
    points = sample.points(sample.test)
    predicted = price_s(points, sample.system, parameters)
    least = np.broadcast_to(roofline_s(points, sample.system), predicted.shape)
    order = np.argsort(points.measured_s, kind="stable")
    for at in order[np.unique(np.linspace(0, len(order) - 1, count).round().astype(int))]:
        shape = {k: np.broadcast_to(v, predicted.shape)[at] for k, v in points.dims.items()}
        yield {
            "operator": sample.key[0],
            "system": sample.slug,
            "fmt": sample.key[1],
            "shape": " ".join(f"{name}={float(value):g}" for name, value in shape.items()),
            "predicted_s": f"{predicted[at]:.5g}",
            "measured_s": f"{points.measured_s[at]:.5g}",
            "roofline_s": f"{least[at]:.5g}",
        }


def main() -> None:
    """Draw from every device and operator class, and write `FILE`."""
    facts = {
        "data": f"{PACKAGE} {package_version()}",
        "date": datetime.date.today().isoformat(),
    }
    write([row | facts for name in CLASSES for s in samples(name, DEVICES) for row in rows(s)])


def write(drawn: Iterable[dict[str, Any]]) -> None:
    """Write `FILE`."""
    with FILE.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(drawn)


if __name__ == "__main__":
    main()
