"""What the requests of a question share: prefixes found in the cache, turns, several answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.question.groups import SHARED
from app.question.parameters import in_group
from app.question.question import STANDARD, Question
from app.scenario.scenario import Resolved
from genz_core.adapters import Adapters, adapted_model
from genz_core.errors import InvalidValue
from genz_core.serving.sharing import Sharing
from genz_core.speculative import SpeculativeModel

#: Parameters that say what requests share.
FIELDS = tuple(name for name in in_group(SHARED) if name != "think_s")


def shares(question: Question) -> dict[str, Any]:
    """The parameters of what requests share that differ from none."""
    given = {name: getattr(question, name) for name in FIELDS}
    return {name: value for name, value in given.items() if value != getattr(STANDARD, name)}


def branches(question: Question) -> int:
    """Sequences that a request writes."""
    return max(question.samples, question.beams)


def nominal(
    question: Question, isl: float, osl: float, length_ratio: float
) -> tuple[float, Sharing]:
    """Mean prompt of nominal lengths, and what its requests share.

    Turn k of a session reads `isl` new tokens after k - 1 turns of both, found in the cache;
    turns are equally frequent.  The first request of all, which finds nothing, is left out.

    isl, osl: nominal, the longest.  length_ratio: shortest over nominal length, lengths being
    uniform between them.
    """
    real = (1.0 + length_ratio) / 2.0
    before = (question.turns - 1) / 2.0 * (isl + osl)
    found = before + question.shared_tokens / real
    sharing = Sharing(
        cached_tokens=found + question.prefix_hits * isl,
        shared_tokens=float(question.shared_tokens),
        branches=branches(question),
        kept=question.samples,
        from_host=question.prefix_tier == "host",
    )
    return float(round(isl + found)), sharing


def adapters(question: Question) -> Adapters | None:
    """The LoRA adapters that requests name, None for none."""
    if not question.lora_rank:
        return None
    return Adapters(question.lora_rank, question.lora_adapters)


def adapted(resolved: Resolved) -> Resolved:
    """A deployment with the adapters of its requests.

    Raises:
        InvalidValue: its model drafts.
    """
    found = adapters(resolved.scenario)
    if found is None:
        return resolved
    if isinstance(resolved.model, SpeculativeModel):
        raise InvalidValue("drafts of a model with LoRA adapters are not priced: leave out one")
    return replace(resolved, model=adapted_model(resolved.model, found))


def words(question: Question) -> tuple[str, ...]:
    """What requests share, in words."""
    said = []
    if question.prefix_hits:
        said.append(f"{question.prefix_hits:.0%} of each prompt in the cache")
    if question.shared_tokens:
        said.append(f"a shared prompt of {question.shared_tokens:,} tokens")
    if question.turns > 1:
        said.append(f"sessions of {question.turns} turns")
    if question.prefix_tier == "host":
        said.append("found prefixes come from the host")
    if question.samples > 1:
        said.append(f"{question.samples} answers to each prompt")
    if question.beams > 1:
        said.append(f"{question.beams} beams")
    return tuple(said)


def unmeasured(question: Question) -> tuple[str, ...]:
    """What of a load no measured run had, in words."""
    said = [*words(question)]
    if found := adapters(question):
        said.append(str(found))
    if question.offload:
        said.append(f"{question.offload} on the host where a device is full")
    return tuple(said)
