"""Axes of the decision charts: user experience horizontally, yield or cost vertically."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.answers.columns import COLUMNS
from app.planning.targets import Target
from app.wording import quantities
from genz_core.search import pareto
from genz_core.types import Array

Columns = Mapping[str, Array]
_MEGA = 1e6


@dataclass(frozen=True, slots=True)
class Axis:
    """A figure to draw.

    name: in an address.  words: in a menu; title: on an axis, with its unit.  column: of
    `app.planning.candidates`.  invert: use `scale` divided by the column instead of the column.
    logarithmic: whether its axis is.
    """

    name: str
    words: str
    title: str
    column: str
    invert: bool = False
    scale: float = 1.0
    logarithmic: bool = False

    @property
    def smaller(self) -> bool:
        """Whether a smaller value is better."""
        return COLUMNS[self.column].smaller != self.invert

    def values(self, columns: Columns) -> Array:
        """The axis values of the rows, NaN where there are none."""
        column = np.asarray(columns[self.column], dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = self.scale / column if self.invert else self.scale * column
        return np.where(np.isfinite(values), values, np.nan)

    def shown(self, value: float) -> str:
        """A value formatted for a reader."""
        if self.title.endswith("[s]"):
            return quantities.seconds(value)
        return quantities.digits(value)

    def guide(self, target: Target) -> float | None:
        """Position of a target on this axis, None if it concerns another figure."""
        if target.figure.column == self.column:
            return self.scale / target.value if self.invert else self.scale * target.value
        if self.name == "interactivity" and target.figure.name == "tpot":
            return 1.0 / target.value
        return None


ACROSS: Mapping[str, Axis] = {
    axis.name: axis
    for axis in (
        Axis("interactivity", "tok/s per user", "Interactivity [tok/s a user]", "interactivity"),
        Axis("ttft", "TTFT", "Mean time to first token [s]", "ttft_s", logarithmic=True),
        Axis("e2e", "E2E", "Mean time of a request [s]", "e2e_s", logarithmic=True),
    )
}
UPWARDS: Mapping[str, Axis] = {
    axis.name: axis
    for axis in (
        Axis("per_device", "tok/s per device", COLUMNS["output_tokens_per_s_per_device"].title,
             "output_tokens_per_s_per_device"),
        Axis("per_dollar", "Tokens per dollar", "Output tokens per US dollar", "usd_per_mtok",
             invert=True, scale=_MEGA, logarithmic=True),
        Axis("per_megawatt", "tok/s per MW", "Output per megawatt of TDP [tok/s]",
             "joules_per_token", invert=True, scale=_MEGA, logarithmic=True),
        Axis("usd_per_mtok", "$ per Mtok", "Cost of a million output tokens, rented [$]",
             "usd_per_mtok", logarithmic=True),
        Axis("joules", COLUMNS["joules_per_token"].head, "Energy of an output token at TDP [J]",
             "joules_per_token", logarithmic=True),
    )
}  # fmt: skip


def frontier(across: Array, upwards: Array, x: Axis, y: Axis) -> NDArray[np.intp]:
    """The points that no other beats on both axes, in horizontal order, [vertices].

    across, upwards: values of the axes, [points]; points with NaN are excluded.
    """
    costs = across if x.smaller else -across
    gains = -upwards if y.smaller else upwards
    chosen = np.flatnonzero(pareto(costs, gains))
    return chosen[np.argsort(across[chosen], kind="stable")]


def guides(targets: Sequence[Target], axis: Axis) -> list[tuple[float, str]]:
    """Positions of targets on an axis, with labels."""
    places = [(axis.guide(target), str(target)) for target in targets]
    return [(place, words) for place, words in places if place is not None]
