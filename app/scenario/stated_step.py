"""A step whose operators were counted before, priced on a system under an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.question.asking import Asked
from app.scenario import mixed_step
from app.scenario.scenario import combined, find_system
from model_registry.reports.chain import SCHEMAS, stated_model


def stated_step(data: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
    """The step of an ops document in seconds, as `mixed_step.document`.

    asked: its system and engine.

    Raises:
        RidgelineError: operators or names that are none, a figure that the system lacks.
    """
    model = stated_model(data)
    question = replace(asked.question, tp=model.tp)
    resolved = combined(
        question, model, find_system(asked.named("system")), engine=asked.named("engine")
    )
    step = mixed_step.price(resolved, model.groups)
    priced = mixed_step.document(resolved, model.groups, step)
    return {"schema": SCHEMAS["step"], **priced}
