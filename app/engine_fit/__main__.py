"""Fit every engine again: `python -m app.engine_fit` writes hardware_db/engines.

The same measurements always give the same files.  It takes a quarter of an hour on one core.
"""

import argparse
import datetime

from app.answers.table import TableFormat, render
from app.engine_fit import held_out
from app.engine_fit.fit_files import (
    ENGINES,
    write_engine,
    write_factors,
    write_kernels,
    write_rows,
    write_runs,
    write_table,
)
from app.engine_fit.hierarchy import fit
from app.engine_fit.interval_tables import AS_GENERIC, OWN, coverage_table, interval_table
from app.engine_fit.measured_facts import measured_facts
from app.engine_fit.neighbours import fit_kernels
from app.engine_fit.splits import (
    OWN_RUNS,
    SPLITS,
    as_generic,
    in_sample,
    left_out,
    own_runs_table,
    split_errors,
    with_own_runs,
    with_requests,
)
from app.engine_fit.targets import load_measurements
from genz_core.engine import TRIED_RUNS
from hardware_db import measured_runs
from hardware_db.tables import table


def main() -> None:
    """Fit all engines; write their constants and the tables of errors and intervals."""
    argparse.ArgumentParser(prog="app.engine_fit", description=__doc__).parse_args()
    day = datetime.date.today()
    fitted = [fit(data, print) for data in load_measurements()]
    for engine_fit in fitted:
        write_engine(engine_fit, day)
    for level in ("era", "silicon", "device", "recipe"):
        print(write_factors(fitted, level), f"factors of level {level}")
    print(write_rows(ENGINES / "measured.csv", measured_facts()), "facts of measured runs")
    print(write_runs(fitted, ENGINES / "runs.csv"), "runs")
    kernels = fit_kernels([(engine_fit.data, engine_fit.learned) for engine_fit in fitted])
    write_kernels(kernels, ENGINES / "kernels.csv")
    table.cache_clear()
    measured_runs.kernels.cache_clear()
    residuals = {label: with_requests(left_out(fitted, by)) for label, by in SPLITS.items()}
    print(
        write_rows(ENGINES / "held_out.csv", held_out.table(residuals), ("split", "id")), "held out"
    )
    own = {count: with_own_runs(fitted, count) for count in OWN_RUNS}
    beside = {OWN: own[TRIED_RUNS], AS_GENERIC: as_generic(fitted)}
    spread = {**residuals, **{label: with_requests(found) for label, found in beside.items()}}
    tables = {
        "fit_errors": split_errors({"in sample": with_requests(in_sample(fitted)), **residuals}),
        "own_runs": own_runs_table(own),
        "intervals": interval_table(spread),
        "coverage": coverage_table(spread),
    }
    for name, rows in tables.items():
        write_table(ENGINES / f"{name}.csv", rows, day)
        print(f"\n{name}\n" + render(rows, TableFormat.text))


if __name__ == "__main__":
    main()
