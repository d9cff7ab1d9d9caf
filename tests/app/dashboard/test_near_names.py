"""Names typed into pages: what they mean, close matches, unknown engines."""

from collections.abc import Sequence

import pytest

import hardware_db
from app.dashboard import name_options
from app.dashboard.near_names import meant
from model_registry.finding.loading import names as model_names
from model_registry.finding.lookup import resolve_name, spellings
from tests.app.pages import charts, opened

#: Base checkpoints that NVIDIA published quantised; its account sorts before the makers'.
BASES = {
    "GLM-5": "zai-org/GLM-5",
    "GLM-5.1": "zai-org/GLM-5.1",
    "GLM-5.2": "zai-org/GLM-5.2",
    "GLM-5.3": "zai-org/GLM-5.3",
    "Qwen3-235B-A22B": "Qwen/Qwen3-235B-A22B",
    "Qwen3.5-122B-A10B": "Qwen/Qwen3.5-122B-A10B",
    "Qwen3.5-397B-A17B": "Qwen/Qwen3.5-397B-A17B",
    "Qwen3.6-27B": "Qwen/Qwen3.6-27B",
    "Qwen3.6-35B-A3B": "Qwen/Qwen3.6-35B-A3B",
}
#: The default board of a bare name that also fits others.
BOARDS = {
    "H200": "h200-sxm-141gb",
    "H100": "h100-sxm5-80gb",
    "A100": "a100-sxm4-80gb",
    "V100": "v100-sxm2-32gb",
    "H20": "h20-96gb",
    "B200": "b200-sxm-180gb",
    "GH200": "gh200-144gb",
    "MI300": "mi300x",
    "M4": "m4-10core",
    "4090": "rtx-4090",
    "Rubin": "vr200-nvl72",
}


@pytest.mark.parametrize(
    ("kind", "typed", "taken"),
    [
        *(("model", typed, taken) for typed, taken in BASES.items()),
        *(("system", typed, taken) for typed, taken in BOARDS.items()),
        ("model", "qwen3 235b_a22b", "Qwen/Qwen3-235B-A22B"),
        ("model", "llama-3.1-70b", "meta-llama/Llama-3.1-70B"),
        ("system", "NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("system", "mi325", "mi325x"),
    ],
)
def test_a_typed_name_takes_what_the_libraries_say_that_it_is(kind: str, typed: str, taken: str):
    names = name_options.shipped_models() if kind == "model" else name_options.library_systems()
    assert meant(kind, typed, names) == taken


@pytest.mark.parametrize(
    ("kind", "typed"),
    [
        ("model", "hf:someone/model"),
        ("model", "GLM-4.6"),  # GLM-4.5's shape, as the answers state
        ("model", "Qwen3-235B"),  # the beginning of a name, as the answers state
        ("model", "deepseek"),  # fits many
        ("model", "nothing like it"),
        ("system", "epyc"),  # fits three
        ("system", "NVIDIA H100 80GB HBM3 MIG 1g.10gb"),  # a part of a device
    ],
)
def test_what_is_no_option_stays_as_it_was_typed(kind: str, typed: str):
    names = name_options.shipped_models() if kind == "model" else name_options.library_systems()
    assert meant(kind, typed, names) == typed


def test_a_visitors_own_name_is_taken_by_its_beginning():
    assert meant("system", "my-board", ["my-board-2 (yours)", "a10"]) == "my-board-2 (yours)"
    assert meant("system", "A10", ["a10-twice (yours)", "a10"]) == "a10"


def first_held(typed: str, names: Sequence[str]) -> str:
    """The option that Enter selects in a box of several names, "" if it takes the typed text.

    Streamlit 1.67 with filter_mode="contains": the first option that contains the letters.
    """
    return next((name for name in names if typed.casefold() in name.casefold()), "")


@pytest.mark.slow
def test_every_name_of_a_system_takes_that_system_in_a_box_of_several():
    names = name_options.library_systems()
    spelled = hardware_db.spellings()
    taken = {typed: first_held(typed, names) or typed for typed in spelled}
    stands_for = {one: meant("system", one, names) for one in set(taken.values())}
    assert set(BOARDS.values()) <= set(stands_for.values())
    wrong = {typed: one for typed, one in taken.items() if stands_for[one] != spelled[typed]}
    assert not wrong


@pytest.mark.slow
def test_every_name_of_a_model_takes_that_model_in_a_box_of_several():
    names, spelled = name_options.shipped_models(), spellings()
    wrong = {
        typed: taken
        for typed, model in spelled.items()
        if resolve_name(taken := first_held(typed, names) or typed).id != model
    }
    assert not wrong
    assert all(first_held(typed, names) == taken for typed, taken in BASES.items())


def test_every_name_is_an_option_once():
    assert set(model_names()) < set(name_options.shipped_models())
    assert len(set(name_options.shipped_models())) == len(name_options.shipped_models())
    assert set(hardware_db.names()) <= set(name_options.library_systems())


def test_a_name_precedes_those_that_hold_it_and_the_rest_is_by_the_alphabet():
    names = ["ant", "bee-b", "bee-c", "cat"]
    assert name_options.exact_first(names, {"bee": "bee-c"}) == ["ant", "bee-c", "bee-b", "cat"]
    assert name_options.exact_first(names, {"cat": "cat"}) == names
    lost = name_options.exact_first(["x/bee-2", "y/ant"], {"y/Bee": "y/ant", "Bee": "y/ant"})
    assert lost == ["y/Bee", "x/bee-2", "y/ant"]


def test_names_near_an_unknown_one_of_a_link_are_buttons():
    app = opened(system="h1000")
    assert "unknown system" in app.error[0].value
    near = [button.label for button in app.button if str(button.key).startswith("near_")]
    assert "H100" in " ".join(near).upper()


def test_a_name_that_fits_several_is_refused_with_a_button_for_each():
    app = opened(model="gpt-oss")
    assert "it fits openai/gpt-oss-20b, openai/gpt-oss-120b: say which" in app.error[0].value
    near = [button.label for button in app.button if str(button.key).startswith("near_")]
    assert near == ["openai/gpt-oss-20b", "openai/gpt-oss-120b"]


def test_a_near_name_is_put_where_it_was_typed():
    app = opened("plan", devices="1").multiselect(key="systems").set_value(["epyc"])
    app = app.run()
    assert app.multiselect(key="systems").value == ["epyc"]
    app = app.button("near_epyc-9654").click().run()
    assert app.multiselect(key="systems").value == ["epyc-9654"]
    assert app.selectbox("system").value == "h100-sxm5-80gb"


def test_an_engine_without_a_profile_is_a_sentence_until_another_is_chosen():
    app = opened(engine="vlm")
    assert "unknown engine 'vlm'" in app.error[0].value
    assert "near_vllm" in [button.key for button in app.button]
    assert not app.metric and not charts(app)
    assert not opened(engine="vllm").error


def test_a_version_that_cannot_be_read_is_a_sentence_with_the_known_ones():
    app = opened(engine="vllm", engine_version="banana")
    assert "unknown version of vllm 'banana'" in app.error[0].value
    assert "0.19.0" in app.error[0].value
    app = app.text_input("engine_version").set_value("0.19.0").run()
    assert not app.error


def test_the_roofline_follows_the_sidebar_and_a_link_keeps_its_own():
    app = opened("roofline", batch=64)
    assert app.select_slider("roofline_batch").value == 64
    app = app.text_input("load_box").set_value("batch 256").run()
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
