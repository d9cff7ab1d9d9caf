"""The four steps from a model to seconds as JSON documents, each made from the one before.

    arch      ridgeline arch MODEL --json          layers and operators
    modules   ridgeline modules populate -         a formula for every figure, in symbols
    ops       ridgeline ops - --batch-size ...     FLOPs and bytes of one step
    step      ridgeline estimate - --system ...    its seconds

Every document carries the checkpoint's config and number formats, so no later step needs to look up
a name.  Formulas are parsed from their text: a change made by hand changes the figure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from genz_core.errors import InvalidValue
from genz_core.graphs import Graph, Model, Op
from genz_core.models.model_wrapper import ModelAround
from genz_core.precision import bytes_of
from genz_core.types import Group, Parallelism, Precision, Step
from model_registry.finding.sources import ModelSource, find_checkpoint
from model_registry.graph.images import IDLE_TOWER, VISION
from model_registry.reports import symbolic

#: Value of "schema" in the document of each step.
SCHEMAS: Mapping[str, str] = {
    name: f"ridgeline/{name}/1" for name in ("arch", "modules", "ops", "step")
}
#: What a document passes on to the next step.
CARRIED = ("config", "formats", "trace", "without")
_COMMANDS = {
    "arch": "`ridgeline arch MODEL --json`",
    "modules": "`ridgeline modules populate -`",
    "ops": "`ridgeline ops - --json`",
}
#: Steps at which formulas are checked against counts: beyond windows, top-k limits and blocks.
_CHECKED = tuple(product((1.0, 3.0), (1.0, 5.0, 4097.0), (8.0, 1001.0, 40_000.0, 300_000.0)))
#: Fields of a group of the step, and numeric and text fields of an operator in an ops document.
GROUP = ("sequences", "new_tokens", "cached_tokens")
NUMBERS = (
    "flops", "weight_bytes", "input_bytes", "output_bytes", "kv_read_bytes", "kv_write_bytes",
    "held_weight_bytes", "held_kv_bytes", "message_bytes", "group", "stride", "repeat",
)  # fmt: skip
WORDS = ("name", "kind", "compute", "weights", "activations", "kv", "stage", "module")
_FORMATS = ("weights", "moe_weights", "kv", "activations", "compute")
_MOST_OPERATORS = 100_000


# ------------------------------------------------------------------------------- what is handed on


def carried(
    source: ModelSource, *, trace: bool = False, without: Collection[str] = (), **formats: str
) -> dict[str, Any]:
    """The part that all documents of a model share: its config and the options given for it.

    Raises:
        RidgelineError: as `find_checkpoint`.
    """
    checkpoint = find_checkpoint(source)
    config = {**checkpoint.config, "_id": checkpoint.name, "_source": checkpoint.origin}
    if checkpoint.quant is not None:
        config["hf_quant_config"] = checkpoint.quant
    asked = {**checkpoint.formats, **{name: fmt for name, fmt in formats.items() if fmt}}
    return {"config": config, "formats": asked, "trace": trace, "without": list(without)}


def document(text: str, *steps: str) -> dict[str, Any]:
    """The document of one of `steps`, parsed and checked for its config.

    Raises:
        InvalidValue: not JSON, or the document of another step; the message names the command that
            writes it.
    """
    from model_registry.finding.sources import json_object

    data = dict(json_object(text.strip() or "{}"))
    wanted = " or ".join(_COMMANDS[step] for step in steps)
    schema = data.get("schema")
    if schema not in [SCHEMAS[step] for step in steps]:
        raise InvalidValue(
            f"standard input has the schema {str(schema)[:40]!r}: pipe the output of {wanted}"
        )
    if not isinstance(data.get("config"), Mapping):
        raise InvalidValue(f"standard input has no config: pipe the output of {wanted}")
    for key, kind in {"formats": Mapping, "without": list, "trace": bool}.items():
        if not isinstance(data.setdefault(key, kind() if kind is not Mapping else {}), kind):
            raise InvalidValue(f"standard input: {key} must be a {kind.__name__}")
    return data


def reopened(data: Mapping[str, Any], **formats: str) -> tuple[Model, str]:
    """(model, "builder" or "trace") of a document; formats: replace those that it carries.

    Raises:
        RidgelineError: as `symbolic.open_model`.
    """
    asked = {str(name): str(fmt) for name, fmt in data["formats"].items() if name in _FORMATS}
    asked |= {name: fmt for name, fmt in formats.items() if fmt}
    without = [str(name) for name in data["without"]]
    return symbolic.open_model(data["config"], trace=data["trace"], without=without, **asked)


def _handed_on(data: Mapping[str, Any], step: str) -> dict[str, Any]:
    return {"schema": SCHEMAS[step], **{key: data[key] for key in CARRIED}}


# ------------------------------------------------------------------------------- arch, modules


def arch_document(
    source: ModelSource, *, trace: bool = False, without: Collection[str] = ()
) -> dict[str, Any]:
    """The first step: `symbolic.structure`, plus what the next steps need.

    Raises:
        RidgelineError: as `symbolic.structure`.
    """
    given = carried(source, trace=trace, without=without)
    structure = symbolic.structure(source, trace=trace, without=without)
    return {**structure, **_handed_on(given, "arch")}


def modules_document(data: Mapping[str, Any]) -> dict[str, Any]:
    """The second step: formulas of every operator of an arch document.

    "counted" names the figures that no single formula gives (windows, top-k, blocks of compressed
    caches, experts reached): the next step counts these from the config.
    """
    model, origin = reopened(data)
    named = symbolic.populated_of(model, origin)
    far = _counts_at_checked(model)
    for op, row in zip(far, named["operators"], strict=True):
        row["counted"] = [
            figure
            for figure, text in row["formulas"].items()
            if text is None or not _holds(text, op, figure)
        ]
    return {**named, **_handed_on(data, "modules"), "classes": _reviewed(data)}


def _counts_at_checked(model: Model) -> list[Op]:
    points = np.array(_CHECKED).T
    graph = model.graph(Step((Group(*points),)), Parallelism())
    return [op for op in graph.ops if op.operator_class != "collective"]


def _holds(text: str, op: Op, figure: str) -> bool:
    """Whether a formula gives an operator's figure at every step of `_CHECKED`."""
    formula = symbolic.parsed(text)
    counts = np.broadcast_to(np.asarray(getattr(op, figure), dtype=float), (len(_CHECKED),))
    return all(
        np.isclose(formula(_values(op, *point)), count, rtol=1e-9, atol=0.5)
        for point, count in zip(_CHECKED, counts, strict=True)
    )


