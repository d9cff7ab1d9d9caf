"""Speculative decoding as a question: methods, tokens, acceptance, and invalid combinations."""

from __future__ import annotations

import pytest
import ridgeline

import model_registry
from app.question.parameters import PARAMETERS
from app.question.query import ask
from app.scenario.drafting import DRAFT_TOKENS, speculation
from genz_core.errors import InvalidValue, UnknownModel, UnsupportedModel

LLAMA, DEEPSEEK = "meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3"


def drafts(model: str = LLAMA, **given):
    """The draft model or method under the given parameters."""
    asked = ask("serve", {"model": model, "concurrency": 1, **given})
    return speculation(asked.question, model_registry.load(model))


@pytest.mark.parametrize(
    ("fields", "positions"),
    [
        ({"acceptance": 0.8}, (0.8, 0.64, 0.512)),
        ({"acceptance": "0.5", "draft_tokens": 2}, (0.5, 0.25)),
        ({"acceptance": "0.9, 0.7"}, (0.9, 0.7)),
        ({"acceptance": [0.9, 0.7, 0.5, 0.1], "draft_tokens": 4}, (0.9, 0.7, 0.5, 0.1)),
    ],
)
def test_acceptance_is_one_share_of_every_token_or_one_for_each_position(fields, positions):
    found = drafts(speculation="ngram", **fields)
    assert found.acceptance.positions == pytest.approx(positions)
    assert found.acceptance.source == "stated"


def test_acceptance_is_measured_where_none_is_stated_and_says_so():
    found = drafts(speculation="eagle")
    assert found.draft_tokens == DRAFT_TOKENS
    assert found.acceptance.source.startswith("assumed: mean of ")


@pytest.mark.parametrize(
    ("method", "model", "draft"),
    [
        ("mtp", DEEPSEEK, f"prediction module of {DEEPSEEK}"),
        ("EAGLE", LLAMA, f"EAGLE-3 of {LLAMA}"),
        ("draft-model", LLAMA, "meta-llama/Llama-3.2-1B"),
        ("ngram", LLAMA, ""),
    ],
)
def test_every_method_has_its_draft(method: str, model: str, draft: str):
    named = {"draft_model": draft} if method == "draft-model" else {}
    found = drafts(model, speculation=method, acceptance=0.7, **named)
    assert found.method in PARAMETERS["speculation"].choices
    assert (found.draft.name if found.draft else "") == draft


def test_nothing_drafts_unless_asked():
    assert drafts() is None
    assert drafts(speculation="ngram", draft_tokens=0) is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"speculation": "medusa"}, "speculation = 'medusa': choose draft_model, eagle"),
        ({"draft_tokens": 3}, "draft_tokens without speculation"),
        ({"acceptance": 0.5}, "acceptance without speculation"),
        ({"speculation": "eagle", "draft_tokens": 65}, "from 0 to 64"),
        ({"speculation": "eagle", "draft_tokens": 1.5}, "draft_tokens = 1.5"),
        ({"speculation": "eagle", "acceptance": 80}, "acceptance = 80: give a rate above 0"),
        ({"speculation": "eagle", "acceptance": 0.0}, "acceptance = 0: give a rate above 0"),
        ({"speculation": "eagle", "acceptance": "high"}, "acceptance = high"),
        ({"speculation": "eagle", "acceptance": "nan"}, "acceptance = nan"),
        ({"speculation": "eagle", "acceptance": "0.9,,0.5"}, "acceptance = 0.9,,0.5"),
        ({"speculation": "eagle", "acceptance": "0.5,0.7"}, "rates cannot rise"),
        (
            {"speculation": "eagle", "acceptance": "0.9,0.7", "draft_tokens": 3},
            "2 shares and draft_tokens is 3",
        ),
        ({"speculation": "draft_model"}, "give its name as draft_model"),
        ({"speculation": "ngram", "draft_model": LLAMA}, "ngram needs no draft model"),
    ],
)
def test_invalid_drafting_is_refused_in_one_sentence(fields, words):
    with pytest.raises(InvalidValue, match=words):
        drafts(**fields)


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"speculation": "ngram"}, InvalidValue, "no acceptance rate of ngram drafts is known"),
        ({"speculation": "eagle", "draft_tokens": 40}, InvalidValue, "measured with 1 to"),
        ({"speculation": "mtp"}, UnsupportedModel, "no multi-token-prediction layers"),
        (
            {"speculation": "draft_model", "draft_model": "nobody/small", "acceptance": 0.5},
            UnknownModel,
            "nobody/small",
        ),
    ],
)
def test_what_a_model_cannot_do_is_one_sentence(fields, error, words):
    with pytest.raises(error, match=words):
        drafts(**fields)


def test_drafts_save_steps_and_the_answer_says_what_drafts():
    load = {"system": "h100", "concurrency": 4, "isl": 128, "osl": 64, "length_ratio": 0.8}
    plain, drafted = (
        ridgeline.simulate(LLAMA, **load, **more)
        for more in ({}, {"speculation": "eagle", "acceptance": 0.8})
    )
    assert drafted.steps < 0.5 * plain.steps and drafted.tpot_mean_s < plain.tpot_mean_s
    named = drafted.to_dict()
    assert named["speculation"]["tokens_per_step"] == pytest.approx(2.952)
    assert named["speculation"]["draft_tokens"] == 3 and "speculation" not in plain.to_dict()
    assert f"EAGLE-3 of {LLAMA}) drafts 3 tokens per step" in named["message"]
