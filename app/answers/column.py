"""A column of an answer: its name, heading, unit and help, its values in words, and the names of an
interval's ends.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from app.wording import quantities
from genz_core.limits import short

Better = Literal["low", "high", ""]
#: Ends of an 80 % interval.
_ENDS = ("low", "high")
#: Formatter of a value by its unit; other units are shown with four digits and the unit.
WRITERS: Mapping[str, Callable[[float], str]] = {
    "s": quantities.seconds,
    "bytes": quantities.size,
    "tok/s": quantities.tokens_rate,
    "seq/s": partial(quantities.rate, unit="sequences/s"),
    "J": partial(quantities.rate, unit="J"),
    "$": quantities.dollars,
    "$/h": quantities.dollars,
    "share": quantities.percent,
    "tokens": quantities.count,
    "count": quantities.count,
}
_FORMATS: Mapping[str, str] = {
    "bytes": "compact",
    "count": "localized",
    "share": "percent",
    "tokens": "localized",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of an answer.

    name: key in JSON and CSV, ending in its unit.  head: title of the column, without its unit.
    unit: "s", "bytes", "tok/s", "seq/s", "req/s", "$", "$/h", "J", "share" (of one), "tokens",
    "count", "factor", or "" for texts and truths.  help: one sentence.
    statistic: of many requests ("p95"), "bound", or an end of the 80 % interval ("low", "high").
    better: whether a low or a high value is better, "" for neither.
    base: name of the column that an end of an interval belongs to.
    """

    name: str
    head: str
    unit: str = ""
    help: str = ""
    statistic: str = ""
    better: Better = ""
    base: str = ""

    @property
    def title(self) -> str:
        """The heading with its unit, unless it already contains it: "TTFT [s]", "$/h"."""
        if self.unit in ("", "count", "factor", "share") or self.unit in self.head.split():
            return self.head
        return f"{self.head} [{self.unit}]"

    @property
    def smaller(self) -> bool:
        """Whether a smaller value is better."""
        return self.better == "low"

    @property
    def clause(self) -> str:
        """The help within a sentence: "mean time to the first token"."""
        return self.help[:1].lower() + self.help[1:].rstrip(".")

    @property
    def format(self) -> str:
        """Streamlit's format of its numbers: four digits; counts whole, bytes with a prefix."""
        return _FORMATS.get(self.unit, "%.4g")

    def words(self, value: float | None) -> str:
        """A value for a reader: "4.52 ms", "142 tok/s", "–" for none."""
        return in_words(value, self.unit)

    def span(self, low: float, high: float) -> str:
        """An 80 % interval for a reader: "18.3 to 41.7 ms", or "not validated"."""
        return span_words(low, high, self.unit)


def in_words(value: float | None, unit: str) -> str:
    """A value with its unit for a reader, a dash for none; without a formatter four digits."""
    if value is None:
        return "–"
    if unit in WRITERS:
        return WRITERS[unit](value)
    if not math.isfinite(value):
        return "–"
    return f"{short(value)} {'' if unit == 'factor' else unit}".rstrip()


def span_words(low: float, high: float, unit: str) -> str:
    """An interval of a unit: "18.3 to 41.7 ms"; "not validated" where its ends are NaN."""
    if unit == "s":
        return quantities.span(low, high)
    if math.isnan(low):
        return quantities.NOT_VALIDATED
    first, last = in_words(low, unit), in_words(high, unit)
    return f"{first.removesuffix(f' {unit}')} to {last}"


def ends(name: str) -> tuple[str, str]:
    """Names of the ends of a figure's interval: "ttft_s" -> "ttft_low_s", "ttft_high_s".

    For rates and costs the suffix comes last: "output_tokens_per_s_low".
    """
    if name.endswith("_s") and not name.endswith("_per_s"):
        plain = name.removesuffix("_s")
        return f"{plain}_low_s", f"{plain}_high_s"
    return f"{name}_low", f"{name}_high"


#: Names of the throughput's columns.
THROUGHPUT_ENDS = ends("output_tokens_per_s")


def with_interval(one: Column) -> Iterator[Column]:
    """A figure, and the ends of its 80 % interval."""
    yield one
    for name, end in zip(ends(one.name), _ENDS, strict=True):
        said = f"{end.capitalize()} end of the 80 % interval: {one.clause}."
        shown = f"{one.head}, 80 % {end}"
        yield replace(one, name=name, head=shown, help=said, statistic=end, base=one.name)
