"""What choices like a plan gave away on measured frontiers: of deployments known as well as it."""

from __future__ import annotations

from functools import cache
from typing import Any

from app.accuracy.decisions.correction import Correction
from app.accuracy.decisions.kept import given_away, shipped_correction
from app.accuracy.decisions.loads import KNOWN
from app.planning.families import Family
from hardware_db.measured_runs import shipped_recipes

_HELD_OUT, _MODEL, _GPU = list(KNOWN)[1:]


def of_choices(family: Family) -> dict[str, Any] | None:
    """The regret of choices on measured frontiers that knew as much as a plan's does.

    split: what was left out.  questions: their number.  share: of the best measured throughput
    that the choice gave away, on average.  words: in a sentence.  None for kinds of deployments
    that no measured frontier has, and before the table was kept.
    """
    if family.prefill is not None or family.speculation is not None or family.beyond:
        return None
    split = _split(round(family.resolved.model.parameters), family.system.slug)
    row = given_away(split)
    if row is None:
        return None
    share = row["given away %"]
    words = (
        f"gave away {share:.3g} % of the throughput on measured frontiers on average, and less "
        f"than 5 % in {row['within 5 % of the best %']:.3g} of 100 ({row['questions']:,} "
        f"questions, {KNOWN[split]} known)"
    )
    return {"split": split, "questions": row["questions"], "share": share / 100.0, "words": words}


def correction_of(family: Family) -> Correction:
    """By what the probability of a plan of a family is corrected, as the best of many: that of
    choices on measured frontiers that knew as much of its model and GPU."""
    return shipped_correction(
        _split(round((family.plain or family.resolved).model.parameters), family.system.slug)
    )


def _split(parameters: int, system: str) -> str:
    """The split of the measured runs that leaves as much known as there is of a model on a GPU."""
    models, recipes = _measured()
    if (parameters, system) in recipes:
        return _HELD_OUT
    return _GPU if parameters in models else _MODEL


@cache
def _measured() -> tuple[frozenset[int], frozenset[tuple[int, str]]]:
    """Models, by their parameters, and models on systems of which runs ship."""
    recipes = frozenset((int(row["parameters"]), row["system"]) for row, _ in shipped_recipes())
    return frozenset(parameters for parameters, _ in recipes), recipes
