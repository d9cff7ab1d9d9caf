"""Parameters of a question that contradict each other or have no meaning, checked in one pass."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from app.question.groups import POOL
from app.question.parameters import PARAMETERS, in_group
from app.question.question import STANDARD, Question
from app.question.verbs import NOT_OF_A_BATCH, NOT_UNDER_LOAD, ONE_BY_ONE
from genz_core.errors import InvalidValue
from genz_core.serving.cache_tiers import TIERS

#: Parameters of a prefill pool that do not create one by themselves.
_OF_A_POOL = tuple(
    name for name in in_group(POOL) if name not in ("prefill_system", "prefill_workers")
)


#: Parameters that recorded sessions define themselves.
_OF_SESSIONS = (
    "isl", "osl", "length_ratio", "length_spread", "lengths", "turns", "turn_isl", "think_s",
    "think_spread", "shared_tokens", "prefix_hits", "samples", "beams",
)  # fmt: skip


def tiers_of(question: Question) -> tuple[str, ...]:
    """Names of the cache tiers that a question has below the device, the fastest first."""
    return tuple(name for name in TIERS if getattr(question, f"{name}_cache_gib"))


def has_pool(question: Question) -> bool:
    """Whether prefill has separate workers."""
    return bool(question.prefill_system or question.prefill_workers)


def drafts(question: Question) -> bool:
    """Whether tokens are drafted."""
    return bool(question.speculation) and question.draft_tokens != 0


def refuse_contradictions(question: Question) -> None:
    """Refuse a question whose parameters contradict one another.

    Raises:
        InvalidValue: the first contradiction, with what to leave out.
    """
    for sentence in _contradictions(question):
        raise InvalidValue(sentence)


def refuse_meaningless(question: Question, verb: str = "", stated: Collection[str] = ()) -> None:
    """Refuse a question with a parameter that has no meaning for its load.

    stated: parameters given with several values outside of the question.

    Raises:
        InvalidValue: the first such parameter.
    """
    for sentence in meaningless(question, verb, stated):
        raise InvalidValue(sentence)


def meaningless(question: Question, verb: str = "", stated: Collection[str] = ()) -> Iterator[str]:
    """A sentence for each given parameter that has no meaning for the question's load.

    stated: see `refuse_meaningless`.
    """
    if verb not in ONE_BY_ONE and question.requests is not None and not question.burst_start:
        yield "requests does not apply to a steady load: give burst_start, or leave it out"
    static = question.kind == "batch"
    if verb == "plan" and question.kind == "trace" and (tiers := tiers_of(question)):
        yield (
            f"{tiers[0]}_cache_gib with a trace: a plan models cache tiers only for sessions; "
            "give turns and think_s, or simulate the trace"
        )
    if question.trace:
        for name in _changed(question, ("isl", "osl")):
            yield f"{name} does not apply to a trace, whose requests have lengths: leave it out"
    if verb == "simulate" and question.price and not tiers_of(question):
        yield "price does not apply to a simulation without cache tiers: leave it out"
    for name in NOT_OF_A_BATCH if static else NOT_UNDER_LOAD:
        if name in stated or getattr(question, name) != getattr(STANDARD, name):
            what = "a static batch: give a concurrency or a rate, or" if static else "a load:"
            yield f"{name} does not apply to {what} leave it out"


def _contradictions(q: Question) -> Iterator[str]:
    yield from _of_drafts(q)
    yield from _of_sharing(q)
    yield from _of_sessions(q)
    yield from _of_tiers(q)
    yield from _of_arrivals(q)
    if not has_pool(q):
        for name in _changed(q, _OF_A_POOL):
            yield f"{name} without a prefill pool: name its system, or give prefill_workers"
    if q.engine_version:
        from hardware_db.engine_versions import in_name  # late: it loads pydantic

        if in_name(q.engine) not in ("", q.engine_version):
            yield (
                f"the engine is named {q.engine} and engine_version = {q.engine_version}: leave "
                "out one"
            )
    if q.front_ends > 1 and q.router != "round_robin":
        yield f"front_ends = {q.front_ends} needs router = round_robin"
    if not q.lora_rank and q.lora_adapters != 1:
        yield f"lora_adapters = {q.lora_adapters} without a rank: give lora_rank"


def _of_drafts(q: Question) -> Iterator[str]:
    methods = ", ".join(filter(None, PARAMETERS["speculation"].choices))
    if not q.speculation:
        names = ("draft_model", "acceptance", *(("draft_tokens",) if q.draft_tokens else ()))
        for name in _changed(q, names):
            yield f"{name} without speculation: choose {methods}"
    elif q.speculation == "draft_model" and not q.draft_model:
        yield "speculation = draft_model needs a model: give its name as draft_model"
    elif q.speculation != "draft_model" and q.draft_model:
        yield (
            f"speculation = {q.speculation} needs no draft model: leave it out, or choose "
            "speculation = draft_model"
        )


def _of_sharing(q: Question) -> Iterator[str]:
    found = bool(q.shared_tokens or q.turns > 1)
    if q.prefix_hits and found:
        yield "prefix_hits with a shared prompt or turns: these determine the hits; leave it out"
    if q.samples > 1 and q.beams > 1:
        yield "samples and beams cannot be combined: give one"
    if q.turns > 1 and max(q.samples, q.beams) > 1:
        yield "every turn of a session has one answer: leave out samples and beams"
    if q.prefix_tier == "host" and not (q.prefix_hits or found):
        yield "prefix_tier = host needs cached prefixes: give prefix_hits or turns"
    if q.think_s and q.turns == 1:
        yield "think_s is the pause between two turns of a session: give turns above 1"


def _of_sessions(q: Question) -> Iterator[str]:
    if q.turn_isl and q.turns == 1:
        yield "turn_isl is the input of later turns of a session: give turns above 1"
    if not q.think_s and any(_changed(q, ("think_spread",))):
        yield "think_spread varies the pauses between turns: give think_s"
    if q.sessions:
        for name in _changed(q, _OF_SESSIONS):
            yield f"recorded sessions have lengths, turns and pauses of their own: leave out {name}"


def _of_tiers(q: Question) -> Iterator[str]:
    tiers = tiers_of(q)
    for tier in (name for name in TIERS if name not in tiers):
        for name in _changed(q, (f"{tier}_cache_gb_per_s", f"{tier}_cache_price")):
            yield f"{name} without a {tier} cache: give {tier}_cache_gib"
    if not tiers:
        if q.cache_writes != STANDARD.cache_writes:
            yield "cache_writes without a cache tier: give host_cache_gib"
        return
    first = f"{tiers[0]}_cache_gib"
    if not q.prefix_caching:
        yield f"{first} without prefix caching: leave out one"
    for name in _changed(q, ("prefix_hits", "prefix_tier")):
        yield f"{name} states the cache hits, which {first} computes: leave out one"
    if q.turns == 1 and not (q.sessions or q.trace or _changed(q, ("prefix_hits",))):
        yield f"{first} has no effect unless prefixes are reused: give turns, sessions or a trace"


def _of_arrivals(q: Question) -> Iterator[str]:
    shapes: Mapping[str, Any] = {"burstiness": q.burstiness != 1.0, "ramp_to": q.ramp_to > 0}
    for name in (name for name, changed in shapes.items() if changed and not q.rate):
        yield f"{name} applies only to arrivals at a rate: give a rate, or leave it out"
    if all(shapes.values()):
        yield "a ramp has Poisson arrivals: give either burstiness or ramp_to"
    if bool(q.ramp_to) != bool(q.ramp_s):
        yield "a ramp needs both ramp_to and ramp_s"
    drawn = _changed(q, ("length_ratio", "length_spread", "lengths"))
    if len(drawn) > 1:
        yield f"{' and '.join(drawn)} draw lengths in different ways: give one"
    shared = ("turns", "shared_tokens", "prefix_hits", "samples", "beams", "sessions")
    own = [*drawn, *_changed(q, shared)]
    if q.trace and own:
        yield f"a trace has lengths and sessions of its own: leave out {own[0]}"
    if q.burst_start and not q.concurrency:
        yield "burst_start applies only to a closed loop: give a concurrency"


def _changed(q: Question, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if getattr(q, name) != getattr(STANDARD, name)]
