"""Models and systems that a visitor uploads, pastes or types."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import model_registry
from app.dashboard import caches, own_definitions
from app.question.parameters import PARAMETERS
from app.scenario.setup import Setup
from genz_core.errors import RidgelineError, UnknownModel
from tests.app.pages import opened, pressed, setup_of

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
#: Bytes per second where GB/s belong.
WRONG_UNIT = b"memory_gb_per_s: {value: 3350000000000, source: nvidia-h100, kind: datasheet}"


def use(app: AppTest) -> None:
    """Press the button that puts an uploaded definition into the scenario."""
    next(one for one in app.button if one.label == "Use it now").click().run()


def test_an_uploaded_config_can_be_chosen_and_priced():
    app = opened("upload")
    app.file_uploader("upload_files").upload("tiny.json", json.dumps(TINY).encode()).run()
    use(app)
    assert setup_of(app).model_config == json.dumps(TINY)
    assert not app.exception
    assert not app.error
    assert app.selectbox("model").value == "tiny (yours)"


def test_an_uploaded_gguf_file_is_priced_in_the_formats_of_its_tensors():
    data = (Path(__file__).parents[2] / "fixtures" / "gguf" / "tiny-llama.gguf").read_bytes()
    app = opened("upload")
    app.file_uploader("upload_files").upload("tiny.gguf", data).run()
    use(app)
    assert not app.exception
    assert not app.error
    assert '"quant_method": "gguf"' in setup_of(app).model_config
    assert app.selectbox("model").value == "tiny (yours)"


def test_a_gguf_file_that_ends_in_its_header_is_a_sentence():
    app = opened("upload")
    app.file_uploader("upload_files").upload("cut.gguf", b"GGUF" + bytes(9)).run()
    assert not app.exception
    assert "GGUF" in app.error[0].value


def test_an_uploaded_system_can_be_chosen_and_priced():
    app = opened("upload")
    app.file_uploader("upload_files").upload("mine.yaml", SHEET.encode()).run()
    use(app)
    assert setup_of(app).system_yaml == SHEET
    assert app.selectbox("system").value == "my-h100 (yours)"


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("cut.json", json.dumps(TINY)[:120].encode(), "not valid JSON (Unterminated"),
        ("list.json", b"[1, 2]", "holds a list, not a JSON object"),
        ("deep.json", b"[" * 100_000, "recursion depth"),
        ("binary.json", b"\xff\xfe\x00", "not UTF-8 text"),
        ("strange.json", b'{"model_type": "never-heard-of"}', "model_type 'never-heard-of'"),
        ("empty.json", b"", "not valid JSON"),
        ("units.yaml", SHEET.encode() + WRONG_UNIT, "check the unit"),
        ("code.yaml", b"!!python/object/apply:os.system [ls]", "constructor for the tag"),
        ("anchors.yaml", b"a: &a [1]\nb: [*a, *a]", "anchors or aliases"),
        ("empty.yaml", b"", "must be a mapping"),
    ],
)  # fmt: skip
def test_a_bad_upload_is_refused_in_one_sentence(file: str, content: bytes, words: str):
    kind = "systems" if file.endswith(".yaml") else "models"
    with pytest.raises(RidgelineError) as refused:
        own_definitions.add(kind, file, content)
    assert words in str(refused.value) and "\n" not in str(refused.value)
    assert not own_definitions.own_texts(kind)


def test_a_typed_system_is_kept_with_every_figure_marked_as_typed():
    app = opened("hardware")
    pressed(app, "Add")
    assert not app.exception
    sheets = app.session_state["own_systems"]
    assert list(sheets) == ["my-accelerator (yours)"]
    assert "as typed" in sheets["my-accelerator (yours)"]


def test_a_pasted_config_is_kept_for_the_session():
    app = opened("models")
    app.text_area("config").set_value(json.dumps(TINY)).run()
    app.button("read_config").click().run()
    assert not app.exception
    assert list(app.session_state["own_models"]) == ["my-model (yours)"]


def test_an_own_model_is_priced_like_the_same_config_from_python():
    setup = replace(Setup(), model_config=json.dumps(TINY))
    assert caches.resolved(setup).model.parameters == model_registry.load(TINY).parameters


@pytest.mark.parametrize("name", ["/etc/passwd", "~/x", "../a", "config.json", ".\\x"])
def test_a_visitor_cannot_open_files_of_the_server(name: str):
    with pytest.raises(UnknownModel):
        caches.model_of(name, "", ())


def test_an_exported_scenario_names_every_choice_and_the_own_definitions():
    setup = replace(Setup(), model_config=json.dumps(TINY))
    document = setup.document()
    assert set(PARAMETERS) < set(document)
    assert document["model_config"] == json.dumps(TINY)
