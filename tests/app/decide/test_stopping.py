"""Long pricing reports its progress, and stops on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app.decide import plan_query
from app.decide.plan_query import Searched
from app.question.question import Question
from app.scenario.setup import Setup
from genz_core.common.progress import Cancelled

QUESTION = Question(model="Qwen/Qwen3-32B", rate=4.0, devices=(1, 4), target="tpot < 1us")
SEVERAL = {"system": ("h100-sxm5-80gb", "h200-sxm-141gb"), "engine": ("vllm", "sglang")}
ASKED = Searched(Setup(QUESTION), tuple(SEVERAL.items()))
WORK = {
    "plan": plan_query.price,
    "what would have to change": plan_query.changes_as_job,
    "frontiers": lambda asked, *more: plan_query.curves_as_job((("all", asked),), *more),
}


@pytest.mark.by_day(1)
@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_work_stops_between_two_families_and_returns_no_half(work: Callable[..., Any]):
    told: list[tuple[float, str]] = []
    with pytest.raises(Cancelled) as stopped:
        work(ASKED, lambda *said: told.append(said), lambda: len(told) >= 2)
    assert len(told) == 2 and stopped.value.at
    assert 0.0 <= told[0][0] < told[1][0] < 1.0
    assert "vllm" in told[0][1] or "sglang" in told[0][1]
