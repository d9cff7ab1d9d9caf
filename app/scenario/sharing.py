"""What the requests of a question share: cached prefixes, turns, several answers."""

from dataclasses import replace
from typing import Any

import numpy as np

from app.question.groups import SHARED
from app.question.parameters import in_group
from app.question.question import STANDARD, Question
from app.question.validity import tiers_of
from app.scenario.scenario import Resolved
from genz_core.errors import InvalidValue
from genz_core.models.adapters import Adapters, adapted_model
from genz_core.models.speculative import SpeculativeModel
from genz_core.serving.sharing import Sharing
from genz_core.types import Array

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


def nominal(
    question: Question, isl: float, osl: float, length_ratio: float
) -> tuple[float, Sharing]:
    """Mean prompt for nominal lengths, and what its requests share.

    A turn reads its new tokens; the earlier conversation is found in the cache.  All turns are
    equally frequent.  The very first request, which finds nothing, is ignored.

    isl, osl: nominal, the longest.  length_ratio: shortest over nominal length; lengths are uniform
    in between.
    """
    real = (1.0 + length_ratio) / 2.0
    before = float(np.mean(histories(question, isl, osl)))
    found = before + question.shared_tokens / real
    sharing = Sharing(
        cached_tokens=found + question.prefix_hits * isl,
        shared_tokens=float(question.shared_tokens),
        branches=branches(question),
        kept=question.samples,
        from_host=question.prefix_tier == "host",
    )
    new = isl + (question.turns - 1) / question.turns * (_added(question, isl) - isl)
    return float(new + found), sharing


def histories(question: Question, isl: float, osl: float) -> Array:
    """Tokens of the conversation before each turn of a session, [turns]; lengths as given."""
    before = np.arange(question.turns, dtype=float)
    first = np.where(before > 0, isl - _added(question, isl), 0.0)
    return np.asarray(before * (_added(question, isl) + osl) + first)


def _added(question: Question, isl: float) -> float:
    """Prompt tokens that a later turn adds, on the same scale as `isl`."""
    return isl * question.turn_isl / question.isl if question.turn_isl else isl


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
