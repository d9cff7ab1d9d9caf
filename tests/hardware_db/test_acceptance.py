"""Measured acceptance: a model's own, the mean of a method, and unmeasured combinations."""

from __future__ import annotations

import pytest

from genz_core.errors import InvalidValue
from hardware_db.acceptance import measured_acceptance
from hardware_db.tables import table
from tests.rules import for_every

ROWS = table("measurements", "speculative_acceptance")


@for_every(ROWS)
def test_every_row_is_sourced_and_within_what_a_step_can_yield(row):
    assert row["kind"] in ("measured", "derived") and row["citation"]
    assert 1.0 < float(row["tokens_per_step"]) <= 1.0 + int(row["draft_tokens"])


@pytest.mark.parametrize(
    ("model", "method", "tokens", "thinking", "expected"),
    [
        ("zai-org/GLM-5.2-FP8", "mtp", 3, None, 2.99),
        ("zai-org/GLM-5.2", "mtp", 8, "on", 4.06),
        ("deepseek-ai/DeepSeek-V4-Pro", "mtp", 1, "off", 1.92),
        ("deepseek-ai/DeepSeek-V4-Pro", "mtp", 1, None, (1.79 + 1.92) / 2),
        ("nvidia/Kimi-K2.5-NVFP4", "eagle", 4, "off", 3.06),
        ("deepseek-ai/DeepSeek-R1", "mtp", 3, "on", 2.83),
        ("deepseek-ai/DeepSeek-V3", "mtp", 3, None, (2.83 + 2.44) / 2),
        ("nvidia/DeepSeek-R1-0528-FP4", "mtp", 2, None, (2.536 + 2.18) / 2),
        ("deepseek-ai/DeepSeek-V3", "mtp", 4, None, (2.83 + 2.44) / 2 + 0.115),
    ],
)
def test_a_measured_model_has_its_own(model, method, tokens, thinking, expected):
    acceptance = measured_acceptance(model, method, tokens, thinking)
    assert acceptance.tokens_per_step == pytest.approx(expected, abs=1e-6)
    assert acceptance.source.startswith("measured: ")


def test_a_model_that_nobody_measured_gets_the_mean_of_its_method_and_says_so():
    acceptance = measured_acceptance("zai-org/GLM-4.5", "mtp", 1)
    rows = [row for row in ROWS if row["method"] == "mtp" and row["draft_tokens"] == "1"]
    mean = sum(float(row["tokens_per_step"]) for row in rows) / len(rows)
    assert acceptance.tokens_per_step == pytest.approx(mean)
    assert acceptance.source.startswith(
        "assumed: mean of deepseek-r1, deepseek-v3, deepseek-v4-pro, glm"
    )


@pytest.mark.parametrize("method", ["ngram", "draft_model"])
def test_methods_that_say_little_of_their_acceptance_need_it_stated(method):
    with pytest.raises(InvalidValue, match=f"no acceptance rate of {method} drafts is known"):
        measured_acceptance("meta-llama/Llama-3.1-8B", method, 3)


@pytest.mark.parametrize("tokens", [0, 9])
def test_drafts_longer_than_measured_need_it_stated(tokens):
    with pytest.raises(InvalidValue, match=f"{tokens} drafted tokens: .* 1 to 8"):
        measured_acceptance("zai-org/GLM-5.2", "mtp", tokens)
