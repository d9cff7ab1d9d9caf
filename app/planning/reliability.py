"""How often targets are met at each predicted probability, on the shipped measured serving rows.

Every measured run gets targets at several factors of its predicted TTFT and TPOT.  The probability
that the planner gives to each, and to both together, is compared with whether the measured figure
met it. The rows were used to fit the engines' constants, so this tests the form of the probability;
its width comes from points that were not fitted (`app.planning.probability`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.accuracy import measured_points
from app.accuracy.decisions.choices import choices
from app.accuracy.decisions.kept import shipped_correction
from app.accuracy.decisions.loads import held_out_loads
from app.accuracy.decisions.scores import reliability_rows
from app.accuracy.tables import Row, today
from app.answers.table import TableFormat, render
from genz_core.types import Array
from hardware_db.intervals import Interval, probability_below

#: Targets, as factors of the predicted figure.
FACTORS = (0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.4, 1.7, 2.0)
_EDGES = (0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0)
_LATENCIES = ("ttft_s", "tpot_s")
BOTH = "both targets"


def chances(records: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Array, Array]]:
    """Probability and outcome (1 met, 0 missed) of every target, by figure and for both together.

    records: of `measured_points.serving`: one record per metric and row.
    """
    by_row: dict[str, dict[str, Mapping[str, Any]]] = {}
    for record in records:
        if record["status"] == "ok" and np.isfinite(record["low_s"]):
            by_row.setdefault(str(record["id"]), {})[str(record["metric"])] = record
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in (*_LATENCIES, BOTH)}
    for figures in by_row.values():
        given = {name: _of(figures[name]) for name in _LATENCIES if name in figures}
        for name, (chance, met) in given.items():
            found[name].extend(zip(chance, met, strict=True))
        if len(given) == len(_LATENCIES):
            (first, one), (second, two) = given.values()
            found[BOTH].extend(zip(first * second, one * two, strict=True))
    return {
        name: (np.array([p for p, _ in pairs]), np.array([met for _, met in pairs]))
        for name, pairs in found.items()
        if pairs
    }


def _of(record: Mapping[str, Any]) -> tuple[Array, Array]:
    predicted, measured = record["predicted_s"], record["measured_s"]
    interval = Interval(record["low_s"] / predicted, record["high_s"] / predicted, 0)
    factors = np.array(FACTORS)
    met = (measured <= factors * predicted).astype(float)
    return probability_below(np.log(factors), interval), met


def table(pairs: Mapping[str, tuple[Array, Array]]) -> list[Row]:
    """Share of targets that were met, by figure and probability class."""
    rows = []
    for name, (chance, met) in pairs.items():
        place = np.clip(np.searchsorted(_EDGES, chance, side="right") - 1, 0, len(_EDGES) - 2)
        for at in range(len(_EDGES) - 1):
            here = place == at
            if here.any():
                rows.append(
                    {
                        "target": name.removesuffix("_s"),
                        "probability": f"{_EDGES[at]:.0%} to {_EDGES[at + 1]:.0%}",
                        "targets": int(here.sum()),
                        "mean probability %": round(100 * float(chance[here].mean()), 1),
                        "met %": round(100 * float(met[here].mean()), 1),
                    }
                )
    return rows


def scores(pairs: Mapping[str, tuple[Array, Array]]) -> list[Row]:
    """Mean squared error of the probability (Brier score), and the same for a constant prediction.

    gap: largest difference between mean probability and share met over the classes that hold at
    least a hundredth of the targets, in percent.
    """
    rows = []
    for name, (chance, met) in pairs.items():
        classes = table({name: (chance, met)})
        large = [row for row in classes if row["targets"] >= 0.01 * chance.size]
        gaps = [abs(row["mean probability %"] - row["met %"]) for row in large]
        rows.append(
            {
                "target": name.removesuffix("_s"),
                "targets": chance.size,
                "score": round(float(np.mean((chance - met) ** 2)), 4),
                "score of the base rate": round(float(np.var(met)), 4),
                "largest gap %": round(max(gaps), 1),
            }
        )
    return rows


def document(records: Sequence[Mapping[str, Any]], day: str = "") -> str:
    """docs/plan-probability.md as Markdown.

    records: of `measured_points.serving`.  day: ISO date, today's unless given.
    """
    pairs = chances(records)
    parts = [
        "# How often targets are met at each predicted probability",
        "Written by `ridgeline validate plan --write-docs docs/plan-probability.md`, "
        f"{day or today()}.",
        "For every shipped measured serving run, targets are set at "
        f"{', '.join(f'{factor:g}' for factor in FACTORS)} times its predicted TTFT and TPOT. The "
        "table compares the probability that [the planner](planning.md) assigns to meeting each "
        "target (and both, assuming independent errors) with the share of measured figures that "
        "met it. The runs were also used to fit the engines' constants; the intervals behind the "
        "probability come from points not used in the fit. Where *met* is lower than the "
        "probability, the planner was overconfident.",
        render(table(pairs), TableFormat.markdown),
        "Mean squared error of the probability (Brier score), and of always predicting the overall "
        "share:",
        render(scores(pairs), TableFormat.markdown),
        "## Probability of the chosen plan",
        "The best of many predictions tends to have errors in its favour. The table covers every "
        "decision on measured frontiers (`ridgeline validate decisions`), with the runs, model or "
        "GPU of the decision left out of the fit. It compares the probability that the chosen "
        "deployment meets its target, corrected as in the planner, with the share of chosen "
        "deployments that did. If the probabilities are right, 90 % of such shares lie in the "
        "band. Probabilities below one half occur where no better candidate existed; those targets "
        "were met more often than predicted.",
        render(of_choices(), TableFormat.markdown),
    ]
    return "\n\n".join(parts) + "\n"


def of_choices() -> list[Row]:
    """Predicted and observed probability of choices on measured frontiers, one row per split and
    class.
    """
    rows = []
    for split, loads in held_out_loads().items():
        kept = shipped_correction(split)
        rows += [{"split": split, **row} for row in reliability_rows(choices(loads), kept)]
    return rows


def measured() -> list[Row]:
    """The records of the measured serving rows."""
    return measured_points.serving()
