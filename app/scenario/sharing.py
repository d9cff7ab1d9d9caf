"""What the requests of a question share: cached prefixes, turns, several answers."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.question.groups import SHARED
from app.question.parameters import in_group
from app.question.question import STANDARD, Question, nominal_lengths
from app.question.validity import tiers_of
from app.scenario.scenario import Resolved
from genz_core.errors import InvalidValue
from genz_core.models.adapters import Adapters, adapted_model
from genz_core.models.speculative import SpeculativeModel
from genz_core.serving.sharing import ALONE, Sharing
from genz_core.types import Array, Num

#: Parameters that describe what requests share.
FIELDS = tuple(
    name for name in in_group(SHARED) if name not in ("think_s", "think_spread", "sessions")
)


def shares(question: Question) -> dict[str, Any]:
    """The sharing parameters that differ from their defaults."""
    given = {name: getattr(question, name) for name in FIELDS}
    return {name: value for name, value in given.items() if value != getattr(STANDARD, name)}


def branches(question: Question) -> int:
    """Number of sequences per request."""
    return max(question.samples, question.beams)


@dataclass(frozen=True, slots=True)
class Nominal:
    """The longest lengths of a load, numbers or arrays [loads], and what its requests share.

    isl: of a prompt, including what is found in the cache; the mean over the turns of a session.
    length_ratio: shortest over longest length; lengths are uniform in between.  before: mean tokens
    of the conversation before a turn, which are among those that are found.
    """

    isl: Num
    osl: Num
    length_ratio: Num
    sharing: Sharing
    before: Num = 0.0


def nominal(question: Question, isl: Num, osl: Num, length_ratio: Num | None) -> Nominal:
    """The nominal lengths of a load, and what its requests share.

    A turn reads its new tokens; the earlier conversation is found in the cache.  All turns are
    equally frequent.  The very first request, which finds nothing, is ignored.

    isl, osl, length_ratio: as given, see `nominal_lengths`; numbers or arrays [loads].
    """
    longest, answer, ratio = nominal_lengths(isl, osl, length_ratio)
    if not shares(question):
        return Nominal(longest, answer, ratio, ALONE)
    before = histories(question, longest, answer, longest / isl).mean(axis=0)[()]
    found = before + question.shared_tokens / ((1.0 + ratio) / 2.0)
    sharing = Sharing(
        cached_tokens=found + question.prefix_hits * longest,
        shared_tokens=float(question.shared_tokens),
        branches=branches(question),
        kept=question.samples,
        from_host=question.prefix_tier == "host",
    )
    later = (question.turns - 1) / question.turns
    new = longest + later * (added(question, longest, longest / isl) - longest)
    return Nominal(new + found, answer, ratio, sharing, before)


def histories(question: Question, isl: Num, osl: Num, scale: Num = 1.0) -> Array:
    """Tokens of the conversation before each turn of a session, [turns], or [turns, loads].

    isl, osl: numbers or arrays [loads].  scale: of these, over the lengths as given.
    """
    before = np.arange(question.turns, dtype=float)
    isl, osl = np.broadcast_arrays(isl, osl)
    more = added(question, isl, scale)
    first = np.multiply.outer(before > 0, isl - more)
    return np.asarray(np.multiply.outer(before, more + osl) + first)


def added(question: Question, isl: Num, scale: Num = 1.0) -> Num:
    """Prompt tokens that a later turn adds, on the scale of `isl`, see `histories`."""
    return question.turn_isl * scale if question.turn_isl else isl


def pause_s(question: Question) -> float:
    """Mean pause of a user after a request [s]: a session pauses between its turns, and the next
    session starts when the last one ends.
    """
    return question.think_s * (question.turns - 1) / question.turns


def adapters(question: Question) -> Adapters | None:
    """The LoRA adapters of the requests, None for none."""
    if not question.lora_rank:
        return None
    return Adapters(question.lora_rank, question.lora_adapters)


def adapted(resolved: Resolved) -> Resolved:
    """A deployment with the adapters of its requests.

    Raises:
        InvalidValue: its model uses drafts.
    """
    found = adapters(resolved.scenario)
    if found is None:
        return resolved
    if isinstance(resolved.model, SpeculativeModel):
        raise InvalidValue(
            "speculative decoding with LoRA adapters is not modelled: leave out one of them"
        )
    return replace(resolved, model=adapted_model(resolved.model, found))


def words(question: Question) -> tuple[str, ...]:
    """What requests share, as phrases."""
    said = []
    if question.prefix_hits:
        said.append(f"{question.prefix_hits:.0%} of each prompt in the cache")
    if question.shared_tokens:
        said.append(f"a shared prompt of {question.shared_tokens:,} tokens")
    if question.turns > 1:
        said.append(f"sessions of {question.turns} turns")
    said += [f"prefixes in a {name} cache" for name in tiers_of(question)]
    if question.prefix_tier == "host":
        said.append("cached prefixes are read from the host")
    if question.samples > 1:
        said.append(f"{question.samples} outputs per prompt")
    if question.beams > 1:
        said.append(f"{question.beams} beams")
    return tuple(said)


def unmeasured(question: Question) -> tuple[str, ...]:
    """Properties of a load that no measured run had, as phrases."""
    said = [*words(question)]
    if found := adapters(question):
        said.append(str(found))
    if question.offload:
        said.append(f"{question.offload} on the host where a device is full")
    return tuple(said)
