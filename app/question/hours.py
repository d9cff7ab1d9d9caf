"""The load of a day: 24 shares of the busiest hour, from midnight on."""

from app.question.question import Question
from genz_core.errors import InvalidValue

HOURS = 24
#: Shares of the busiest hour, from midnight on: an example to replace.
DAY: tuple[float, ...] = (
    0.35, 0.3, 0.25, 0.22, 0.22, 0.25, 0.35, 0.5, 0.7, 0.85, 0.95, 1.0,
    1.0, 0.98, 0.97, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5, 0.4,
)  # fmt: skip


def day_of(question: Question) -> tuple[float, ...]:
    """The load of each hour as shares of the busiest, `DAY` by default.

    Raises:
        InvalidValue: not 24 shares of at least 0, or all are 0.
    """
    try:
        shares = tuple(float(share) for share in question.day or DAY)
    except (TypeError, ValueError):
        shares = ()
    if len(shares) != HOURS or not all(0.0 <= share <= 1e3 for share in shares):
        raise InvalidValue(f"the day has {len(question.day)} shares: give 24 numbers of at least 0")
    if not max(shares) > 0.0:
        raise InvalidValue("the day has no load: give at least one hour a share above 0")
    return shares
