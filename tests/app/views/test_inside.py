"""The page Model inside: formulas that evaluate to what is priced, a tree that loses nothing."""

import json
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import model_registry
from app.charts import layers
from app.charts.style import LIGHT
from app.model_inside import builder_and_trace, layer_tree, operator_detail
from app.scenario import intervals
from app.scenario.scenario import Scenario, resolve
from genz_core.step import StepEstimate
from genz_core.types import Op, Parallelism, Step
from tests.app.pages import MAIN, opened
from tests.model_registry.tracing_cases import tiny

#: One model of each kind of block.
SOME = (
    "meta-llama/Llama-3.1-8B",
    "openai-community/gpt2",
    "deepseek-ai/DeepSeek-V3.2",
    "deepseek-ai/DeepSeek-V4-Flash",
    "Qwen/Qwen3.5-35B-A3B",
    "nvidia/Nemotron-H-56B-Base-8K",
    "state-spaces/mamba-2.8b-hf",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "google/gemma-4-26B-A4B",
    "Zyphra/Zamba2-1.2B",
    "openai/gpt-oss-20b",
)


def step_of(name: str, phase: str = "decode", **asked: Any) -> StepEstimate:
    resolved = resolve(Scenario(model=name, **asked))
    return builder_and_trace.priced_step(resolved, resolved.model, phase)


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("step", [Step.prefill(2.0, 777.0), Step.decode(3.0, 9000.0)])
@pytest.mark.parametrize("split", [Parallelism(), Parallelism(tp=2)])
def test_a_formula_with_its_numbers_is_the_flops_that_are_counted(
    name: str, step: Step, split: Parallelism
) -> None:
    for op in model_registry.load(name).graph(step, split).ops:
        found = operator_detail.flops_formula(op)
        if found is None:
            assert operator_detail.scalar(op.flops) == 0
        else:
            value = eval(found.numbers.replace("×", "*").replace(",", ""))
            assert value == pytest.approx(operator_detail.scalar(op.flops), rel=1e-9), op.name


@pytest.mark.parametrize("name", SOME)
def test_tensors_are_all_that_an_operator_moves(name: str) -> None:
    for op in model_registry.load(name).graph(Step.prefill(1.0, 100.0), Parallelism(tp=2)).ops:
        moved = operator_detail.scalar(op.memory_bytes) + operator_detail.scalar(op.message_bytes)
        assert sum(tensor.bytes for tensor in operator_detail.tensor_traffic(op)) == pytest.approx(
            moved
        )


def test_shapes_are_those_of_the_published_layer() -> None:
    ops = {op.name: op for op in step_of("meta-llama/Llama-3.1-8B", batch=4).graph.ops}
    shapes = {
        tensor.tensor: tensor.shape for tensor in operator_detail.tensor_traffic(ops["down_proj"])
    }
    assert shapes == {"weights": "[14,336, 4,096]", "input": "[4, 14,336]", "output": "[4, 4,096]"}
    cache = {
        tensor.tensor: tensor.shape for tensor in operator_detail.tensor_traffic(ops["attention"])
    }
    assert cache["cache, read"] == "k, v [4, 1,088, 8, 128]"


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_every_operator_that_takes_time_is_one_line_of_the_tree(name: str, phase: str) -> None:
    step = step_of(name, phase)
    timed = {row for row in range(len(step.graph.ops)) if step.operators_s[row, 0] > 0}
    whole = layer_tree.graph_lines(step, layer_tree.foldable(step))
    rows = [line.row for line in whole if not line.folds]
    assert sorted(rows) == sorted(timed)
    layer_sets = [group.layers for group in layer_tree.layer_groups(step) if group.layers]
    assert sorted(at for one in layer_sets for at in one) == list(range(step.graph.layers))
    for shown in (whole, layer_tree.graph_lines(step, ())):
        total = sum(line.seconds for line in shown if line.level == 0)
        assert total == pytest.approx(float(np.sum(step.operators_s)))


def test_folding_hides_what_lies_inside_and_nothing_else() -> None:
    step = step_of("mistralai/Mixtral-8x7B-v0.1")
    folded, whole = (
        layer_tree.graph_lines(step, ()),
        layer_tree.graph_lines(step, layer_tree.foldable(step)),
    )
    assert [line.label for line in folded] == [
        "embedding", "Layers 0–31", "final_norm", "lm_head", "sampling"
    ]  # fmt: skip
    labels = [line.label for line in whole]
    assert labels.index("attention") < labels.index("qkv_proj") < labels.index("moe")
    assert folded[1].seconds == pytest.approx(
        sum(line.seconds for line in whole if not line.folds and line.level > 0)
    )


@pytest.mark.parametrize(
    ("numbers", "words"),
    [((0,), "layer 0"), ((0, 1, 2, 5), "layers 0–2, 5"), (tuple(range(0, 20, 2)),
     "layers 0, 2, 4, …, 18")],
)  # fmt: skip
def test_layers_are_named_in_ranges(numbers: tuple[int, ...], words: str) -> None:
    assert layer_tree.layer_ranges(numbers) == words


def test_every_line_is_a_point_that_carries_its_id() -> None:
    step = step_of("meta-llama/Llama-3.1-8B")
    lines = layer_tree.graph_lines(step, layer_tree.foldable(step))
    figure = layers.layer_graph(lines, lines[4].id, LIGHT)
    points = next(t for t in figure.data if t.type == "scatter" and t.mode == "markers+text")
    assert [one[0] for one in points.customdata] == [line.id for line in lines]


