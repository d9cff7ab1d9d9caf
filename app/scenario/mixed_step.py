"""The price of a mixed step, typed or with operators that were counted before."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from app.question.query import Query
from app.scenario.known_systems import find_system
from app.scenario.scenario import Resolved, combined
from app.scenario.summary import operator_rows, parts_of
from genz_core.errors import InvalidParallelism, InvalidValue
from genz_core.limits import checked_size
from genz_core.phases import mixed
from genz_core.steps.step_estimate import StepEstimate
from genz_core.types import Group, Workload
from genz_core.validity import check

_GROUP = re.compile(r"(\d+)x(\d+)(?:@(\d+))?")
_MOST_GROUPS = 64


def parse_groups(prefill: str, decode: str) -> tuple[Group, ...]:
    """Groups of sequences, separated by commas: "1x512" prompts of 512 tokens, "2x256@1024" after
    1024 cached ones; "64x2048" sequences that decode with 2048 tokens in their cache.

    Raises:
        InvalidValue: anything else, or no sequence at all.
    """
    groups = [
        Group(float(many), float(tokens), float(cached))
        for many, tokens, cached in _terms("--prefill", prefill, "1x512")
    ]
    for many, context, cached in _terms("--decode", decode, "64x2048"):
        if cached:
            raise InvalidValue("--decode: give sequences and their context, as in 64x2048")
        groups.append(Group(float(many), 1.0, float(context)))
    if not groups:
        raise InvalidValue("a mixed step needs sequences: give --prefill 1x512 or --decode 64x2048")
    return tuple(groups)


def _terms(option: str, text: str, example: str) -> list[tuple[int, int, int]]:
    terms = [term.strip() for term in text.split(",") if term.strip()]
    if len(terms) > _MOST_GROUPS:
        raise InvalidValue(f"{option}: {len(terms)} groups; give at most {_MOST_GROUPS}")
    found = []
    for term in terms:
        match = _GROUP.fullmatch(term)
        if match is None:
            raise InvalidValue(f"{option} {term[:40]!r}: give sequences x tokens, as in {example}")
        many, tokens, cached = (int(part or 0) for part in match.groups())
        checked_size("batch", many, f"{option} sequences")
        checked_size("isl", tokens, f"{option} tokens")
        checked_size("cached_tokens", cached, f"{option} cached tokens")
        found.append((many, tokens, cached))
    return found


def price(resolved: Resolved, groups: tuple[Group, ...]) -> StepEstimate:
    """Price a mixed step of a scenario's model, system, engine and degrees.

    Raises:
        InvalidParallelism: degrees that do not divide the model.
    """
    split = resolved.scenario.parallelism
    checked = check(resolved.model, Workload(), split)
    if checked.complaints:
        raise InvalidParallelism(checked.complaints[0])
    return mixed(resolved.model, resolved.system, groups, split, resolved.engine)


def document(resolved: Resolved, groups: tuple[Group, ...], step: StepEstimate) -> dict[str, Any]:
    """The step's figures and operators, SI units."""
    tokens = sum(float(np.sum(group.sequences * group.new_tokens)) for group in groups)
    return {
        "model": resolved.model.name,
        "system": resolved.system.slug,
        "engine": resolved.engine.name,
        "sequences": int(sum(float(np.sum(group.sequences)) for group in groups)),
        "tokens": int(tokens),
        "step_s": float(step.total_s[0]),
        "bound_step_s": float(step.bound_total_s[0]),
        **{f"{name}_s": seconds for name, seconds in parts_of(step).items()},
        "not_validated": "step_s",
        "operators": operator_rows(step),
    }


def stated(data: Mapping[str, Any], query: Query) -> dict[str, Any]:
    """The step of an ops document in seconds, as `document`.

    asked: its system and engine.

    Raises:
        RidgelineError: invalid operators or names, or a figure that the system lacks.
    """
    from model_registry.reports.step_documents import (  # the document has no other step
        SCHEMAS,
        stated_model,
    )

    model = stated_model(data)
    system, engine = find_system(query.named("system")), query.named("engine")
    resolved = combined(replace(query.question, tp=model.tp), model, system, engine=engine)
    step = price(resolved, model.groups)
    return {"schema": SCHEMAS["step"], **document(resolved, model.groups, step)}
