"""Names that are typed into the sidebar: first matches, near names, unknown engines."""

import pytest

import hardware_db
from app.dashboard.near_names import first_match
from model_registry.finding.loading import names as model_names
from tests.app.pages import charts, opened


@pytest.mark.parametrize(
    ("box", "typed", "taken"),
    [
        ("model", "deepseek", "deepseek-ai/"),
        ("model", "llama-3.1-70b", "meta-llama/Llama-3.1-70B"),
        ("model", "hf:someone/model", "hf:someone/model"),
        ("model", "nothing like it", "nothing like it"),
        ("system", "epyc", "epyc"),
        ("system", "H200", "H200"),
        ("system", "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"),
    ],
)
def test_what_is_typed_takes_the_first_name_that_holds_it(box: str, typed: str, taken: str):
    names = model_names() if box == "model" else hardware_db.names()
    found = first_match(box, typed, names)
    assert found.startswith(taken)
    assert found == typed or found in names


def test_names_near_an_unknown_one_of_a_link_are_buttons():
    app = opened(system="h1000")
    assert "unknown system" in app.error[0].value
    near = [button.label for button in app.button if str(button.key).startswith("near_")]
    assert "H100" in " ".join(near).upper()


def test_an_engine_without_a_profile_is_a_sentence_until_another_is_chosen():
    app = opened(engine="vlm")
    assert "No engine 'vlm' has a profile" in app.warning[0].value
    assert "vllm" in app.warning[0].value
    app = app.number_input("batch").set_value(2).run()
    assert "No engine 'vlm'" in app.warning[0].value
    app = app.selectbox("engine").set_value("vllm").run()
    assert not app.warning


def test_the_roofline_follows_the_sidebar_and_a_link_keeps_its_own():
    app = opened("roofline", batch=64)
    assert app.select_slider("roofline_batch").value == 64
    app = app.number_input("batch").set_value(256).run()
    assert app.select_slider("roofline_batch").value == 256
    linked = opened("roofline", batch=64, roofline_batch=8)
    assert linked.select_slider("roofline_batch").value == 8
    assert charts(linked) != charts(app)


def test_pins_say_engine_formats_and_offload():
    pins = (
        '[{"engine":"vllm","engine_version":"0.6.3"},{"engine":"sglang","moe_weights":"fp8"},'
        '{"kv":"fp8","activations":"fp8","compute":"fp8","offload":"kv"}]'
    )
    app = opened("compare", model="meta-llama/Llama-3.1-8B", pins=pins)
    lines = [text.value for text in app.markdown if text.value.startswith("**")]
    assert "vllm 0.6.3" in lines[0]
    assert "sglang" in lines[1] and "fp8 experts" in lines[1]
    assert "fp8 cache, fp8 activations, fp8 arithmetic" in lines[2] and "kv offloaded" in lines[2]
