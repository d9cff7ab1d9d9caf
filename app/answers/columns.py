"""Every column of an answer, found by its name.

Tables of the command line, pages, files and programs take names, headings, units, help and the
better direction from here.  Names end in their unit and are the keys of JSON and the headings of
CSV.  They are declared once: latencies in `latencies.py`, parameters in `app.question`, all else
in `figures.py`.
"""

from collections.abc import Iterable, Iterator, Mapping

from app.answers.column import Column, with_interval
from app.answers.figures import FIGURES, NUMBERS, TEXTS, WITH_INTERVAL
from app.answers.latencies import latency_columns
from app.question.parameters import PARAMETERS

#: Units of parameters whose numbers count something.
_COUNTED = {"isl": "tokens", "osl": "tokens", "max_num_batched_tokens": "tokens"}


def _of_parameters() -> Iterator[Column]:
    """A column for each parameter, from its declaration; figures that are also parameters have
    their own column.
    """
    own = {*TEXTS, *NUMBERS, *FIGURES}
    for name, one in PARAMETERS.items():
        if name in own:
            continue
        unit = {"1/s": "req/s", "%": "share"}.get(one.unit, one.unit)
        if one.kind == "whole":
            unit = _COUNTED.get(name, "count")
        head = one.title.partition(" [")[0]
        yield Column(name, head, unit or ("factor" if one.numeric else ""), one.help)


def _every() -> Iterator[Column]:
    yield from _of_parameters()
    for name, (words, said) in TEXTS.items():
        yield Column(name, words, "", said)
    for name, (words, unit, said) in NUMBERS.items():
        yield Column(name, words, unit, said)
    yield from latency_columns()
    for name, (words, unit, better, said) in FIGURES.items():
        one = Column(name, words, unit, said, "", better)
        yield from with_interval(one) if name in WITH_INTERVAL else (one,)


def _by_name(columns: Iterable[Column]) -> dict[str, Column]:
    found: dict[str, Column] = {}
    for one in columns:
        if one.name in found:
            raise ValueError(f"column {one.name!r} is declared twice")
        found[one.name] = one
    return found


#: Every column by its name.
COLUMNS: Mapping[str, Column] = _by_name(_every())
