"""Acceptance of drafted tokens: how many tokens a step of speculative decoding yields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genz_core.errors import InvalidValue
from genz_core.types import Array, Num


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Acceptance of the tokens of a draft by their position.

    positions: probability that the tokens of a draft up to each position are all accepted, [draft
    tokens], non-increasing; vLLM reports it as the per-position acceptance rate.
    source: origin of the figures, in words.

    Raises:
        InvalidValue: no positions, a share outside 0 to 1, or one above the share before it.
    """

    positions: tuple[float, ...]
    source: str = "stated"

    def __post_init__(self) -> None:
        values = np.asarray(self.positions, dtype=float)
        if not values.size:
            raise InvalidValue("acceptance needs a rate for each draft token: give at least one")
        wrong = values[~((values >= 0.0) & (values <= 1.0))]
        if wrong.size:
            raise InvalidValue(f"acceptance {wrong[0]:g}: give rates between 0 and 1")
        rise = np.flatnonzero(np.diff(values) > 1e-9)
        if rise.size:
            at = int(rise[0])
            raise InvalidValue(
                f"acceptance rises from {values[at]:g} at position {at + 1} to "
                f"{values[at + 1]:g}: a token is accepted only if all earlier ones were, so rates "
                "cannot rise"
            )

    @classmethod
    def of_rate(cls, rate: float, tokens: int) -> Acceptance:
        """Every token is accepted with the same probability, given that those before it were
        accepted.

        Source: Leviathan et al. 2023, arXiv:2211.17192, section 3.1 (its alpha).
        """
        return cls(tuple(float(rate) ** at for at in range(1, tokens + 1)), "stated")

    @classmethod
    def of_lengths(cls, lengths: Sequence[float], source: str = "stated") -> Acceptance:
        """From the mean tokens of a step, measured with drafts of one token, two tokens, and so on.

        The shares are the differences.  Where measured shares rise, neighbours are averaged
        (isotonic regression), so that the sum still equals what was measured with the longest
        draft.
        """
        least_after = np.minimum.accumulate(np.asarray(lengths, dtype=float)[::-1])[::-1]
        gains = np.diff([1.0, *least_after])
        return cls(tuple(float(share) for share in _not_rising(gains)), source)

    @property
    def draft_tokens(self) -> int:
        """Number of tokens in a draft."""
        return len(self.positions)

    @property
    def tokens_per_step(self) -> float:
        """Mean tokens of a step: the accepted ones, and the one that the model itself adds."""
        return 1.0 + float(sum(self.positions))

    @property
    def probabilities(self) -> Array:
        """Probability of a step with one token, two, ... 1 + draft tokens, [1 + draft tokens]."""
        return -np.diff([1.0, *self.positions, 0.0])

    def first(self, tokens: int) -> Acceptance:
        """The acceptance of drafts cut to `tokens` tokens."""
        return Acceptance(self.positions[:tokens], self.source)


def _not_rising(values: Array) -> Array:
    """The nearest non-increasing sequence with the same sum (pool adjacent violators)."""
    pools: list[list[float]] = []  # [mean, members]
    for value in values:
        pools.append([float(value), 1.0])
        while len(pools) > 1 and pools[-1][0] > pools[-2][0]:
            mean, members = pools.pop()
            before = pools[-1]
            together = before[1] + members
            before[0] = (before[0] * before[1] + mean * members) / together
            before[1] = together
    return np.repeat([mean for mean, _ in pools], [int(members) for _, members in pools])


def expected_steps(tokens: Num, acceptance: Acceptance) -> Array:
    """Mean steps in which a sequence writes `tokens` tokens.

    With X the tokens of a step, Wald's identity gives E[X] E[steps] = tokens + overshoot, and
    the overshoot tends to (E[X^2] - E[X]) / (2 E[X]); below a few steps it is smaller, and a
    sequence never takes less than one step for 1 + k tokens.
    Source: Feller, An Introduction to Probability Theory II (1971), ch. XI.
    """
    wanted = np.asarray(tokens, dtype=float)
    yields = np.arange(1.0, acceptance.draft_tokens + 2.0)
    mean = acceptance.tokens_per_step
    square = float(acceptance.probabilities @ yields**2)
    far = (wanted + (square - mean) / (2.0 * mean)) / mean
    exact = _first_steps(acceptance)
    near = np.interp(np.minimum(wanted, len(exact) - 1.0), np.arange(len(exact)), exact)
    return np.where(wanted < len(exact), near, far)


def _first_steps(acceptance: Acceptance) -> Array:
    """Mean steps for 0, 1, 2, ... tokens, as far as they differ from the limit.

    E[steps to n] = 1 + sum over j of P(a step yields j) E[steps to n - j].
    """
    chances = acceptance.probabilities
    most = 16 * len(chances)
    steps = np.zeros(most)
    for n in range(1, most):
        reached = steps[np.maximum(n - np.arange(1, len(chances) + 1), 0)]
        steps[n] = 1.0 + float(chances @ reached)
    return steps
