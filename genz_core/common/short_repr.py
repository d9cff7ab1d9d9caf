"""Short representations, at most a few lines, of long names, arrays and tables of constants."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

_MOST = 60


def clipped(text: str, most: int = _MOST) -> str:
    """A text cut to `most` characters, its end replaced by "..." where it is longer."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def shortened(name: str, length: int = 80) -> str:
    """A kernel's name on a single line of at most `length` characters."""
    line = " ".join(name.split())
    return line if len(line) <= length else line[: length - 1] + "…"


def listed(names: Iterable[str], most: int = 400) -> str:
    """Names separated by commas; those beyond `most` characters are replaced by "..."."""
    return textwrap.shorten(", ".join(names), most, placeholder=" ...")


def span(values: ArrayLike) -> str:
    """The range of numbers, "0.012" or "0.012 to 0.34"; "nan" where none is a number."""
    numbers = np.asarray(values, dtype=float)
    numbers = numbers[~np.isnan(numbers)]
    if not numbers.size:
        return "nan"
    least, most = float(numbers.min()), float(numbers.max())
    return f"{least:.4g}" if least == most else f"{least:.4g} to {most:.4g}"


def spans(figures: Iterable[tuple[str, ArrayLike]]) -> str:
    """Named ranges: "ttft_s 0.012 to 0.34, tpot_s 0.008"."""
    return ", ".join(f"{name} {span(values)}" for name, values in figures)


def counts(codes: Iterable[str]) -> str:
    """How often each code occurs, the most frequent first: "3 ok, 1 out_of_memory"."""
    return ", ".join(f"{count:,} {code}" for code, count in Counter(codes).most_common())
