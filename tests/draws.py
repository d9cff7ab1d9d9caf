"""The number of random cases of a test, and their seed.

Without settings a test draws the same cases every time. RIDGELINE_DRAWS multiplies their number;
RIDGELINE_SEED draws others, the same ones for the same seed. `.ci/nightly` sets and prints
both. Every test that draws has the marker `draws`; those of hypothesis get it automatically.
"""

import os
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TypeVar

Subject = TypeVar("Subject")

TIMES = int(os.environ.get("RIDGELINE_DRAWS") or 1)
SEED = os.environ.get("RIDGELINE_SEED", "")


def cases(usual: int) -> int:
    """The number of cases to draw, `usual` without settings."""
    return usual * TIMES


def seed(usual: int) -> int:
    """The seed to draw from: `usual`, or another for each RIDGELINE_SEED."""
    return usual + 1000 * int(SEED or 0)


def spread(subjects: Sequence[Subject], number: int) -> list[Subject]:
    """At most `number` of the subjects, evenly spaced, the first among them."""
    number = min(number, len(subjects))
    return [subjects[place * len(subjects) // number] for place in range(number)]


def turns(values: Sequence[tuple[Hashable, ...]], number: int) -> list[int]:
    """Positions of at most `number` cases among which the values of each parameter take turns.

    values: of each case, its parameters' values, in the same order.  Each next case has as many
    values as possible that no chosen case has, then the least used ones; of equals the first in an
    even spread.
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
