"""One operator worked through: its equation, its terms, its constants."""

import pytest

from app.accuracy import worked_example
from app.question.question import Question
from app.scenario.scenario import estimate


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize(
    ("scenario", "least"),
    [
        (Question(), 10),
        (Question(weights="fp8", tp=2), 12),
        (Question(model="deepseek-ai/DeepSeek-V3", system="mi300x", tp=8, ep=8), 20),
        (Question(model="nvidia/Nemotron-H-56B-Base-8K"), 15),
    ],
    ids=["dense", "fp8", "experts and latent attention", "state space"],
)
def test_every_operator_can_be_taken_apart(scenario: Question, phase: str, least: int):
    step = getattr(estimate(scenario), phase)
    rows = worked_example.operators_by_time(step)
    assert len(rows) >= least
    for row in rows:
        work = worked_example.work_through(step, row)
        assert work.equation.partition("=")[2].strip(), work.op.name
        assert work.expected_s >= work.bound_s > 0
        text = worked_example.markdown(work, phase)
        assert "nan" not in text and f"in a {phase} step make" in text
        names = [entry["constant"] for entry in worked_example.constant_rows(work)]
        assert names == list(type(work.price.constants.parameters).__dataclass_fields__)


def test_the_text_of_a_product_has_its_sizes_and_its_count():
    step = estimate(Question()).decode
    row = next(at for at, op in enumerate(step.graph.ops) if op.name == "down_proj")
    text = worked_example.markdown(worked_example.work_through(step, row), "decode")
    assert "m = 1, n = 4,096, k = 14,336" in text
    assert "FLOPs = 2 m n k = 2 × 1 × 4,096 × 14,336 = 117 MFLOP" in text
    assert "32 runs in a decode step" in text


@pytest.mark.parametrize("weights", ["", "fp8", "int4", "nvfp4"])
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_the_terms_of_every_operator_sum_to_its_time(phase: str, weights: str):
    step = getattr(estimate(Question(weights=weights)), phase)
    assert len(step.graph.ops) > 10
    for row in range(len(step.graph.ops)):
        work = worked_example.work_through(step, row)
        total = sum(float(term) for term in work.price.terms.values())
        assert total == pytest.approx(step.expected_s[row, 0], rel=1e-9), work.op.name
