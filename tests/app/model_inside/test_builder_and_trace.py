"""Priced steps of a model: operators by cost, and the engine's own execution."""

import pytest

from app.model_inside import builder_and_trace
from app.question.question import Question
from app.scenario.scenario import estimate_resolved, resolve
from tests.app.model_inside.steps import step_of


def test_operators_are_named_by_where_they_run() -> None:
    step = step_of("meta-llama/Llama-3.1-8B")
    places = {op.name: builder_and_trace.operator_place(op) for op in step.graph.ops}
    assert places["qkv_proj"] == "layers 0–31" and places["lm_head"] == "last stage"


def test_a_decode_step_is_the_mean_one_that_an_estimate_has() -> None:
    question = Question(model="meta-llama/Llama-3.1-8B", batch=16, isl=1024, osl=256)
    whole = estimate_resolved(resolve(question))
    for phase, step in (("prefill", whole.prefill), ("decode", whole.decode)):
        shown = step_of(question.model, phase, batch=16, isl=1024, osl=256)
        assert shown.operators_s[:, 0] == pytest.approx(step.operators_s[:, 0])


def test_the_step_is_what_its_engine_runs() -> None:
    eager, fused = (step_of("Qwen/Qwen3-0.6B", engine=name) for name in ("hf", "generic"))
    assert float(eager.operators_s.sum()) > float(fused.operators_s.sum())
