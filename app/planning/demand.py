"""The load of a planning question: its amount, mean lengths, and the means of a trace."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.question.query import Query
from app.question.question import Question
from app.scenario import gate, sharing
from app.scenario.description import load_words
from app.simulation import offered_load
from app.simulation.trace_file import Trace
from genz_core.errors import InvalidValue
from genz_core.serving.load_checks import real_lengths
from genz_core.serving.sharing import Sharing
from genz_core.types import Workload


@dataclass(frozen=True, slots=True)
class Lengths:
    """Mean lengths of the requests of a question in tokens, rounded as in the closed form.

    prompt: including what is found in the cache.  output: of one answer.  wanted: output that a
    user gets per request.  sharing: what requests share at these lengths.
    """

    prompt: float
    output: float
    wanted: float
    sharing: Sharing

    @property
    def cached(self) -> float:
        """Mean tokens of a prompt that are found in the cache."""
        return float(np.asarray(self.sharing.cached_tokens))


def lengths(question: Question) -> Lengths:
    """The mean lengths of a question's requests."""
    longest = sharing.nominal(question, question.isl, question.osl, question.length_ratio)
    ratio = float(longest.length_ratio)
    mean = real_lengths(Workload(1.0, longest.isl, longest.osl), ratio)
    prompt, output = float(np.asarray(mean.isl)), float(np.asarray(mean.osl))
    scaled = longest.sharing.scaled((1.0 + ratio) / 2.0, prompt)
    return Lengths(prompt, output, output * question.samples, scaled)


def is_closed(question: Question) -> bool:
    """Whether users send their next request when the last one completes."""
    return question.kind == "concurrency"


def amount(question: Question) -> float:
    """Number of open requests, or requests per second."""
    return float(question.concurrency or question.rate or 0.0)


def times(query: Query, factor: float) -> Query:
    """The same requests, `factor` times as many of them; those of a trace at its mean rate."""
    q = query.question
    changed: dict[str, Any] = (
        {"concurrency": max(int(amount(q) * factor), 1)}
        if is_closed(q)
        else {"rate": amount(q) * factor}
    )
    objects = {name: value for name, value in query.objects.items() if name != "trace"}
    return replace(query, question=replace(q, **changed), objects=objects)


def at_means(query: Query) -> Query:
    """A question about a trace, converted to its mean rate and lengths; `trace_of` returns the
    trace.

    Raises:
        InvalidValue: fewer than two requests, all at one moment, or a file that is not a trace.
    """
    q = query.question
    if q.kind != "trace":
        return query
    trace = offered_load.drawn(q, query.objects)
    requests = trace.requests
    arrival = np.asarray(requests.arrival_s, dtype=float)
    lasting = float(np.ptp(arrival)) if len(arrival) > 1 else 0.0
    if lasting <= 0.0:
        raise InvalidValue(
            "all requests of the trace arrive at the same time: give a concurrency instead"
        )
    means = replace(
        q,
        trace=None,
        rate=(len(arrival) - 1) / lasting,
        isl=max(round(float(np.mean(requests.input_tokens))), 1),
        osl=max(round(float(np.mean(requests.output_tokens))), 1),
    )
    return replace(query, question=means, objects={**query.objects, "trace": trace})


def trace_of(query: Query) -> Trace | None:
    """The trace whose means a question has, None where it is not about a trace."""
    found = query.objects.get("trace")
    return found if isinstance(found, Trace) else None


def words(query: Query) -> str:
    """The load of a question in words."""
    q = query.question
    load = f"{load_words(q)}{' of a trace' if trace_of(query) else ''}"
    return ", ".join([load, f"{q.isl:,} tokens in, {q.osl:,} out", *sharing.words(q)])


def longest(query: Query) -> tuple[int, int]:
    """Prompt and answer of the longest sequence of a question, with its lengths as given."""
    q, trace = query.question, trace_of(query)
    if trace is not None:
        at = int((trace.requests.input_tokens + trace.requests.output_tokens).argmax())
        return int(trace.requests.input_tokens[at]), int(trace.requests.output_tokens[at])
    return gate.longest(q, q.isl, q.osl), q.osl
