"""How choices made like a plan performed on measured frontiers, for deployments known
equally well.
"""

from functools import cache
from typing import Any

from app.accuracy.decisions.correction import Correction
from app.accuracy.decisions.kept import given_away, shipped_correction
from app.accuracy.decisions.loads import KNOWN
from app.planning.families import Family
from hardware_db.measured_runs import shipped_recipes

_HELD_OUT, _MODEL, _GPU = list(KNOWN)[1:]


def of_choices(family: Family) -> dict[str, Any] | None:
    """The regret of choices on measured frontiers that were made with as much knowledge as a plan.

    split: what was left out of the fit.  questions: their number.  share: share of the best
    measured throughput that the choice lost, on average.  words: in a sentence.  None for kinds of
    deployments without measured frontiers, and where the table does not exist yet.
    """
    if family.prefill is not None or family.speculation is not None or family.beyond:
        return None
    split = _split(round(family.resolved.model.parameters), family.system.slug)
    row = given_away(split)
    if row is None:
        return None
    share = row["throughput lost %"]
    words = (
        f"lost {share:.3g} % of the best measured throughput on average, and less than 5 % in "
        f"{row['within 5 % of the best %']:.3g} % of {row['questions']:,} measured cases "
        f"({KNOWN[split]} known)"
    )
    return {"split": split, "questions": row["questions"], "share": share / 100.0, "words": words}


def correction_of(family: Family) -> Correction:
    """The correction of a plan's probability for being the best of many, from choices on measured
    frontiers that knew equally much about its model and GPU.
    """
    return shipped_correction(
        _split(round((family.plain or family.resolved).model.parameters), family.system.slug)
    )


def _split(parameters: int, system: str) -> str:
    """The split of the measured runs that leaves as much known as there is about a model
    on a GPU.
    """
    models, recipes = _measured()
    if (parameters, system) in recipes:
        return _HELD_OUT
    return _GPU if parameters in models else _MODEL


@cache
def _measured() -> tuple[frozenset[int], frozenset[tuple[int, str]]]:
    """Models (by their parameters), and models on systems, that have shipped runs."""
    recipes = frozenset((int(row["parameters"]), row["system"]) for row, _ in shipped_recipes())
    return frozenset(parameters for parameters, _ in recipes), recipes
