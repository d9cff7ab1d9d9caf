"""Speculative decoding as it is asked: a method, tokens of a draft, a draft model, acceptance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, cast, get_args

import numpy as np

from app.scenario.scenario import Resolved, find_model
from genz_core.acceptance import Acceptance
from genz_core.errors import InvalidValue
from genz_core.limits import checked_size
from genz_core.speculative import Method, Speculation, speculative_model
from genz_core.types import Model
from hardware_db.acceptance import measured_acceptance
from model_registry import drafts
from model_registry.finding.sources import ModelSource

METHODS: tuple[str, ...] = get_args(Method)
#: Tokens of a draft where none are stated.
DRAFT_TOKENS = 3


@dataclass(frozen=True, slots=True)
class Drafting:
    """How tokens are drafted, by the keywords of `ridgeline.simulate`.

    speculation: one of `METHODS`, "" for none.
    draft_tokens: of a step; by default one for each share of `acceptance`, else `DRAFT_TOKENS`.
    draft_model: that drafts where the method is "draft_model".
    acceptance: one share, of each token given that those before it were accepted; or a share for
    each position, those before it included, as text ("0.9,0.7,0.5") or numbers; "" for what was
    measured.

    Raises:
        InvalidValue: an unknown method, a share outside (0, 1], fields that contradict each other.
    """

    speculation: str = ""
    draft_tokens: int | None = None
    draft_model: ModelSource | Model = ""
    acceptance: str | float | Sequence[float] = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "acceptance", _shares(self.acceptance))
        object.__setattr__(self, "speculation", self.speculation.casefold().replace("-", "_"))
        self._refuse_contradictions()
        if self.draft_tokens is not None:
            object.__setattr__(
                self, "draft_tokens", checked_size("draft_tokens", self.draft_tokens)
            )
        self._stated()

    def of(self, model: Model) -> Speculation | None:
        """What drafts for a model, None where nothing was asked.

        Raises:
            RidgelineError: a method that the model has no module for, an unknown draft model, an
                acceptance that nobody measured.
        """
        if not self.speculation:
            return None
        method = cast(Method, self.speculation)
        draft = find_model(self.draft_model) if self.draft_model else None
        tokens = self.draft_tokens or DRAFT_TOKENS
        acceptance = self._stated() or measured_acceptance(model.name, method, tokens)
        return drafts.speculation(model, method, acceptance, draft)

    def _stated(self) -> Acceptance | None:
        shares = cast(tuple[float, ...], self.acceptance)
        if not shares:
            return None
        if len(shares) == 1:
            return Acceptance.of_rate(shares[0], self.draft_tokens or DRAFT_TOKENS)
        if self.draft_tokens not in (None, len(shares)):
            raise InvalidValue(
                f"acceptance has {len(shares)} shares and draft_tokens is {self.draft_tokens}: "
                "give one share for all, or one for each token"
            )
        return Acceptance(shares)

    def _refuse_contradictions(self) -> None:
        if not self.speculation:
            for entry in fields(self)[1:]:
                if getattr(self, entry.name) not in (entry.default, ()):
                    raise InvalidValue(
                        f"{entry.name} without speculation: choose {', '.join(METHODS)}"
                    )
        elif self.speculation not in METHODS:
            raise InvalidValue(
                f"speculation = {self.speculation!r}: choose {', '.join(METHODS)}, or leave it out"
            )
        elif self.speculation == "draft_model" and not self.draft_model:
            raise InvalidValue("speculation with a draft model: name the one that drafts")
        elif self.speculation != "draft_model" and self.draft_model:
            raise InvalidValue(
                f"speculation = {self.speculation} needs no draft model: leave it out, or choose "
                "speculation = draft_model"
            )


#: Keywords of `Drafting`.
DRAFTING = tuple(entry.name for entry in fields(Drafting))


def drafted(resolved: Resolved, drafting: Drafting) -> Resolved:
    """A scenario whose model drafts and verifies; the same where nothing is drafted.

    Raises:
        RidgelineError: as `Drafting.of`.
    """
    speculation = drafting.of(resolved.model)
    if speculation is None:
        return resolved
    model = speculative_model(resolved.model, speculation)
    return replace(resolved, model=model, notes=(*resolved.notes, str(speculation)))


def _shares(given: Any) -> tuple[float, ...]:
    """Shares of acceptance, as text or numbers; none where nothing is given.

    Raises:
        InvalidValue: no numbers, or one outside (0, 1].
    """
    if isinstance(given, str):
        given = given.split(",") if given.strip() else ()
    try:
        shares = tuple(float(cell) for cell in np.ravel(given))
    except (TypeError, ValueError):
        shares = (np.nan,)
    if not all(0.0 < share <= 1.0 for share in shares):
        typed = ",".join(map(str, np.ravel(given)))
        raise InvalidValue(
            f"acceptance = {typed}: give a share above 0 and at most 1, such as 0.8, or one for "
            'each drafted token, such as "0.9,0.7,0.5"'
        )
    return shares
