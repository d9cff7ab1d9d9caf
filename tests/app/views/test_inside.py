"""Page Explain, part Model inside: folding, an operator in detail, builder beside trace."""

import json

import pytest
from streamlit.testing.v1 import AppTest

from tests.app.pages import MAIN, charts, opened, settled
from tests.model_registry.tracing_cases import tiny


def labels(app: AppTest, at: int = 0) -> list[str]:
    """The labels of the lines of a layer graph, from top to bottom."""
    traces = charts(app)[at]["data"]
    return next(t["text"] for t in traces if t.get("mode") == "markers+text")


def test_unfolding_and_folding_changes_the_graph_and_keeps_the_operator() -> None:
    app = opened("inside", model="mistralai/Mixtral-8x7B-v0.1")
    app.session_state["operator"] = "decode:3"
    chosen = app.run().subheader[0].value
    app.button("Fold all builder").click().run()
    folded = labels(app)
    assert len(folded) == 5 and "Layers 0–31" in folded[1]
    app.button("Unfold all builder").click().run()
    assert not app.exception
    unfolded = labels(app)
    assert len(unfolded) > 2 * len(folded) and any("qkv_proj" in label for label in unfolded)
    assert app.subheader[0].value == chosen


def test_choosing_an_operator_shows_its_formula_with_numbers() -> None:
    app = opened("inside", phase="prefill", isl=512, batch=1)
    table = app.dataframe[0].value
    app.session_state["operator"] = table["id"][table["name"] == "down_proj"].iloc[0]
    app.run()
    assert any("2 × 512 × 4,096 × 14,336" in text.value for text in app.markdown)
    assert app.dataframe[1].value["shape"][0] == "[14,336, 4,096]"


@pytest.mark.slow
def test_builder_and_trace_stand_side_by_side_and_agree(tmp_path, monkeypatch) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers", minversion="5.0")
    monkeypatch.setenv("RIDGELINE_CACHE", str(tmp_path))
    app = opened("inside", model="Qwen/Qwen3-0.6B")
    settled(app.toggle("with_trace").set_value(True).run())
    assert not app.exception and not app.error
    against = "trace against builder"
    (beside,) = (table.value for table in app.dataframe if against in table.value)
    assert set(beside[against]) == {"same"}
    assert "q_norm" in " ".join(labels(app, 1))


@pytest.mark.slow
def test_a_visitors_config_of_a_type_without_a_builder_is_shown_as_its_trace(
    tmp_path, monkeypatch
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers", minversion="5.0")
    monkeypatch.setenv("RIDGELINE_CACHE", str(tmp_path))
    config = {**tiny("llama"), "model_type": "diffllama"}
    app = AppTest.from_file(str(MAIN), default_timeout=60)
    app.session_state["own_models"] = {"mine (yours)": json.dumps(config)}
    app.query_params["model"] = "mine (yours)"
    app.query_params["part"] = "Model inside"
    app.switch_page("views/explain.py")
    settled(app.run())
    assert not app.exception and not app.error
    assert "with_trace" not in {toggle.key for toggle in app.toggle}
    assert any("Trace" in shown.value for shown in app.markdown)
    assert any("qkv_proj" in line for line in labels(app))


@pytest.mark.slow
def test_a_model_that_cannot_be_traced_keeps_its_builder_under_a_sentence() -> None:
    pytest.importorskip("torch")
    app = opened("inside", model="xai-org/grok-1", tp=8)
    settled(app.toggle("with_trace").set_value(True).run())
    assert not app.exception
    assert "cannot be traced" in app.error[0].value
    assert any("router" in line for line in labels(app))