def _values(op: Op, batch: float, new_tokens: float, context: float) -> dict[str, float]:
    """Values of all symbols at a step; bytes per element follow the operator's formats."""
    sizes = (batch, new_tokens, context)
    elements = map(bytes_of, (op.weights, op.activations, op.kv))
    return dict(zip((*symbolic.SYMBOLS, *symbolic.BYTES), (*sizes, *elements), strict=True))


def _reviewed(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Classes of the model that the module database has at its sizes, and who reviewed each."""
    from model_registry.modules import model_key
    from model_registry.modules.store import entries_of_model

    config = {key: value for key, value in data["config"].items() if not key.startswith("_")}
    entries = entries_of_model(model_key(config))
    return [{"module": entry.module, "validated": dict(entry.validated)} for entry in entries]


# ------------------------------------------------------------------------------- ops


def counted_graph(
    data: Mapping[str, Any], model: Model, step: Step, parallelism: Parallelism
) -> Graph:
    """The operators of a step, with figures from the document's formulas where it has them.

    Shapes, "counted" figures, several groups and more than one device are taken from the config.

    Raises:
        InvalidValue: invalid formulas, or formulas of other operators.
    """
    graph = model.graph(step, parallelism)
    rows = data.get("operators")
    if rows is None or len(step.groups) > 1 or np.any(np.asarray(parallelism.devices) > 1):
        return graph
    images = any(op.module.startswith(f"{VISION}.") for op in graph.ops)
    own = [op for op in graph.ops if _has_formulas(op)]
    if isinstance(rows, list) and images:  # the encoder runs, so no operator holds it idle
        rows = [row for row in rows if _name(row) != IDLE_TOWER]
    if not isinstance(rows, list) or [_name(row) for row in rows] != [op.name for op in own]:
        raise InvalidValue(
            "the operators on standard input are not those of the config that it carries: pipe "
            f"the output of {_COMMANDS['modules']}"
        )
    (group,) = step.groups
    sizes = tuple(
        float(np.ravel(value)[0])
        for value in (group.sequences, group.new_tokens, group.cached_tokens)
    )
    named = iter(rows)
    ops = (_by_formulas(op, next(named), sizes) if _has_formulas(op) else op for op in graph.ops)
    return replace(graph, ops=tuple(ops))


def _has_formulas(op: Op) -> bool:
    """Whether a modules document has formulas of an operator; those that read images have none."""
    return op.operator_class != "collective" and not op.module.startswith(f"{VISION}.")


def _name(row: Any) -> str:
    return str(row.get("name", "")) if isinstance(row, Mapping) else ""


def _by_formulas(op: Op, row: Mapping[str, Any], sizes: tuple[float, ...]) -> Op:
    formulas, counted = row.get("formulas", {}), row.get("counted", [])
    if not isinstance(formulas, Mapping) or not isinstance(counted, list):
        raise InvalidValue(f"{op.name}: formulas must be an object, counted a list")
    values = _values(op, *sizes)
    figures: dict[str, Any] = {
        figure: symbolic.parsed(str(text))(values)
        for figure, text in formulas.items()
        if text is not None and figure in symbolic.FIGURES and figure not in counted
    }
    return replace(op, **figures)


def ops_document(
    data: Mapping[str, Any], step: Step, graph: Graph, parallelism: Parallelism
) -> dict[str, Any]:
    """The third step: everything that prices the operators of one step."""
    groups = [
        {"sequences": number(g.sequences), "new_tokens": number(g.new_tokens),
         "cached_tokens": number(g.cached_tokens)}
        for g in step.groups
    ]  # fmt: skip
    return {
        **_handed_on(data, "ops"),
        "groups": groups,
        "tp": int(number(parallelism.tp)),
        "layer_count": graph.layers,
        "operators": [_written(op) for op in graph.ops],
    }


def _written(op: Op) -> dict[str, Any]:
    return {
        **{name: getattr(op, name) for name in WORDS},
        "forced": op.forced,
        "layers": list(op.layers),
        **{name: number(getattr(op, name)) for name in NUMBERS},
        "dims": {name: number(value) for name, value in op.dims.items()},
    }


def number(value: Any) -> float:
    """A number of a scalar step, which may be an array of one element."""
    return float(np.ravel(np.asarray(value, dtype=float))[0])


# ------------------------------------------------------------------------------- the priced step


@dataclass(frozen=True, slots=True)
class StatedModel(ModelAround):
    """A model whose step was counted before: its operators come from a document.

    tp: number of devices that the operators are split over.
    """

    stated: Graph
    groups: tuple[Group, ...]
    tp: int

    def with_precision(self, precision: Precision) -> StatedModel:
        """The same operators, with the formats that the document states."""
        return self

    def graph(self, step: Step, parallelism: Parallelism) -> Graph:
        """The operators of the document; for any other step, those of the model."""
        if step.groups == self.groups:
            return self.stated
        return self.model.graph(step, parallelism)


def stated_model(data: Mapping[str, Any]) -> StatedModel:
    """The model of an ops document, with the step that it states.

    Raises:
        InvalidValue: invalid operators or groups.
    """
    model, _ = reopened(data)
    try:
        rows = data["operators"]
        groups = tuple(Group(*(_positive(row[key]) for key in GROUP)) for row in data["groups"])
        ops = tuple(_read(rows))
        layers, tp = int(data["layer_count"]), int(data["tp"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidValue(
            f"standard input states no step ({error!r:.80}): pipe the output of {_COMMANDS['ops']}"
        ) from None
    if not groups or not ops or tp < 1:
        raise InvalidValue("standard input states no operators: give those of one step")
    return StatedModel(model, Graph(ops, layers), groups, tp)


def _positive(value: Any) -> float:
    number = float(value)
    if not 0.0 <= number <= 1e12:
        raise ValueError(f"{number:g} is not between 0 and 1e12")
    return number


def _read(rows: Any) -> Iterator[Op]:
    if len(rows) > _MOST_OPERATORS:
        raise ValueError(f"{len(rows)} operators; {_MOST_OPERATORS} at most")
    for row in rows:
        words: dict[str, Any] = {name: str(row[name]) for name in WORDS}
        numbers: dict[str, Any] = {name: float(row[name]) for name in NUMBERS}
        if not all(np.isfinite(number) and number >= 0.0 for number in numbers.values()):
            raise ValueError(f"{words['name']}: a figure is below 0 or not a number")
        dims = {str(name): float(value) for name, value in row["dims"].items()}
        layers = tuple(int(layer) for layer in row["layers"])
        yield Op(**words, **numbers, forced=bool(row["forced"]), dims=dims, layers=layers)
