"""The document docs/closed-form.md: how far the closed form differs from the simulation."""

from collections.abc import Sequence

from app.accuracy import simulation_grid
from app.accuracy.tables import Row, today
from app.answers.table import TableFormat, render

_WORST = 15
_SHORT = ("model", "system", "engine", "prefill", "tp", "pp", "dp", "ep", "isl", "osl", "lengths",
          "loop", "users", "room")  # fmt: skip


def document(rows: Sequence[Row], day: str = "") -> str:
    """The document as Markdown.

    rows: of `simulation_grid.compared`.  day: ISO date of their pricing, default today.
    """
    apart = sum(bool(row["prefill"]) for row in rows)
    parts = [
        "# Closed form of serving compared with the simulation",
        f"Written by `ridgeline validate simulation --count {len(rows) - apart} "
        f"--write-docs docs/closed-form.md`, {day or today()}.",
        "`ridgeline serve` evaluates equations in milliseconds; `ridgeline simulate` runs an "
        "engine's scheduler step by step with the same step prices. This page compares them on "
        f"{len(rows) - apart} deployments drawn at random: {len(simulation_grid.MODELS)} models "
        f"(dense, experts, latent attention), {len(simulation_grid.SYSTEMS)} systems, "
        f"{len(simulation_grid.ENGINES)} engines, one to eight devices in tensor, pipeline, data "
        "and expert parallel, prompts of 16 to 32k tokens, outputs of 1 to 4k. Lengths vary by "
        "10 % around the mean (the default), or are uniform between 1.0, 0.8 or 0.5 times the "
        "maximum and the maximum. Closed loops have between one user and twice the number that "
        "fits into the KV cache. Open loops have a rate of 10 to 90 % of the highest rate that "
        "the closed form sustains; both methods use the same random arrivals. Loads are in steady "
        f"state: users start one after the other, and ramp-up and ramp-down do not count. {apart} "
        "more deployments have one to six prefill workers. "
        "Neither method applies corrections measured on an engine and device. An error is "
        "closed form / simulated - 1.",
        render(simulation_grid.summary(rows), TableFormat.markdown),
        "## Where they differ",
        "Deployments with a figure outside the limits, by likely reason; for these, use the "
        "simulation.",
        render(simulation_grid.exceptions(rows), TableFormat.markdown),
        f"The {_WORST} largest deviations, as ratios:",
        render(_brief(simulation_grid.furthest(rows, _WORST)), TableFormat.markdown),
    ]
    return "\n\n".join(parts) + "\n"


def _brief(rows: Sequence[Row]) -> list[Row]:
    ratios = [f"{name} ratio" for name in simulation_grid.LIMITS]
    return [{name: row[name] for name in (*_SHORT, *ratios)} for row in rows]
