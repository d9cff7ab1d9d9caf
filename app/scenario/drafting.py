"""Speculative decoding of a question: what drafts, and how many of its tokens are accepted."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from app.question.question import Question
from app.question.validity import drafts
from app.scenario.scenario import Resolved, find_model
from genz_core.errors import InvalidValue
from genz_core.graphs import Model
from genz_core.models.acceptance import Acceptance
from genz_core.models.speculative import Method, Speculation, speculative_model
from hardware_db.acceptance import measured_acceptance
from model_registry import drafts as registered
from model_registry.finding.sources import ModelSource

#: Number of drafted tokens where none is given.
DRAFT_TOKENS = 3


def speculation(
    question: Question, model: Model, draft_model: ModelSource | Model = ""
) -> Speculation | None:
    """The speculation of a question, None where nothing is drafted.

    draft_model: object to use instead of the question's name.

    Raises:
        RidgelineError: a method that the model has no module for, an unknown draft model, an
            impossible acceptance, or one that was not measured.
    """
    shares = acceptance_shares(question.acceptance)
    stated = _stated(shares, question.draft_tokens)
    if not drafts(question):
        return None
    method = cast(Method, question.speculation)
    meant = draft_model or question.draft_model
    draft = find_model(meant) if meant else None
    tokens = question.draft_tokens or DRAFT_TOKENS
    acceptance = stated or measured_acceptance(model.name, method, tokens)
    return registered.speculation(model, method, acceptance, draft)


def drafted(resolved: Resolved, draft_model: ModelSource | Model = "") -> Resolved:
    """A deployment whose model drafts and verifies; unchanged where nothing is drafted.

    Raises:
        RidgelineError: as `speculation`.
    """
    found = speculation(resolved.scenario, resolved.model, draft_model)
    if found is None:
        return resolved
    model = speculative_model(resolved.model, found)
    return replace(resolved, model=model, notes=(*resolved.notes, str(found)))


def acceptance_shares(given: Any) -> tuple[float, ...]:
    """Shares of accepted tokens, from text or numbers; none where nothing is given.

    Raises:
        InvalidValue: not numbers, or one outside (0, 1].
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
            f"acceptance = {typed}: give a rate above 0, up to 1, such as 0.8, or one for "
            'each draft token, such as "0.9,0.7,0.5"'
        )
    return shares


def _stated(shares: Sequence[float], tokens: int | None) -> Acceptance | None:
    """The acceptance given by a question: one share for all tokens, or one per position."""
    if not shares:
        return None
    if len(shares) == 1:
        return Acceptance.of_rate(shares[0], tokens or DRAFT_TOKENS)
    if tokens not in (None, len(shares)):
        raise InvalidValue(
            f"acceptance has {len(shares)} shares and draft_tokens is {tokens}: "
            "give one share for all, or one for each token"
        )
    return Acceptance(tuple(shares))
