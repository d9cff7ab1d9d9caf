"""The page Serving: the curves are those of the engine, and regions are said in words."""

import json

import pytest
from streamlit.testing.v1 import AppTest

from app.dashboard import load_curves
from app.scenario.scenario import Scenario, resolve
from app.scenario.setup import Setup
from tests.app.pages import opened

OPEN = "open loop (arrival rate)"


def captions(app: AppTest) -> str:
    return " ".join(caption.value for caption in app.caption)


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"serving_loop": OPEN},
        {"model": "mistralai/Mixtral-8x7B-v0.1", "tp": 2, "ep": 2, "engine": "vllm", "batch": 64},
        {"osl": 1},
        {"isl": 10_000_000, "osl": 1},
        {"system": "xeon-6767p", "weights": "q4_k_m", "serving_loop": OPEN},
        {"bandwidth": 2.0, "engine": "vllm"},
    ],
    ids=["default", "open", "experts", "one token", "ten million", "cpu", "what if"],
)
def test_the_page_opens_on_scenarios_plain_and_awkward(query: dict):
    app = opened("serving", **query)
    assert not app.exception and not app.error
    assert len(app.get("plotly_chart")) == 3


def test_overload_is_said_and_shaded():
    app = opened("serving", serving_loop=OPEN)
    assert "the queue grows without end" in app.warning[0].value
    figure = json.loads(app.get("plotly_chart")[0].proto.spec)
    assert figure["layout"]["shapes"]
    assert figure["layout"]["xaxis"]["range"][1] < 10  # a logarithm of requests a second


def test_waiting_for_cache_is_said_with_the_number_that_runs():
    app = opened("serving", isl=8192, osl=1024)
    assert "requests run at once" in app.warning[0].value
    table = load_curves.closed_loop(Setup(Scenario(isl=8192, osl=1024)), 1.0)
    assert f"{table['running'].max():,.0f} requests run" in app.warning[0].value


def test_what_does_not_fit_is_said_first():
    app = opened("serving", model="meta-llama/Llama-3.1-70B", system="l4")
    assert "Out of memory" in app.warning[0].value
    assert "if the memory were there" in captions(app)


def test_a_measured_recipe_is_named_with_its_points():
    measured = Scenario(model="openai/gpt-oss-120b", engine="vllm")
    recipe = resolve(measured).engine.recipe
    assert recipe is not None
    assert load_curves.basis(Setup(measured)) == f"measured recipe ({recipe.points} runs)"
    app = opened("serving", model="openai/gpt-oss-120b", engine="vllm")
    assert f"measured recipe ({recipe.points} runs)" in captions(app)


def test_degrees_that_do_not_divide_are_one_sentence():
    app = opened("serving", tp=3)
    assert not app.exception
    assert "tp 3" in app.error[0].value
