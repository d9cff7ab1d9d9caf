"""The sidebar: a link restores the scenario; presets, degrees and expert ranks."""

import pytest
from streamlit.testing.v1 import AppTest

from app.dashboard import phrases, sidebar
from app.line.presets import PRESETS
from app.question.parameters import PARAMETERS
from app.question.question import LOADS, Question
from app.scenario.setup import Setup
from tests.app.pages import cards, opened, setup_of


@pytest.mark.parametrize("query", [{}, {"batch": 1}], ids=["no link", "a link"])
def test_without_a_choice_the_question_is_the_default_of_every_interface(query: dict):
    app = opened(**query)
    load = {} if query else {"concurrency": phrases.USUAL_USERS}
    assert setup_of(app) == Setup(Question(**load))
    assert app.selectbox("engine").value == "default"


@pytest.mark.parametrize(
    ("system", "engine"),
    [
        ("h100-sxm5-80gb", "vllm"), ("gaudi3", "generic"), ("l4", "vllm"),
        ("m4-pro-20core", "mlx"),
    ],
)  # fmt: skip
def test_the_default_engine_is_vllm_where_it_runs_and_a_chosen_one_stays(system: str, engine: str):
    app = opened(system=system, batch=1)
    assert f"engine {engine}" in " ".join(text.value for text in app.caption)
    assert setup_of(app).scenario.engine == ""
    app = app.selectbox("engine").set_value("sglang").run()
    app = app.selectbox("system").set_value("h200-sxm-141gb").run()
    assert setup_of(app).scenario.engine == "sglang"


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("typed", "tokens"), [("10k", 10_000), ("1e6", 1_000_000), ("2Ki", 2048)])
def test_a_number_may_be_typed_with_its_unit_or_exponent(typed: str, tokens: int):
    app = opened(isl=typed)
    assert not app.error and setup_of(app).scenario.isl == tokens
    app = opened().text_input("lengths_box").set_value(f"{typed} / 7").run()
    assert (setup_of(app).scenario.isl, setup_of(app).scenario.osl) == (tokens, 7)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("name", "typed"),
    [("isl", "99999999999"), ("batch", "1e9"), ("osl", "0"), ("isl", "ten"), ("batch", "1.5")],
)
def test_a_number_that_cannot_be_is_refused_instead_of_replaced(name: str, typed: str):
    app = opened(**{name: typed})
    (error,) = {error.value for error in app.error}
    assert error.startswith(f"{name} = ") and "give a whole number" in error
    assert not app.metric


def test_a_group_of_the_drawer_is_drawn_when_it_is_in_use():
    plain, limited = opened(), opened(max_num_seqs=64)
    assert "max_num_seqs" not in {box.key for box in plain.text_input}
    assert limited.text_input("max_num_seqs").value == "64"
    assert phrases.off_default(setup_of(limited)) == {"max_num_seqs": 64}


def test_what_is_stated_and_not_read_is_said():
    app = opened(tp=4, ep=4, max_num_seqs=64, batch=1)
    (said,) = (text.value for text in app.caption if text.value.startswith("Not used here: "))
    assert "ep does not apply to meta-llama/Llama-3.1-8B, which has no experts" in said
    assert "max_num_seqs does not apply to a static batch" in said
    said = [text.value for text in opened("serving", max_num_seqs=64).caption]
    assert not any(text.startswith("Not used here") for text in said)


def test_a_link_restores_the_whole_scenario():
    query = {
        "model": "mistralai/Mixtral-8x7B-v0.1", "system": "mi300x", "engine": "vllm",
        "weights": "fp8", "kv": "fp8", "tp": 4, "ep": 2, "batch": 16, "isl": 2048, "osl": 64,
        "bandwidth": 2.0, "price": "3.5",
    }  # fmt: skip
    assert phrases.off_default(setup_of(opened(**query))) == query


def test_a_link_states_the_busiest_expert_rank():
    query = {"model": "mistralai/Mixtral-8x7B-v0.1", "tp": 4, "ep": 4, "expert_imbalance": 2.5}
    assert phrases.off_default(setup_of(opened(**query))) == query


