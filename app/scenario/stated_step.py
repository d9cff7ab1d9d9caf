"""A step whose operators were counted before, priced on a system under an engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.scenario import mixed_step
from app.scenario.scenario import Scenario, combined, find_system
from model_registry.reports.chain import SCHEMAS, stated_model


def stated_step(
    data: Mapping[str, Any], system: Any, engine: str, version: str = ""
) -> dict[str, Any]:
    """The step of an ops document in seconds, as `mixed_step.document`.

    Raises:
        RidgelineError: operators or names that are none, a figure that the system lacks.
    """
    model = stated_model(data)
    scenario = Scenario(engine=engine, engine_version=version, tp=model.tp)
    resolved = combined(scenario, model, find_system(system))
    step = mixed_step.price(resolved, model.groups)
    priced = mixed_step.document(resolved, model.groups, step)
    return {"schema": SCHEMAS["step"], **priced}
