"""The operators of a model layer by layer, as numbers and as formulas.

Four steps from a name to a count: `structure`, `missing_modules`, `populated`, `analysed`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from genz_core.errors import InvalidValue
from genz_core.graphs import Graph, Model, Op
from genz_core.precision import bytes_of
from genz_core.types import Group, Parallelism, Precision, Step, scalar
from model_registry.finding.loading import load, traced
from model_registry.finding.sources import ModelSource, find_checkpoint
from model_registry.graph.model import DescribedModel
from model_registry.modules.polynomial import Polynomial, fit_grid
from model_registry.reports.static_table import checked_count

SYMBOLS = ("batch", "new_tokens", "context")
#: Symbols for the bytes per element of an operator's weights, activations and cache.
BYTES = ("w_bytes", "a_bytes", "kv_bytes")
#: Steps at which figures are counted before they are fitted. There are more contexts than a
#: polynomial needs, and they are not all multiples of one number, to detect figures that are
#: counted in blocks of tokens (compressed caches).
_AXES = ((1.0, 2.0, 3.0), (1.0, 2.0, 3.0, 4.0), (8.0, 9.0, 16.0, 23.0))
PointGrid = NDArray[np.float64]
#: Figures of an operator that have formulas.
FIGURES = (
    "flops",
    "weight_bytes",
    "input_bytes",
    "output_bytes",
    "kv_read_bytes",
    "kv_write_bytes",
)


def open_model(
    source: ModelSource, *, trace: bool = False, without: Collection[str] = (), **formats: str
) -> tuple[Model, str]:
    """(model, "builder" or "trace"): built from a description where its type has one, otherwise
    traced.

    trace: trace it even if it is described.  without: rewrites to leave out of its trace; any of
    them implies `trace`.  formats: number formats that replace the checkpoint's, by the names that
    `loading.load` takes.

    Raises:
        RidgelineError: as `loading.load`.
    """
    if trace or without:
        return traced(source, without=without, **formats), "trace"
    model = load(source, **formats)
    return model, "builder" if isinstance(model, DescribedModel) else "trace"


def structure(
    source: ModelSource, trace: bool = False, without: Collection[str] = ()
) -> dict[str, Any]:
    """Source, parameters, active parameters and the layers of a model.

    layers: groups of equal layers with their operators; indices are empty for operators outside the
    layers.
    """
    model, origin = open_model(source, trace=trace, without=without)
    graph = model.graph(Step.decode(1.0, 1024.0), Parallelism())
    return {
        "name": model.name,
        "source": origin,
        "parameters": round(model.parameters),
        "active_parameters": round(model.active_parameters),
        "max_context": model.max_context,
        "layer_count": graph.layers,
        "precision": {"weights": dict(model.precision.weights), "kv": model.precision.kv},
        "layers": _layers(graph),
        "notes": list(dict.fromkeys((*model.notes, *graph.notes))),
    }


def _layers(graph: Graph) -> list[dict[str, Any]]:
    """Operators grouped by the layers that have them, in the order of their first layer."""
    groups: dict[tuple[int, ...], list[Op]] = {}
    for op in graph.ops:
        if op.operator_class != "collective":
            groups.setdefault(op.layers, []).append(op)
    return [
        {
            "indices": list(indices),
            "count": len(indices),
            "operators": [_described(op) for op in ops],
        }
        for indices, ops in groups.items()
    ]


def _described(op: Op) -> dict[str, Any]:
    return {
        "name": op.name,
        "kind": op.kind,
        "module": op.module,
        "repeat": op.repeat,
        "weights": op.weights,
        "held_weight_bytes": scalar(op.held_weight_bytes),
        "dims": {name: scalar(value) for name, value in op.dims.items()},
    }


# ------------------------------------------------------------------------------- with symbols


def missing_modules(source: ModelSource) -> list[str]:
    """Module classes of a model that the module database does not hold at the model's sizes.

    Raises:
        RidgelineError: as `modules.missing_classes`.
    """
    from model_registry.modules import missing_classes

    return missing_classes(find_checkpoint(source).config)


def populated(
    source: ModelSource, trace: bool = False, without: Collection[str] = ()
) -> dict[str, Any]:
    """The operators of a model, with every figure as a formula in `SYMBOLS` and `BYTES`.

    Each operator states the bytes per element of its weights, activations and cache.
    Formulas are exact within the windows and top-k limits of the model: a figure that is not a
    polynomial there is None, and `analysed` counts it at specific values.
    """
    return populated_of(*open_model(source, trace=trace, without=without))


def populated_of(model: Model, origin: str) -> dict[str, Any]:
    """As `populated`, for a model that is already open; origin: "builder" or "trace"."""
    symbolic = _symbolic(model)
    operators = [
        {
            "name": op.name,
            "kind": op.kind,
            "count": op.count,
            "bytes": {
                "w_bytes": bytes_of(op.weights),
                "a_bytes": bytes_of(op.activations),
                "kv_bytes": bytes_of(op.kv),
            },
            "formulas": formulas,
        }
        for op, formulas in _matched(model.graph(Step.decode(1.0, 8.0), Parallelism()), symbolic)
        if op.operator_class != "collective"
    ]
    symbols = (*SYMBOLS, *BYTES)
    return {"name": model.name, "source": origin, "symbols": symbols, "operators": operators}


T = TypeVar("T")
Formulas = dict[str, str | None]
Figures = Iterator[tuple[Op, dict[str, float]]]


def _matched(graph: Graph, symbolic: list[tuple[Op, T]]) -> Iterator[tuple[Op, T]]:
    """Each operator with the data of its namesake in a graph of uniform formats, where an operator
    may stand for more layers.
    """
    seen: Counter[tuple[str, tuple[int, ...]]] = Counter()
    for op in graph.ops:
        namesakes = [
            known
            for uniform, known in symbolic
            if uniform.name == op.name and set(op.layers) <= set(uniform.layers)
        ]
        key = (op.name, op.layers)
        yield op, namesakes[min(seen[key], len(namesakes) - 1)]
        seen[key] += 1


def _symbolic(model: Model) -> list[tuple[Op, Formulas]]:
    """The operators of a model in uniform formats, with a formula for each figure."""
    points = np.array(list(product(*_AXES)))
    return [
        (op, {figure: _formula(figure, points, op, *others) for figure in FIGURES})
        for op, *others in _in_wide_formats(model, _step(points))
    ]


def _in_wide_formats(model: Model, step: Step) -> Iterator[tuple[Op, ...]]:
    """Each operator with two bytes per element in all tensors, then with four in the weights, in
    the activations, or in the cache.
    """

    def laid(weights: str, activations: str, cache: str) -> tuple[Op, ...]:
        formats = Precision({"default": weights}, kv=cache, activations=activations)
        return model.with_precision(formats).graph(step, Parallelism()).ops

    plain = laid("bf16", "bf16", "bf16")
    wide = laid("fp32", "bf16", "bf16"), laid("bf16", "fp32", "bf16"), laid("bf16", "bf16", "fp32")
    return zip(plain, *wide, strict=True)


def _at_bytes(model: Model, graph: Graph, step: Step, given: Mapping[str, float]) -> Figures:
    """The figures of each operator of `graph` where some of `BYTES` have these values."""
    uniform = [(ops[0], ops) for ops in _in_wide_formats(model, step)]
    for op, (plain, *wide) in _matched(graph, uniform):
        own = zip(BYTES, map(bytes_of, (op.weights, op.activations, op.kv)), strict=True)
        steps = [(given.get(symbol, of_op) - 2.0) / 2.0 for symbol, of_op in own]
        figures = {}
        for name in FIGURES:
            two = scalar(getattr(plain, name))
            fours = [scalar(getattr(other, name)) for other in wide]
            figures[name] = two + sum(
                (four - two) * by for four, by in zip(fours, steps, strict=True)
            )
        yield op, figures


def _formula(figure: str, points: PointGrid, plain: Op, *wide: Op) -> str | None:
    """A figure as a polynomial of `SYMBOLS`, linear in the bytes of each of `BYTES`.

    plain: the operator with two bytes per element in all tensors; wide: the same with four in the
    weights, the activations or the cache.
    """
    at_two_bytes, *at_four = (
        np.broadcast_to(np.asarray(getattr(op, figure), dtype=float), (len(points),))
        for op in (plain, *wide)
    )
    slopes = [(values - at_two_bytes) / 2.0 for values in at_four]
    terms: dict[tuple[int, ...], Fraction] = {}
    for at, values in enumerate((*slopes, at_two_bytes - 2.0 * sum(slopes))):
        fitted = fit_grid(SYMBOLS, points, values)
        if fitted is None:
            return None
        powers = tuple(int(at == place) for place in range(len(BYTES)))
        terms |= {(*exponents, *powers): factor for exponents, factor in fitted.terms.items()}
    return Polynomial((*SYMBOLS, *BYTES), terms).text()


def parsed(text: str) -> Polynomial:
    """The polynomial of a formula's text in `SYMBOLS` and `BYTES`.

    Raises:
        InvalidValue: a text that is not such a formula.
    """
    return Polynomial.parse((*SYMBOLS, *BYTES), text)


def _step(points: PointGrid) -> Step:
    batch, new, context = points.T
    return Step((Group(batch, new, context),))


def analysed(
    source: ModelSource,
    batch: int = 1,
    new_tokens: int = 1,
    context: int = 1024,
    trace: bool = False,
    without: Collection[str] = (),
    **element_bytes: float,
) -> dict[str, Any]:
    """Every figure at specific values; context: tokens cached before the step.

    element_bytes: values of some of `BYTES`; the others follow each operator's formats.

    Raises:
        RidgelineError: as `open_model`; or values below 1 (context: 0) or beyond
            `static_table.LARGEST`, or bytes per element that no format has.
    """
    group = Group(
        checked_count("batch", batch),
        checked_count("new_tokens", new_tokens),
        checked_count("context", context, 0),
    )
    model, origin = open_model(source, trace=trace, without=without)
    step = Step((group,))
    graph = model.graph(step, Parallelism())
    counted: Figures = (
        (op, {name: scalar(getattr(op, name)) for name in FIGURES}) for op in graph.ops
    )
    if element_bytes:
        counted = _at_bytes(model, graph, step, _checked_bytes(element_bytes))
    rows: list[dict[str, Any]] = [
        {"name": op.name, "kind": op.kind, "count": op.count} | figures
        for op, figures in counted
        if op.operator_class != "collective"
    ]
    total = {name: sum(row[name] * row["count"] for row in rows) for name in FIGURES}
    values = {"batch": batch, "new_tokens": new_tokens, "context": context, **element_bytes}
    return {"name": model.name, "source": origin, **values, "operators": rows, "total": total}


def _checked_bytes(given: Mapping[str, float]) -> Mapping[str, float]:
    """Bytes per element, checked to be such as a format may have.

    Raises:
        InvalidValue: a symbol that is none of `BYTES`, or a value that no format has.
    """
    for symbol, value in given.items():
        if symbol not in BYTES or not 0.0 < value <= 8.0:
            raise InvalidValue(f"{symbol}: give {', '.join(BYTES)} above 0 and up to 8 bytes")
    return given


def graph_total(graph: Graph, figure: str, classes: Sequence[str] = ()) -> float:
    """The sum of a figure over all runs of a graph's operators, of `classes` only if given."""
    return sum(
        scalar(getattr(op, figure)) * op.count
        for op in graph.ops
        if not classes or op.operator_class in classes
    )