def test_the_busiest_rank_stands_in_the_line_of_a_setup():
    skewed = Setup(Question(tp=4, ep=4, expert_imbalance=2.5))
    assert sidebar.describe(skewed).endswith("busiest rank ×2.5")
    assert "busiest" not in sidebar.describe(Setup(Question(tp=4, ep=4)))


def test_experts_on_several_ranks_may_have_copies_and_work_beside_their_exchange():
    query = {
        "model": "deepseek-ai/DeepSeek-V3", "dp": 72, "ep": 72, "redundant_experts": 32,
        "overlap": "two_batch",
    }  # fmt: skip
    setup = setup_of(opened(**query))
    assert phrases.off_default(setup) == query
    assert sidebar.describe(setup).endswith(
        "32 redundant experts · two halves during the all-to-all"
    )


@pytest.fixture(scope="module")
def visited() -> AppTest:
    """A session with the drawer open, in which one usual load follows another."""
    app = opened(batch=7, isl=7, osl=7)
    app.session_state["more_open"] = True
    return app.run()


@pytest.mark.parametrize(("name", "load"), PRESETS.items())
def test_a_usual_load_sets_users_lengths_and_what_is_cached(
    visited: AppTest, name: str, load: dict[str, float]
):
    app = visited.button(f"preset_{name.replace(' ', '_')}").click().run()
    scenario = setup_of(app).scenario
    for parameter in ("isl", "osl", "prefix_hits"):
        usual = load.get(parameter, PARAMETERS[parameter].default)
        assert getattr(scenario, parameter) == usual
    assert app.text_input("load_box").value.split()[0] == str(load["concurrency"])
    assert cards(app)["TTFT"]


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("typed", "asked"),
    [
        ("64 users", {"concurrency": 64}), ("64", {"concurrency": 64}),
        ("1 user", {"concurrency": 1}),
        ("20/s", {"rate": 20}), ("2.5 requests/s", {"rate": 2.5}), ("90/min", {"rate": 1.5}),
        ("batch 8", {"batch": 8}), ("", {"concurrency": phrases.USUAL_USERS}),
    ],
)  # fmt: skip
def test_the_load_is_typed_as_one_says_it_and_is_in_the_link(typed: str, asked: dict):
    app = opened(rate=3).text_input("load_box").set_value(typed).run()
    assert not app.error and setup_of(app).changed() == asked
    loads = {name: text for name, text in app.query_params.items() if name in LOADS}
    said = {} if asked == {"concurrency": phrases.USUAL_USERS} else asked
    assert {name: float(text) for name, text in loads.items()} == said
    again = opened(**{name: text for name, text in loads.items()})
    assert setup_of(again) == setup_of(app)


@pytest.mark.parametrize(
    ("box", "typed"),
    [("load", "many"), ("load", "h200"), ("load", "2k / 500"), ("lengths", "16 users"),
     ("lengths", "short / long"), ("targets", "fast")],
)  # fmt: skip
def test_a_phrase_that_says_something_else_is_refused_with_what_may_be_typed(box: str, typed: str):
    app = opened().text_input(f"{box}_box").set_value(typed).run()
    (error,) = {error.value.replace("\\", "") for error in app.error}
    assert typed in error and phrases.PHRASES[box].say in error
    assert not app.metric
    app = app.text_input(f"{box}_box").set_value("").run()
    assert not app.error and app.metric


def test_targets_are_typed_as_one_says_them():
    app = opened().text_input("targets_box").set_value("p99 ttft < 1s, tpot under 30ms").run()
    assert not app.error
    assert setup_of(app).scenario.target == ("ttft_p99 < 1s", "tpot < 30ms")


@pytest.mark.parametrize(
    ("typed", "said"),
    [("x", "'x'"), ("1.5", "1.5"), ("1e9", "1e9"), ("0", "0"), ("-2", "-2"),
     ("65537", "65537")],
)  # fmt: skip
def test_a_degree_that_is_no_whole_number_is_refused_with_its_text(typed: str, said: str):
    (error,) = {error.value for error in opened(tp=typed).error}
    assert error.startswith(f"tp = {said}: give a whole number from 1 to 65,536")
