"""Losses of replicas: rate, times, and how long a lost replica is unavailable."""

import numpy as np

from app.question.question import Question
from app.scaling.start import Start
from genz_core.serving.simulation.replica_set import Loss
from hardware_db import startup

_OF_LOSSES = 2_000  # index of this random sequence of a seed


def mtbf_s(question: Question, mtbf_h: float | None) -> float:
    """Mean time between losses of a replica [s], `inf` for none; of any of its devices.

    mtbf_h: hours for one device; None for the published value, 0 for no losses.
    """
    if mtbf_h is None:
        device_s = startup.of_loss("device_mtbf_s").value
    else:
        device_s = mtbf_h * 3600.0 or np.inf
    return float(device_s / (question.tp * question.pp * question.dp))


def unavailable(mtbf: float, replace_s: float, start: Start) -> float:
    """Share of time that a replica is unavailable: lost, or being restarted."""
    gone = replace_s + start.seconds
    return gone / (mtbf + gone) if np.isfinite(mtbf) else 0.0


def drawn(mtbf: float, places: int, until_s: float, seed: int) -> list[Loss]:
    """Losses of each replica slot over a time, in order.

    A larger number of slots keeps the losses of the first ones and adds those of the others.
    """
    found: list[Loss] = []
    for place in range(places) if np.isfinite(mtbf) else ():
        chance = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_OF_LOSSES, place)))
        at = chance.exponential(mtbf)
        while at < until_s:
            found.append((float(at), place))
            at += chance.exponential(mtbf)
    return sorted(found)
