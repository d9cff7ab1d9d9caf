"""Device power measured in kept runs, for scenarios with a similar load."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import hardware_db
from app.scenario.scenario import Resolved
from genz_core.errors import MeasurementError, RidgelineError
from profilers.runs.store import KeptRun, Store

#: A run's power is used for batches within this factor of its own.
NEAR = 2.0
_MEAN = "power_w_mean"


@dataclass(frozen=True, slots=True)
class MeasuredPower:
    """Mean power of a device in a kept run [W], and the number of sequences that ran at once."""

    run: str
    power_w: float
    batch: float

    def __str__(self) -> str:
        return f"run {self.run[:8]}, batch {self.batch:g}"


def measured_powers(resolved: Resolved, stores: Iterable[Store]) -> list[MeasuredPower]:
    """Power measured in kept runs of the scenario's model on its system, latest first.

    Damaged runs, and those of devices without a power sensor, are left out.
    """
    found = []
    for store in stores:
        for run in store.runs():
            if _alike(run, resolved):
                try:
                    measured = store.load(run.id)
                except MeasurementError:
                    continue
                power, load = measured.facts.get(_MEAN), measured.workload
                if isinstance(power, (int, float)) and 0.0 < power < math.inf and load is not None:
                    found.append(MeasuredPower(run.id, float(power), float(load.batch)))
    return found


def _alike(run: KeptRun, resolved: Resolved) -> bool:
    """Whether a run is of the scenario's model on its system."""
    if not run.model or not run.system:
        return False
    if run.model.rpartition("/")[2] != resolved.model.name.rpartition("/")[2]:
        return False
    try:
        return hardware_db.load(run.system).slug == resolved.system.slug
    except RidgelineError:
        return False


def nearest(found: Sequence[MeasuredPower], batch: float) -> MeasuredPower | None:
    """The run with the nearest batch, None where none is near; of equal ones the first."""
    near = [one for one in found if abs(math.log(one.batch / batch)) <= math.log(NEAR) + 1e-9]
    return min(near, key=lambda one: abs(math.log(one.batch / batch)), default=None)
