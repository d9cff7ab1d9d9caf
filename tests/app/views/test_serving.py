"""Page Serving: curves drawn and carded, overload and waiting in words."""

import pytest
from streamlit.testing.v1 import AppTest

from app.dashboard import load_curves
from app.scenario.scenario import Scenario, resolve
from app.scenario.setup import Setup
from tests.app.pages import cards, charts, opened, shown

OPEN = "open loop (arrival rate)"


#: As the plain scenario with arrivals opens; its test of overload reads the same page.
ARRIVALS = {"serving_loop": OPEN}


def captions(app: AppTest) -> str:
    return " ".join(caption.value for caption in app.caption)


@pytest.mark.parametrize(
    "query",
    [
        {},
        ARRIVALS,
        {"model": "mistralai/Mixtral-8x7B-v0.1", "tp": 2, "ep": 2, "engine": "vllm", "batch": 64},
        {"osl": 1},
        {"isl": 10_000_000, "osl": 1},
        {"system": "xeon-6767p", "weights": "q4_k_m", "serving_loop": OPEN},
        {"bandwidth": 2.0, "engine": "vllm"},
    ],
    ids=["default", "open", "experts", "one token", "ten million", "cpu", "what if"],
)
def test_the_page_opens_on_scenarios_plain_and_awkward(query: dict):
    app = shown("serving", **query)
    assert not app.exception and not app.error
    assert len(charts(app)) == 3
    assert list(cards(app)) == ["TTFT", "TPOT", "Tokens a user sees", "Throughput per device"]
    assert cards(app)["TPOT"].endswith("s") and cards(app)["Throughput per device"] != "–"


def test_overload_is_a_sentence_and_a_shade_beyond_the_last_stable_rate():
    app = shown("serving", **ARRIVALS)
    assert "the queue grows without end" in app.warning[0].value
    table = load_curves.curve(Setup(Scenario()), "rate_per_s", 1.0)
    stable = table.loc[table["status"] == "ok", "rate_per_s"].max()
    (shade,) = charts(app)[0]["layout"]["shapes"]
    assert shade["x0"] == pytest.approx(stable) and shade["x1"] > table["rate_per_s"].max()


def test_waiting_for_cache_is_a_sentence_with_the_number_that_runs():
    app = opened("serving", isl=8192, osl=1024)
    table = load_curves.curve(Setup(Scenario(isl=8192, osl=1024)), "concurrency", 1.0)
    assert f"At most {table['running'].max():,.0f} requests run at once" in app.warning[0].value


def test_what_does_not_fit_is_the_first_sentence():
    app = opened("serving", model="meta-llama/Llama-3.1-70B", system="l4")
    assert "Out of memory" in app.warning[0].value
    assert "if the memory were there" in captions(app)


def test_a_measured_recipe_is_named_with_its_points():
    measured = Scenario(model="openai/gpt-oss-120b", engine="vllm")
    recipe = resolve(measured).engine.recipe
    assert recipe is not None
    basis = f"corrected by {recipe.points} measured runs of this model here"
    assert load_curves.basis(Setup(measured)) == basis
    app = opened("serving", model="openai/gpt-oss-120b", engine="vllm")
    assert basis in captions(app)


def test_degrees_that_do_not_divide_are_one_sentence():
    app = opened("serving", tp=3)
    assert not app.exception
    assert "tp 3" in app.error[0].value
