"""The sidebar: presets, precisions, what-if, and what a visitor brings."""

import json
from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

import model_registry
from app.dashboard import cached, pinned, sidebar
from app.scenario import intervals
from app.scenario.levers import PHASES
from app.scenario.scenario import Scenario
from app.scenario.setup import NUMBERS, Setup, setup_from
from app.scenario.summary import parts_of, step_of
from genz_core.errors import InvalidValue, RidgelineError
from tests.app.pages import opened, pressed

TINY = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 2048,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
SHEET = """
include: h100-sxm5-80gb
id: my-h100
name: My H100
"""
WRONG_UNIT = b"memory_gb_per_s: {value: 3.35e12, source: nvidia-h100, kind: datasheet}"


def asked(app: AppTest) -> Setup:
    return app.session_state["setup"]


# ------------------------------------------------------------------------------- the scenario


def test_without_a_click_the_scenario_is_the_default_of_the_command_line():
    assert asked(opened()) == Setup(Scenario())


def test_a_link_restores_the_whole_scenario():
    query = {
        "model": "mistralai/Mixtral-8x7B-v0.1", "system": "mi300x", "engine": "vllm",
        "weights": "fp8", "kv": "fp8", "tp": 4, "ep": 2, "batch": 16, "isl": 2048, "osl": 64,
        "bandwidth": 2.0, "price": 3.5,
    }  # fmt: skip
    found = asked(opened(**query))
    assert found.changed() == query


def test_routing_is_asked_of_expert_parallel_ranks_alone():
    query = {"model": "mistralai/Mixtral-8x7B-v0.1", "tp": 4, "ep": 4, "expert_imbalance": 2.5}
    assert asked(opened(**query)).changed() == query
    assert "expert_imbalance" not in {box.key for box in opened(tp=4).number_input}


def test_a_skew_of_the_routing_is_said_in_a_setups_line():
    skewed = Setup(Scenario(tp=4, ep=4, expert_imbalance=2.5))
    assert sidebar.describe(skewed).endswith("busiest rank ×2.5")
    assert "busiest" not in sidebar.describe(Setup(Scenario(tp=4, ep=4)))


@pytest.mark.parametrize(("name", "numbers"), sidebar.PRESETS.items())
def test_a_preset_sets_batch_and_lengths(name: str, numbers: tuple[int, int, int]):
    app = opened()
    app.selectbox("preset").select(name).run()
    scenario = asked(app).scenario
    assert (scenario.batch, scenario.isl, scenario.osl) == numbers
    assert app.selectbox("preset").value == name


def test_numbers_that_no_preset_has_are_called_custom():
    app = opened()
    app.number_input("isl").set_value(777).run()
    assert app.selectbox("preset").value == sidebar.CUSTOM


@pytest.mark.parametrize("typed", ["x", "", "1.5", "0", "-2", "1e9", None])
def test_a_degree_that_is_no_whole_number_is_refused_with_what_was_given(typed: object):
    with pytest.raises(InvalidValue, match="whole number"):
        sidebar.parse_degree("TP", typed)


def test_doubled_bandwidth_shortens_decode_and_halves_its_bound():
    plain, wide = cached.priced(Setup()), cached.priced(Setup(bandwidth=2.0))
    assert wide.bound_tpot_s[0] == pytest.approx(plain.bound_tpot_s[0] / 2)
    assert wide.tpot_s[0] < plain.tpot_s[0]


def test_a_rent_of_ones_own_takes_the_place_of_the_public_price():
    assert cached.resolved(Setup(price=7.25)).system.price_usd_per_hour == 7.25


def test_levers_are_shares_of_time_and_the_best_comes_first():
    for phase, levers in cached.levers(Setup()).items():
        saved = [share for _, share in levers]
        assert saved == sorted(saved, reverse=True), phase
        assert all(share < 1 for share in saved)


def test_more_bandwidth_is_what_helps_decode_of_one_request_most():
    assert cached.levers(Setup())["decode"][0][0] == "twice the memory bandwidth"


def test_parts_and_classes_of_a_step_sum_to_its_latency():
    setup = Setup(Scenario(model="meta-llama/Llama-3.1-70B", tp=4, pp=2, batch=8))
    estimate = cached.priced(setup)
    for phase in PHASES:
        step = step_of(estimate, phase)
        assert sum(parts_of(step).values()) == pytest.approx(float(step.total_s[0]))
        classes = intervals.by_class(step).values()
        assert sum(one.seconds for one in classes) == pytest.approx(float(step.total_s[0]))