@pytest.mark.parametrize("system", ["h100-sxm5-80gb", "epyc-9654"])
def test_the_tree_carries_the_intervals_of_its_operators(system: str) -> None:
    step = step_of("mistralai/Mixtral-8x7B-v0.1", system=system)
    rows = intervals.of_rows(intervals.operator_table(step))
    whole = layer_tree.graph_lines(step, layer_tree.foldable(step))
    assert all(line.latency == rows[line.row] for line in whole if not line.folds)
    parts = [line.latency for line in whole if line.level == 0]
    total, operators = intervals.Latency.total(parts), builder_and_trace.operators_latency(step)
    assert total.trust == operators.trust
    assert total.seconds == pytest.approx(operators.seconds)
    points = next(t for t in layers.layer_graph(whole, "", LIGHT).data if t.hovertext)
    assert all(f"80 %: {line.latency.trust}" in said
               for line, said in zip(whole, points.hovertext, strict=True))  # fmt: skip


def test_operators_are_listed_by_cost_and_named_by_where_they_run() -> None:
    step = step_of("meta-llama/Llama-3.1-8B")
    known = builder_and_trace.operators_by_key({"builder": step})
    costs = [float(one.operators_s[row, 0]) for one, row in known.values()]
    assert costs == sorted(costs, reverse=True) and costs[-1] > 0
    names = [
        builder_and_trace.operator_label(key, *one, with_side=False) for key, one in known.items()
    ]
    assert "qkv_proj · layers 0–31" in names and "lm_head · last stage" in names
    key, one = next(iter(known.items()))
    assert builder_and_trace.operator_label(key, *one, with_side=True).endswith(", builder")


def test_an_operator_without_arithmetic_has_no_formula() -> None:
    assert operator_detail.flops_formula(Op("nothing", "all_reduce")) is None


# ------------------------------------------------------------------------------- the page


def shown_lines(app: AppTest, at: int = 0) -> list[str]:
    traces = json.loads(app.get("plotly_chart")[at].proto.spec)["data"]
    return next(t["text"] for t in traces if t.get("mode") == "markers+text")


def test_unfolding_and_folding_changes_the_graph_and_keeps_the_operator() -> None:
    app = opened("inside", model="mistralai/Mixtral-8x7B-v0.1")
    chosen = app.selectbox("inside_operator").value
    app.button("Fold all builder").click().run()
    few = len(shown_lines(app))
    app.button("Unfold all builder").click().run()
    assert not app.exception
    assert len(shown_lines(app)) > 2 * few
    assert app.selectbox("inside_operator").value == chosen


def test_choosing_an_operator_shows_its_formula_with_numbers() -> None:
    app = opened("inside", inside_phase="prefill", isl=512)
    options = app.selectbox("inside_operator").options
    down = next(at for at, words in enumerate(options) if words.startswith("down_proj"))
    app.selectbox("inside_operator").select_index(down).run()
    said = " ".join(text.value for text in app.markdown)
    assert "2 × 512 × 4,096 × 14,336" in said
    assert app.dataframe[0].value["shape"][0] == "[14,336, 4,096]"


def test_builder_and_trace_stand_side_by_side_and_agree(tmp_path, monkeypatch) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers", minversion="5.0")
    monkeypatch.setenv("RIDGELINE_CACHE", str(tmp_path))
    app = opened("inside", model="Qwen/Qwen3-0.6B")
    app.toggle("with_trace").set_value(True).run()
    assert not app.exception
    assert not app.error
    beside = app.dataframe[1].value
    assert set(beside["trace against builder"]) == {"same"}
    assert "q_norm" in " ".join(shown_lines(app, 1))


def test_a_visitors_config_of_a_type_without_a_builder_is_shown_as_its_trace(
    tmp_path, monkeypatch
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers", minversion="5.0")
    monkeypatch.setenv("RIDGELINE_CACHE", str(tmp_path))
    config = {**tiny("llama"), "model_type": "exaone4", "layer_types": ["full_attention"] * 2}
    app = AppTest.from_file(str(MAIN), default_timeout=60)
    app.session_state["own_models"] = {"mine (yours)": json.dumps(config)}
    app.query_params["model"] = "mine (yours)"
    app.switch_page("views/library/inside.py")
    app.run()
    assert not app.exception
    assert not app.error
    assert "with_trace" not in {toggle.key for toggle in app.toggle}
    assert "Trace" in app.markdown[0].value
    assert any("qkv_proj" in line for line in shown_lines(app))


def test_a_model_that_cannot_be_traced_says_so_and_keeps_its_builder() -> None:
    pytest.importorskip("torch")
    app = opened("inside", model="xai-org/grok-1", tp=8)
    app.toggle("with_trace").set_value(True).run()
    assert not app.exception
    assert "cannot be traced" in app.error[0].value
    assert any("router" in line for line in shown_lines(app))


def test_degrees_that_cannot_split_a_model_are_said() -> None:
    assert "tp 3" in opened("inside", tp=3).error[0].value


def test_the_step_is_what_its_engine_runs() -> None:
    eager, fused = (step_of("Qwen/Qwen3-0.6B", engine=name) for name in ("hf", "generic"))
    assert float(eager.operators_s.sum()) > float(fused.operators_s.sum())
