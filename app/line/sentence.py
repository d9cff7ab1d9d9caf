"""A question as a sentence in parts, so that a page can grey out the parts that it does not use."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.question import literals
from app.question.groups import WHAT_IF
from app.question.parameters import PARAMETERS
from app.question.question import STANDARD, Question
from app.question.verbs import NOT_OF_A_BATCH, NOT_UNDER_LOAD, VERBS, parameters_of
from app.wording import quantities

_DEGREES = ("tp", "pp", "dp", "ep")
#: Parameters whose values need no introducing word.
_PLACED = frozenset(
    ("model", "weights", "batch", "concurrency", "rate", "trace", "isl", "osl", "prefix_hits",
     "target", "devices", "system", "engine", "engine_version", *_DEGREES, "use")
)  # fmt: skip
#: Text for an empty value among several.
_UNSAID = {"weights": "the checkpoint's format", "engine": "its default engine"}
#: What a plan chooses unless it is given.
_CHOSEN = ("engine", "tp")
_VERB_WORDS = {"serve": "Serve", "plan": "Plan", "estimate": "Estimate", "simulate": "Simulate",
               "sensitivity": "Vary", "economics": "Price", "scale": "Follow the load of",
               "availability": "Keep up"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the sentence.

    lead: words before the value.  said: the value.  names: its parameters.
    used: whether the verb reads one of them.
    """

    lead: str
    said: str
    names: tuple[str, ...]
    used: bool = True


def _plain(part: Part) -> str:
    return f"{part.lead} {part.said}".strip()


def sentence(
    question: Question,
    verb: str,
    several: Mapping[str, tuple[Any, ...]] | None = None,
    searched: Collection[str] = (),
    lengths: str = "",
) -> tuple[Part, ...]:
    """The parts of a question's sentence for a verb.

    several: values to choose among or to compare, by parameter; "use" for names of use cases
    instead of lengths.  searched: parameters that are searched over.
    lengths: words of a request of a model that reads no text or generates none.
    """
    idle = NOT_OF_A_BATCH if question.kind == "batch" else NOT_UNDER_LOAD
    known = set(parameters_of(verb)) - set(idle) if verb else set()
    parts = _parts(question, verb, dict(several or {}), searched, lengths)
    loads = VERBS[verb].loads if verb else ()
    return tuple(
        Part(lead, said, names, any(_is_used(name, known, loads) for name in names))
        for lead, said, names in parts
    )


def left_open(verb: str, given: Collection[str]) -> tuple[str, ...]:
    """The parameters that the verb searches because no value is given."""
    return tuple(name for name in _CHOSEN if name not in given) if verb == "plan" else ()


def words(parts: Iterable[Part], shown: Callable[[Part], str] = _plain) -> str:
    """The sentence as a text.  shown: of each part."""
    spaced = (shown(part) if part.lead == "," else f" {shown(part)}" for part in parts)
    return "".join(spaced).strip()


def _is_used(name: str, known: Collection[str], loads: Collection[str]) -> bool:
    if name in ("batch", "concurrency", "rate", "trace"):
        return name in loads
    return name in known


def _parts(
    q: Question,
    verb: str,
    several: dict[str, tuple[Any, ...]],
    searched: Collection[str],
    lengths: str,
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    def of(name: str) -> str:
        values = several.get(name) or (getattr(q, name),)
        unsaid = _UNSAID.get(name, "") if len(values) > 1 else ""
        return " or ".join(str(value) or unsaid for value in values)

    models = (str(name).rpartition("/")[2] for name in several.get("model", (q.model,)))
    yield _VERB_WORDS.get(verb, "Ask of"), " or ".join(models), ("model",)
    if q.weights or "weights" in several:
        yield "in", of("weights"), ("weights",)
    if q.kind in ("concurrency", "rate"):
        load = quantities.load(q.kind, getattr(q, q.kind))
        yield "at" if q.rate else "for", load, (q.kind,)
    elif q.kind == "trace":
        yield "for", f"the trace {q.trace}", ("trace",)
    else:
        yield "in", f"a batch of {q.batch:,}", ("batch",)
    lengths = lengths or f"{quantities.count(q.isl)} / {quantities.counted(q.osl, 'token')}"
    yield "of", of("use") if "use" in several else lengths, ("isl", "osl")
    if q.prefix_hits:
        share = quantities.percent(q.prefix_hits)
        yield "with", f"{share} of each prompt cached", ("prefix_hits",)
    if q.target:
        yield "with", " and ".join(map(str, q.target)), ("target",)
    yield "on", _devices(q, verb, of("system"), searched), ("system", *_DEGREES, "devices")
    engine = of("engine") or ("any engine" if "engine" in searched else "its default engine")
    engine = " ".join(filter(None, (engine, of("engine_version"))))
    yield "under", engine, ("engine", "engine_version")
    for name, value in {**q.changed(), **several}.items():
        if name not in _PLACED:
            yield ",", f"{PARAMETERS[name].title.casefold()} {_value(name, value)}", (name,)


def _value(name: str, value: Any) -> str:
    """A value of a parameter with its unit; a factor of the system as "×10"."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if not isinstance(value, (int, float)):
        return literals.text(value)
    shown = f"{value:,.15g}"
    return (
        f"×{shown}"
        if PARAMETERS[name].group == WHAT_IF
        else f"{shown} {PARAMETERS[name].unit}".strip()
    )


def _devices(q: Question, verb: str, system: str, searched: Collection[str]) -> str:
    if verb == "plan":
        text = str(literals.text(q.devices)).replace(",", ":")
        first, _, last = text.partition(":")
        last = last or first
        count = last if first == last else f"up to {last}" if first == "1" else f"{first} to {last}"
    else:
        count = str(q.tp * q.pp * q.dp)
    stated = [f"{name.upper()}{getattr(q, name)}" for name in _DEGREES
              if getattr(q, name) != getattr(STANDARD, name)]  # fmt: skip
    layout = " ".join(stated) or ("any layout" if "tp" in searched else "")
    return f"{count} × {system}" + (f" ({layout})" if layout else "")
