"""The layer graph: a tree that keeps every operator, time and interval."""

import numpy as np
import pytest

from app.charts import layers
from app.charts.style import LIGHT
from app.model_inside import builder_and_trace, layer_tree
from app.scenario import intervals, operator_intervals
from tests.app.charts.figures import checked
from tests.app.model_inside.steps import SOME, step_of


@pytest.mark.by_day(6)
@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_every_operator_that_takes_time_is_one_line_of_the_tree(name: str, phase: str) -> None:
    step = step_of(name, phase)
    timed = {row for row in range(len(step.graph.ops)) if step.operators_s[row, 0] > 0}
    whole = layer_tree.graph_lines(step, layer_tree.foldable(step))
    rows = [line.row for line in whole if not line.folds]
    assert sorted(rows) == sorted(timed)
    layer_sets = [group.layers for group in layer_tree.layer_groups(step) if group.layers]
    assert sorted(at for layers in layer_sets for at in layers) == list(range(step.graph.layers))
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


def test_the_costliest_group_is_unfolded_at_first_and_with_it_its_parts() -> None:
    """DeepSeek-V3 has 3 dense layers before its 58 layers with experts."""
    step = step_of("deepseek-ai/DeepSeek-V3", tp=8)
    groups = [line for line in layer_tree.graph_lines(step, ()) if line.folds]
    assert [line.label for line in groups] == ["Layers 0–2", "Layers 3–60"]
    opened = layer_tree.costliest_group(step)
    assert groups[1].id in opened and groups[0].id not in opened
    assert opened - {groups[1].id} == {
        name for name in layer_tree.foldable(step) if name.startswith(f"{groups[1].id}.")
    }
    assert layer_tree.costliest_group(step) <= {
        line.id for line in layer_tree.graph_lines(step, opened)
    }


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
    figure = checked(layers.layer_graph(lines, lines[4].id, LIGHT))
    points = next(t for t in figure.data if t.type == "scatter" and t.mode == "markers+text")
    assert [row[0] for row in points.customdata] == [line.id for line in lines]


@pytest.mark.parametrize("system", ["h100-sxm5-80gb", "epyc-9654"])
def test_the_tree_carries_the_intervals_of_its_operators(system: str) -> None:
    step = step_of("mistralai/Mixtral-8x7B-v0.1", system=system)
    rows = operator_intervals.of_rows(operator_intervals.operator_table(step))
    whole = layer_tree.graph_lines(step, layer_tree.foldable(step))
    operators = [line for line in whole if not line.folds]
    assert len(operators) > 10
    pairs = [(line.latency, rows[line.row]) for line in operators]
    assert all(a.value == b.value and a.trust == b.trust for a, b in pairs)
    parts = [line.latency for line in whole if line.level == 0]
    total, expected = intervals.Ranged.total(parts), builder_and_trace.operators_latency(step)
    assert total.trust == expected.trust
    assert total.value == pytest.approx(expected.value)
    points = next(t for t in checked(layers.layer_graph(whole, "", LIGHT)).data if t.hovertext)
    assert all(f"80 %: {line.latency.trust}" in hover
               for line, hover in zip(whole, points.hovertext, strict=True))  # fmt: skip
