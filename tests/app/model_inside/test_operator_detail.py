"""Operators in detail: formulas that evaluate to the priced values, and all memory traffic."""

import pytest

import model_registry
from app.model_inside import operator_detail
from genz_core.graphs import Op
from genz_core.types import Parallelism, Step
from tests.app.model_inside.steps import SOME, step_of


@pytest.mark.by_day(11)
@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("step", [Step.prefill(2.0, 777.0), Step.decode(3.0, 9000.0)])
@pytest.mark.parametrize("split", [Parallelism(), Parallelism(tp=2)])
def test_a_formula_with_its_numbers_is_the_flops_that_are_counted(
    name: str, step: Step, split: Parallelism
) -> None:
    ops = model_registry.load(name).graph(step, split).ops
    formulas = [operator_detail.flops_formula(op) for op in ops]
    assert sum(formula is not None for formula in formulas) > 5
    for op, formula in zip(ops, formulas, strict=True):
        value = eval(formula.numbers.replace("×", "*").replace(",", "")) if formula else 0.0
        assert value == pytest.approx(operator_detail.scalar(op.flops), rel=1e-9), op.name


@pytest.mark.parametrize("name", SOME)
def test_tensors_are_all_that_an_operator_moves(name: str) -> None:
    ops = model_registry.load(name).graph(Step.prefill(1.0, 100.0), Parallelism(tp=2)).ops
    assert len(ops) > 5
    for op in ops:
        moved = operator_detail.scalar(op.memory_bytes) + operator_detail.scalar(op.message_bytes)
        assert sum(tensor.bytes for tensor in operator_detail.tensor_traffic(op)) == pytest.approx(
            moved
        )


def test_shapes_are_those_of_the_published_layer() -> None:
    step = step_of("meta-llama/Llama-3.1-8B", batch=4, osl=128)
    ops = {op.name: op for op in operator_detail.mean_graph(step).ops}
    shapes = {
        tensor.tensor: tensor.shape for tensor in operator_detail.tensor_traffic(ops["down_proj"])
    }
    assert shapes == {"weights": "[14,336, 4,096]", "input": "[4, 14,336]", "output": "[4, 4,096]"}
    cache = {
        tensor.tensor: tensor.shape for tensor in operator_detail.tensor_traffic(ops["attention"])
    }
    assert cache["cache, read"] == "k, v [4, 1,087, 8, 128]"  # contexts 1,024 to 1,150


def test_a_mean_step_shows_the_figures_that_it_is_priced_by() -> None:
    step = step_of("meta-llama/Llama-3.1-8B", batch=16, osl=256)
    graph = operator_detail.mean_graph(step)
    for row, op in enumerate(graph.ops):
        assert operator_detail.scalar(op.flops) == pytest.approx(float(step.flops[row, 0]))
    attention = next(op for op in graph.ops if op.name == "attention")
    formula = operator_detail.flops_formula(attention)
    assert formula is not None and "× 1,152 ×" in formula.numbers


def test_an_operator_without_arithmetic_has_no_formula() -> None:
    assert operator_detail.flops_formula(Op("nothing", "all_reduce")) is None
