"""The sidebar: a link restores the scenario; presets, degrees and expert ranks."""

import pytest
from streamlit.testing.v1 import AppTest

from app.dashboard import sidebar
from app.scenario.scenario import Scenario
from app.scenario.setup import Setup
from tests.app.pages import opened, setup_of


def test_without_a_click_the_scenario_is_the_default_of_the_command_line_on_a_measured_engine():
    assert setup_of(opened()) == Setup(Scenario(engine="vllm"))


def test_a_link_without_an_engine_is_the_default_of_the_command_line():
    assert setup_of(opened(batch=1)) == Setup(Scenario())


def test_a_link_restores_the_whole_scenario():
    query = {
        "model": "mistralai/Mixtral-8x7B-v0.1", "system": "mi300x", "engine": "vllm",
        "weights": "fp8", "kv": "fp8", "tp": 4, "ep": 2, "batch": 16, "isl": 2048, "osl": 64,
        "bandwidth": 2.0, "price": 3.5,
    }  # fmt: skip
    assert setup_of(opened(**query)).changed() == query


def test_only_expert_parallel_ranks_have_a_busiest_one():
    query = {"model": "mistralai/Mixtral-8x7B-v0.1", "tp": 4, "ep": 4, "expert_imbalance": 2.5}
    assert setup_of(opened(**query)).changed() == query
    assert "expert_imbalance" not in {box.key for box in opened(tp=4).number_input}


def test_the_busiest_rank_stands_in_the_line_of_a_setup():
    skewed = Setup(Scenario(tp=4, ep=4, expert_imbalance=2.5))
    assert sidebar.describe(skewed).endswith("busiest rank ×2.5")
    assert "busiest" not in sidebar.describe(Setup(Scenario(tp=4, ep=4)))


def test_experts_on_several_ranks_may_have_copies_and_work_beside_their_exchange():
    query = {
        "model": "deepseek-ai/DeepSeek-V3", "dp": 72, "ep": 72, "redundant_experts": 32,
        "overlap": "two_batch",
    }  # fmt: skip
    setup = setup_of(opened(**query))
    assert setup.changed() == query
    assert sidebar.describe(setup).endswith("32 redundant experts · two halves beside the exchange")


@pytest.fixture(scope="module")
def visited() -> AppTest:
    """A session in which one preset follows another."""
    return opened(batch=7, isl=7, osl=7)


@pytest.mark.parametrize(("name", "numbers"), sidebar.PRESETS.items())
def test_a_preset_sets_batch_and_lengths(
    visited: AppTest, name: str, numbers: tuple[int, int, int]
):
    app = visited.selectbox("preset").select(name).run()
    scenario = setup_of(app).scenario
    assert (scenario.batch, scenario.isl, scenario.osl) == numbers
    assert app.selectbox("preset").value == name


def test_numbers_that_no_preset_has_are_called_custom():
    app = opened()
    app.number_input("isl").set_value(777).run()
    assert app.selectbox("preset").value == sidebar.CUSTOM


@pytest.mark.parametrize("typed", ["x", "1.5", "1e9", "0", "-2", "65537"])
def test_a_degree_that_is_no_whole_number_is_refused_with_its_text(typed: str):
    (error,) = {error.value for error in opened(tp=typed).error}
    assert error.startswith(f"TP = {typed}: give a whole number from 1 to 65,536")