# ------------------------------------------------------------------------------- links and pins


def test_what_a_setup_changes_brings_it_back():
    setup = Setup(Scenario(tp=2, kv="fp8"), peak=0.5, price=1.0)
    assert setup_from(json.loads(json.dumps(setup.changed()))) == setup


@pytest.mark.parametrize("changed", [{"no": 1}, {"tp": "2"}, {"model": 5}, {"peak": "2"}])
def test_a_pin_that_no_scenario_has_is_refused(changed: dict):
    with pytest.raises(InvalidValue):
        setup_from(changed)


def test_an_exported_scenario_names_every_choice_and_what_was_brought():
    setup = replace(Setup(), model_config=json.dumps(TINY))
    document = setup.document()
    assert set(NUMBERS) < set(document)
    assert document["model_config"] == json.dumps(TINY)


def test_at_most_four_scenarios_are_pinned():
    app = opened(pins=json.dumps([{"batch": batch} for batch in range(2, 9)]))
    app.switch_page("views/predict/compare.py").run()
    assert len(app.dataframe[0].value.columns) == 1 + pinned.MOST


# ------------------------------------------------------------------------------- brought files


def test_an_uploaded_config_can_be_chosen_and_priced():
    app = opened()
    app.file_uploader("own_file").upload("tiny.json", json.dumps(TINY).encode()).run()
    app.button("use_uploaded").click().run()
    assert asked(app).model_config == json.dumps(TINY)
    assert not app.exception
    assert not app.error
    assert app.selectbox("model").value == "tiny (yours)"


def test_an_uploaded_system_can_be_chosen_and_priced():
    app = opened()
    app.file_uploader("own_file").upload("mine.yaml", SHEET.encode()).run()
    app.button("use_uploaded").click().run()
    assert asked(app).system_yaml == SHEET
    assert app.title[0].value.endswith("My H100")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("cut.json", json.dumps(TINY)[:120].encode()),
        ("list.json", b"[1, 2]"),
        ("deep.json", b"[" * 100_000),
        ("binary.json", b"\xff\xfe\x00"),
        ("strange.json", b'{"model_type": "never-heard-of"}'),
        ("empty.json", b""),
        ("units.yaml", SHEET.encode() + WRONG_UNIT),
        ("code.yaml", b"!!python/object/apply:os.system [ls]"),
        ("anchors.yaml", b"a: &a [1]\nb: [*a, *a]"),
        ("empty.yaml", b""),
    ],
)  # fmt: skip
def test_a_bad_upload_is_refused_in_one_sentence(file: str, content: bytes):
    app = opened()
    app.file_uploader("own_file").upload(file, content).run()
    assert not app.exception
    assert len(app.error) == 1
    assert len(app.error[0].value) > 20
    assert "Traceback" not in app.error[0].value
    assert asked(app) == Setup()


def test_a_typed_system_is_kept_with_every_figure_marked_as_typed():
    app = opened()
    app.switch_page("views/library/hardware.py").run()
    pressed(app, "Add")
    assert not app.exception
    sheets = app.session_state["own_systems"]
    assert list(sheets) == ["my-accelerator (yours)"]
    assert "as typed" in sheets["my-accelerator (yours)"]


def test_a_pasted_config_is_kept_for_the_session():
    app = opened()
    app.switch_page("views/library/models.py").run()
    app.text_area("config").set_value(json.dumps(TINY)).run()
    app.button("read_config").click().run()
    assert not app.exception
    assert list(app.session_state["own_models"]) == ["my-model (yours)"]


def test_a_brought_model_is_priced_like_the_same_config_from_python():
    setup = replace(Setup(), model_config=json.dumps(TINY))
    assert cached.resolved(setup).model.parameters == model_registry.load(TINY).parameters


@pytest.mark.parametrize("name", ["/etc/passwd", "~/x", "../a", "config.json", ".\\x"])
def test_a_visitor_cannot_open_files_of_the_server(name: str):
    with pytest.raises(RidgelineError, match="path"):
        cached.model_of(name, "", ())
