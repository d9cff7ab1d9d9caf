"""Losses of replicas: how often, when, and for how long one is gone."""

from __future__ import annotations

import numpy as np

from app.question.question import Question
from app.scaling.start import Start
from genz_core.serving.simulation.replica_set import Loss
from hardware_db import startup

_OF_LOSSES = 2_000  # of a seed's sequences


def mtbf_s(question: Question, mtbf_h: float | None) -> float:
    """Seconds between two losses of a replica, `inf` for none: a device takes its replica along.

    mtbf_h: hours of a device; None as published, 0 for none.
    """
    if mtbf_h is None:
        device_s = startup.of_loss("device_mtbf_s").value
    else:
        device_s = mtbf_h * 3600.0 or np.inf
    return float(device_s / (question.tp * question.pp * question.dp))


def unavailable(mtbf: float, replace_s: float, start: Start) -> float:
    """Share of time that a replica is gone: lost, or not serving again yet."""
    gone = replace_s + start.seconds
    return gone / (mtbf + gone) if np.isfinite(mtbf) else 0.0


def drawn(mtbf: float, places: int, until_s: float, seed: int) -> list[Loss]:
    """Losses of each place over a time, in order; more places have the same ones and their own."""
    found: list[Loss] = []
    for place in range(places) if np.isfinite(mtbf) else ():
        chance = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_OF_LOSSES, place)))
        at = chance.exponential(mtbf)
        while at < until_s:
            found.append((float(at), place))
            at += chance.exponential(mtbf)
    return sorted(found)
