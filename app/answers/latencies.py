"""The latencies of an answer, and every column that states one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from app.answers.column import Column, with_interval

#: Percentiles of a latency over the requests of a simulation.
PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class Latency:
    """A latency, from which its columns are made.

    name: of its columns, before the statistic.  head, said: title, and description.
    stated: "" for the figure itself, "median", "mean" and the percentiles ("p95").
    trusted: those among them with an 80 % interval.  bound: whether it has a bound.
    """

    name: str
    head: str
    said: str
    stated: tuple[str, ...]
    trusted: tuple[str, ...] = ()
    bound: bool = False

    def columns(self) -> Iterator[Column]:
        """Every column of the latency: statistics, ends of intervals, the bound."""
        for what in self.stated:
            named = f"{self.name}_{what}_s" if what else f"{self.name}_s"
            shown = f"{self.head} {what}".rstrip()
            one = Column(named, shown, "s", _sentence(_of(what) + self.said), what or "mean", "low")
            yield from with_interval(one) if what in self.trusted else (one,)
        if self.bound:
            said = _sentence(f"lower bound of the {self.said}")
            yield Column(f"bound_{self.name}_s", f"{self.head}, bound", "s", said, "bound", "low")


_STATISTIC_WORDS: Mapping[str, str] = {"": "mean ", "mean": "mean ", "median": "median "}
_SIMULATED = ("mean", *(f"p{percent}" for percent in PERCENTILES))
_BOTH = ("", "median")
#: Every latency by the name of its columns, in the order of a request's life.
LATENCIES: Mapping[str, Latency] = {
    one.name: one
    for one in (
        Latency("queue", "Queueing", "time from arrival to the first step", ("", *_SIMULATED)),
        Latency("ttft", "TTFT", "time to the first token", (*_BOTH, *_SIMULATED), _BOTH, True),
        Latency("tpot", "TPOT", "time between tokens", (*_BOTH, *_SIMULATED), _BOTH, True),
        Latency("itl", "ITL", "time between two tokens of one request", _SIMULATED),
        Latency(
            "e2e", "E2E", "time from sending a request to its last token", ("", *_SIMULATED), ("",)
        ),
        Latency("latency", "Latency", "time of one pass over the input", _BOTH, _BOTH, True),
        Latency("prefill", "Prefill", "time to prefill the prompts", ("",), ("",), True),
        Latency(
            "decode_step", "Decode step", "time of one decode step of the batch", ("",), ("",), True
        ),
    )
}


def latency_columns() -> Iterator[Column]:
    """The columns of every latency; then those of a table whose rows are latencies, and those of
    a simulation beside the closed form.
    """
    for latency in LATENCIES.values():
        yield from latency.columns()
    for what in _SIMULATED:
        yield Column(f"{what}_s", what, "s", _sentence(f"{_of(what)}the requests"), what, "low")
    for name in ("ttft", "tpot", "e2e"):
        words, said = LATENCIES[name].head, LATENCIES[name].said
        named, helped = f"simulated_{name}_s", f"Mean {said}, simulated."
        yield Column(named, f"{words}, simulated", "s", helped, "mean", "low")


def _of(statistic: str) -> str:
    """How a sentence on a statistic begins: "95th percentile of "."""
    return _STATISTIC_WORDS.get(statistic, f"{statistic[1:]}th percentile of ")


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."
