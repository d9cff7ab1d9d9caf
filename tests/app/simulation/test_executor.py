"""Work in this process or in others: one worker is this process, and a cancellation ends it."""

import os

from app.simulation.executor import HERE, Where, outcomes
from genz_core.common.progress import never

PIECES = {3: (0,), 1: (0,), 2: (0,)}


def process_of(_piece: int) -> int:
    return os.getpid()


def test_one_worker_is_this_process_and_keeps_the_order():
    assert list(outcomes(process_of, PIECES, HERE, never)) == [(at, os.getpid()) for at in PIECES]


def test_several_workers_are_other_processes():
    found = dict(outcomes(process_of, PIECES, Where(2), never))
    assert found.keys() == PIECES.keys() and os.getpid() not in found.values()


def test_no_piece_begins_after_a_cancellation():
    begun: list[int] = []
    done = outcomes(begun.append, PIECES, HERE, lambda: len(begun) == 2)
    assert len(list(done)) == len(begun) == 2
