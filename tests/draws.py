"""How many random cases a test draws, and from which seed.

A test draws as many as it says, the same ones every time. RIDGELINE_DRAWS multiplies their number;
RIDGELINE_SEED draws others, the same ones for the same seed. `.ci/nightly` sets both and prints
them. Every test that draws has the marker `draws`; those of hypothesis have it of themselves.
"""

import os
from collections.abc import Sequence
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
