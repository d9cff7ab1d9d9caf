"""How many random cases a test draws, and from which seed.

A test draws as many as it says, the same ones every time. RIDGELINE_DRAWS multiplies their number;
RIDGELINE_SEED draws others, the same ones for the same seed. `.ci/nightly` sets both and prints
them. Every test that draws has the marker `draws`; those of hypothesis have it of themselves.
"""

import os
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TypeVar

Subject = TypeVar("Subject")

TIMES = int(os.environ.get("RIDGELINE_DRAWS") or 1)
SEED = os.environ.get("RIDGELINE_SEED", "")


def cases(usual: int) -> int:
    """The number of cases to draw where one run of the tests draws `usual`."""
    return usual * TIMES


def seed(usual: int) -> int:
    """The seed to draw from: `usual`, or another for each RIDGELINE_SEED."""
    return usual + 1000 * int(SEED or 0)


def spread(subjects: Sequence[Subject], number: int) -> list[Subject]:
    """At most `number` of the subjects, evenly spaced, the first among them."""
    number = min(number, len(subjects))
    return [subjects[place * len(subjects) // number] for place in range(number)]


def turns(values: Sequence[tuple[Hashable, ...]], number: int) -> list[int]:
    """Places of at most `number` cases among which the values of each parameter take turns.

    values: of each case, its parameters' values, in the same order.  Each case that is chosen has
    the values that were chosen least so far: first it has as many values as it can that nothing
    chosen has, then the least use of the rest; of equals the first in an even spread.
    """
    left = spread(range(len(values)), number)
    left += [place for place in range(len(values)) if place not in set(left)]
    used: Counter[tuple[int, Hashable]] = Counter()
    chosen: list[int] = []

    def use(place: int) -> tuple[int, int]:
        uses = [used[axis, value] for axis, value in enumerate(values[place])]
        return -uses.count(0), sum(uses)

    while left and len(chosen) < number:
        place = min(left, key=use)
        left.remove(place)
        chosen.append(place)
        used.update(enumerate(values[place]))
    return sorted(chosen)
