"""What requests share, as it is asked: prefixes found in the cache, turns, several answers."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from genz_core.errors import InvalidValue
from genz_core.serving.sharing import Sharing

TIERS = ("device", "host")
_MOST_TURNS, _MOST_TOKENS, _MOST_BRANCHES = 1000, 10_000_000, 1024


@dataclass(frozen=True, slots=True)
class RequestShape:
    """What requests share, by the keywords of `ridgeline.plan`; nothing by default.

    prefix_hits: share of every prompt that is found in the cache.
    shared_tokens: a prompt that all requests start with, on top of their own tokens.
    turns: of a session, each with the input tokens of a request and all that was said before.
    prefix_tier: where found prefixes lie, "device" or "host".
    samples: answers to each prompt, all of which are wanted.  beams: of a search, whose best answer
    is.

    Raises:
        InvalidValue: a number outside of its range, or fields that contradict each other.
    """

    prefix_hits: float = 0.0
    shared_tokens: int = 0
    turns: int = 1
    prefix_tier: str = "device"
    samples: int = 1
    beams: int = 1

    def __post_init__(self) -> None:
        whole = {
            "shared_tokens": (0, _MOST_TOKENS),
            "turns": (1, _MOST_TURNS),
            "samples": (1, _MOST_BRANCHES),
            "beams": (1, _MOST_BRANCHES),
        }
        for name, (least, most) in whole.items():
            value = getattr(self, name)
            if not least <= value <= most or value != int(value):
                raise InvalidValue(
                    f"{name} = {value:g}: give a whole number from {least} to {most:,}"
                )
        if not 0.0 <= self.prefix_hits < 1.0:
            raise InvalidValue(
                f"prefix_hits = {self.prefix_hits:g}: give a share of the prompt from 0 to below 1"
            )
        if self.prefix_tier not in TIERS:
            raise InvalidValue(f"prefix_tier = {self.prefix_tier!r}: choose {' or '.join(TIERS)}")
        self._refuse_contradictions()

    def _refuse_contradictions(self) -> None:
        found = bool(self.shared_tokens or self.turns > 1)
        if self.prefix_hits and found:
            raise InvalidValue(
                "prefix_hits beside a shared prompt or turns: these say already what is found"
            )
        if self.samples > 1 and self.beams > 1:
            raise InvalidValue("samples and beams are two ways to several answers: give one")
        if self.turns > 1 and self.branches > 1:
            raise InvalidValue("turns of a session follow one answer: leave out samples and beams")
        if self.prefix_tier == "host" and not (self.prefix_hits or found):
            raise InvalidValue("prefix_tier = host: say what is found, with prefix_hits or turns")

    def __bool__(self) -> bool:
        return self != RequestShape()

    @property
    def branches(self) -> int:
        """Sequences that a request writes."""
        return max(self.samples, self.beams)

    def nominal(self, isl: int, osl: int, length_ratio: float) -> tuple[float, Sharing]:
        """Mean prompt of nominal lengths, and what its requests share.

        Turn k of a session reads `isl` new tokens after k - 1 turns of both, found in the cache;
        turns are equally frequent.  The first request of all, which finds nothing, is left out.
        """
        real = (1.0 + length_ratio) / 2.0
        before = (self.turns - 1) / 2.0 * (isl + osl)
        found = before + self.shared_tokens / real
        hits = self.prefix_hits * isl
        sharing = Sharing(
            cached_tokens=found + hits,
            shared_tokens=float(self.shared_tokens),
            branches=self.branches,
            kept=self.samples,
            from_host=self.prefix_tier == "host",
        )
        return float(round(isl + found)), sharing

    @property
    def words(self) -> tuple[str, ...]:
        """What is asked beyond single prompts, in words."""
        said = []
        if self.prefix_hits:
            said.append(f"{self.prefix_hits:.0%} of each prompt in the cache")
        if self.shared_tokens:
            said.append(f"a shared prompt of {self.shared_tokens:,} tokens")
        if self.turns > 1:
            said.append(f"sessions of {self.turns} turns")
        if self.prefix_tier == "host":
            said.append("found prefixes come from the host")
        if self.samples > 1:
            said.append(f"{self.samples} answers to each prompt")
        if self.beams > 1:
            said.append(f"{self.beams} beams")
        return tuple(said)

    def document(self) -> dict[str, Any]:
        """The fields that differ from none."""
        return {
            entry.name: getattr(self, entry.name)
            for entry in fields(self)
            if getattr(self, entry.name) != entry.default
        }


PLAIN = RequestShape()
FIELDS = tuple(entry.name for entry in fields(RequestShape))
