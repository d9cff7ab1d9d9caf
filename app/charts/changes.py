"""Waterfalls of differences between two or more times, one bar per cause."""

from collections.abc import Mapping, Sequence

from app.charts.figure import Figure
from app.charts.labels import axis_end
from app.charts.parts import BESIDE, lay_bars, time_bars
from app.charts.style import CLASSES, KIND_NAMES, PART_NAMES, PARTS, Look, blank
from app.wording import quantities
from app.wording.quantities import MILLISECOND

Seconds = Mapping[str, float]
#: Smallest share of a difference that gets its own bar; smaller ones are combined in one bar.
_LEAST_SHARE = 0.01
REST = "All else"
_NAMES: Mapping[str, str] = {
    **PART_NAMES, **KIND_NAMES, "other": "Unclassified", "overlap": "Overlap",
}  # fmt: skip


def ordered_changes(before: Seconds, after: Seconds) -> dict[str, float]:
    """The change of every key from `before` to `after` [s], in stacking order.

    Those below a hundredth of the larger total are one, `REST`.  All sum to the difference.
    """
    ranks = {name: at for at, name in enumerate((*PARTS, *CLASSES))}
    names = sorted({**before, **after}, key=lambda name: ranks.get(name, len(ranks)))
    changes = {name: after.get(name, 0.0) - before.get(name, 0.0) for name in names}
    least = _LEAST_SHARE * max(sum(before.values()), sum(after.values()))
    large = {name: change for name, change in changes.items() if abs(change) >= least}
    rest = sum(change for name, change in changes.items() if name not in large)
    return {**large, REST: rest} if rest else large


def bridge(
    stages: Sequence[tuple[str, float]], between: Sequence[Seconds], title: str, look: Look
) -> Figure:
    """A horizontal waterfall: a bar per total and, between two totals, a bar per change.

    stages: (name, seconds) of each total.  between: changes [s] that lead from each to the next.
    """
    drawn: list[tuple[str, float, float, str, str]] = []
    for at, (stage, total) in enumerate(stages):
        color = look.classes[0] if at else look.faint
        drawn.append((f"<b>{stage}</b>", total, 0.0, color, quantities.seconds(total)))
        height = total
        for cause, change in between[at].items() if at < len(between) else ():
            # a name that occurs in two gaps needs two bars
            name = _NAMES.get(cause, cause) + "\u200b" * (at + 1)
            sign, color = ("+", look.classes[1]) if change > 0 else ("−", look.good)
            drawn.append((name, change, height, color, sign + quantities.seconds(abs(change))))
            height += change
    names, values, bases, colors, words = zip(*drawn, strict=True)
    figure = blank(look, title, 100 + 34 * len(names))
    trace = time_bars(
        names, values, "", look.faint,
        base=[base / MILLISECOND for base in bases], marker={"color": colors}, text=words,
        **BESIDE, hovertemplate="%{y}: %{text}<extra></extra>", showlegend=False,
    )  # fmt: skip
    figure.add_trace(trace)
    bars = zip(bases, values, words, strict=True)
    top = axis_end([(max(b, b + v) / MILLISECOND, word) for b, v, word in bars])
    return lay_bars(figure, look, "Time of a step [ms]", bottom=48, range=[0, top])
