"""Formulas of a class: exact polynomials fitted to its counts at several sizes."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from genz_core.errors import InvalidValue, UnsupportedModel
from model_registry.modules import calls, costs
from model_registry.modules.entry import FIGURES, ChildModule, ModuleEntry
from model_registry.modules.polynomial import Polynomial, fit_grid
from model_registry.modules.store import model_key
from model_registry.tracing.capture import record_module, record_pass
from model_registry.tracing.meta_model import build_on_meta, quiet, require_torch
from model_registry.tracing.records import DispatchedOp

Sizes = Mapping[str, int]
_PACKAGES = ("torch.nn.", "transformers.")


def derive_class(called: str, inputs: str = "") -> ModuleEntry:
    """The entry of one class: `torch.nn.SiLU`, `torch.nn.Linear(d, 4*d, bias=False)`, or a class of
    transformers.

    called: with constructor arguments, which are numbers and symbols with arithmetic between them;
    without any, symbols are named after the arguments that the constructor needs.
    inputs: shapes instead of the usual ones, see `calls.read`.

    Raises:
        InvalidValue: no such class, one outside torch.nn and transformers, or arguments that it
            does not have.
        UnsupportedModel: a class that cannot run, or whose counts are not a polynomial
            of its sizes.
    """
    path, typed = calls.split(called)
    kind = _class(path)
    if path.startswith("transformers."):
        if typed is not None:
            raise InvalidValue(
                f"{path} takes its sizes from a config: give them as one, with --model CONFIG"
            )
        return _of_default_model(path)
    call = calls.read(kind, path, typed, inputs)
    symbols = call.symbols
    points = list(product(*calls.axes(call, symbols)))
    runs, held = [], []
    for point in points:
        records, size = _run(kind, call, dict(zip(symbols, point, strict=True)))
        runs.append(records)
        held.append(float(size))
    formulas = _formulas(called, symbols, points, runs)
    if memory := fit_grid(symbols, points, held, 3):
        formulas["held_bytes"] = memory
    return ModuleEntry(
        module=path if typed is None else called,
        source=_source(kind),
        symbols=symbols,
        formulas=formulas,
        operators=costs.operator_counts(runs[0]),
    )


def _class(class_path: str) -> Any:
    """The class at a path in torch.nn or transformers; no other package is imported.

    Raises:
        InvalidValue: no such class, or a path outside of both.
    """
    if not class_path.startswith(_PACKAGES):
        raise InvalidValue(
            f"{class_path!r} is neither under torch.nn nor under transformers; "
            "give a path such as torch.nn.modules.activation.SiLU, or a model with --model"
        )
    require_torch()
    import torch

    where, _, name = class_path.rpartition(".")
    try:
        kind = getattr(importlib.import_module(where), name)
    except (ImportError, AttributeError, ValueError):
        raise InvalidValue(f"there is no class {class_path!r} in this installation") from None
    if not (inspect.isclass(kind) and issubclass(kind, torch.nn.Module)):
        raise InvalidValue(f"{class_path!r} is not a torch module")
    return kind


def _run(kind: Any, call: calls.Call, sizes: Sizes) -> tuple[list[DispatchedOp], int]:
    """(records, bytes of weights) of a class at sizes of its symbols, in 16 bit."""
    import torch

    try:
        with torch.device("meta"), quiet(), _written_out():
            module = call.make(kind, sizes).to(torch.bfloat16).eval()
            dtype = torch.long if kind.__name__ in calls.WHOLE else torch.bfloat16
            given = [torch.zeros(shape, dtype=dtype) for shape in call.shapes(sizes)]
            records = record_module(module, *given)
    except (TypeError, RuntimeError, ValueError, NotImplementedError, AssertionError) as error:
        if isinstance(error, InvalidValue):
            raise
        said = (str(error).splitlines() or ["no reason given"])[0][:120]
        raise UnsupportedModel(
            f"{kind.__name__} cannot be run alone ({said}); give its arguments, its inputs with "
            "--inputs, or derive it within a model: ridgeline modules derive --model MODEL"
        ) from None
    stored = (*module.parameters(), *module.buffers())
    return records, sum(one.numel() * costs.ELEMENT_BYTES for one in stored)


@contextmanager
def _written_out() -> Iterator[None]:
    """Attention as its separate operators, not as one fused operator."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _formulas(
    name: str,
    symbols: tuple[str, ...],
    points: Sequence[tuple[int, ...]],
    runs: list[list[DispatchedOp]],
) -> dict[str, Polynomial]:
    """The formulas of a class from a run at each point.

    Raises:
        UnsupportedModel: its FLOPs are not a polynomial of the symbols.
    """
    formulas = _fitted(symbols, points, [costs.figures(records) for records in runs])
    if "flops" not in formulas:
        raise UnsupportedModel(f"the counts of {name} are not a polynomial of its sizes")
    return formulas


def _fitted(
    symbols: tuple[str, ...], points: Sequence[tuple[int, ...]], counted: list[dict[str, float]]
) -> dict[str, Polynomial]:
    """{figure: polynomial} of the figures that are polynomials; those of experts' weights
    are not.
    """
    degree = 2 if "context" in symbols else 3
    fits = {
        figure: fit_grid(symbols, points, [figures[figure] for figures in counted], degree)
        for figure in FIGURES
    }
    return {figure: fitted for figure, fitted in fits.items() if fitted is not None}


def _source(kind: Any) -> str:
    """File and line of a class below its package, and the package's version."""
    try:
        file, line = inspect.getsourcefile(kind), inspect.getsourcelines(kind)[1]
    except (OSError, TypeError):
        return kind.__module__
    parts = Path(file or "").parts
    package = kind.__module__.partition(".")[0]
    below = parts[parts.index(package) :] if package in parts else parts[-1:]
    version = str(importlib.import_module(package).__version__).partition("+")[0]
    return f"{'/'.join(below)}:{line} ({package} {version})"


# ------------------------------------------------------------------------------- within a model

_MODEL_SYMBOLS = ("batch", "new_tokens", "context")
_MODEL_AXES = ((1, 2), (1, 2, 3, 4, 5), (4, 8, 12))


def derive_model(config: Mapping[str, Any]) -> list[ModuleEntry]:
    """Entries of every module class inside the layers of a model, at the model's sizes.

    config: a Hugging Face config.json.

    Raises:
        RidgelineError: as `tracing.building.build_on_meta`.
    """
    instance = build_on_meta(config)
    points = list(product(*_MODEL_AXES))
    with quiet():
        runs = [_layers(instance.model, *point) for point in points]
    sizes = {"model": model_key(config), "model_type": instance.model.config.model_type}
    entries: dict[str, ModuleEntry] = {}
    for path, name in _paths(instance.model, runs[0]).items():
        if name not in entries:
            entry = _within(instance.model, path, name, points, runs)
            if entry is not None:
                entries[name] = replace(entry, sizes={**sizes, "path": path})
    return list(entries.values())


def module_classes(config: Mapping[str, Any]) -> list[str]:
    """Full paths of the module classes that a model's layers run, in alphabetical order.

    Raises:
        RidgelineError: as `tracing.building.build_on_meta`.
    """
    instance = build_on_meta(config)
    with quiet():
        classes = _paths(instance.model, _layers(instance.model, 1, 1, 4))
    return sorted(set(classes.values()))


def _layers(model: Any, batch: int, new_tokens: int, context: int) -> list[DispatchedOp]:
    """Records of the layers, and of the rotary embedding before them, for `new_tokens` after
    `context` cached tokens.
    """
    _, cache = record_pass(model, batch, context)
    segments, _ = record_pass(model, batch, new_tokens, cache)
    return [
        record
        for segment in segments
        for record in segment.records
        if segment.layers or _is_rotary(record.path)
    ]


def _is_rotary(path: str) -> bool:
    return "rotary" in path.rpartition(".")[2].lower()


def _paths(model: Any, records: list[DispatchedOp]) -> dict[str, str]:
    """{path: class} of the modules that ran, inner ones first."""
    paths: set[str] = set()
    for record in records:
        steps = record.path.split(".")
        paths |= {".".join(steps[:end]) for end in range(1, len(steps) + 1)}
    modules = dict(model.named_modules())
    ordered = sorted((p for p in paths if p in modules), key=lambda p: (-p.count("."), p))
    inner = [p for p in ordered if any(c.isdigit() for c in p) or _is_rotary(p)]
    return {
        p: _path_of(type(modules[p])) for p in inner if "ModuleList" not in str(type(modules[p]))
    }


def _path_of(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _inside(records: list[DispatchedOp], path: str) -> list[DispatchedOp]:
    return [r for r in records if r.path == path or r.path.startswith(path + ".")]


def _within(
    model: Any,
    path: str,
    name: str,
    points: Sequence[tuple[int, ...]],
    runs: list[list[DispatchedOp]],
) -> ModuleEntry | None:
    module = model.get_submodule(path)
    counted = [costs.figures(_inside(records, path)) for records in runs]
    formulas = _fitted(_MODEL_SYMBOLS, points, counted)
    single: dict[str, Polynomial] = {}
    if "flops" not in formulas:  # recurrences take another code path for a single token
        one = [at for at, point in enumerate(points) if point[1] == 1]
        more = [at for at, point in enumerate(points) if point[1] > 1]
        several = _fitted(_MODEL_SYMBOLS, [points[at] for at in more], [counted[at] for at in more])
        if "flops" in several:
            formulas = several
            single = _fitted(
                _MODEL_SYMBOLS, [points[at] for at in one], [counted[at] for at in one]
            )
    if not formulas:
        return None
    return ModuleEntry(
        module=name,
        source=_source(type(module)),
        symbols=_MODEL_SYMBOLS,
        formulas=formulas,
        single=single,
        parameters=float(sum(p.numel() for p in module.parameters())),
        children=_children(module),
        operators=costs.operator_counts(_inside(runs[0], path)),
    )


def _children(module: Any) -> tuple[ChildModule, ...]:
    """Direct children; a list of equal modules is one child with their count."""
    children: list[ChildModule] = []
    for name, child in module.named_children():
        if type(child).__name__ == "ModuleList" and len(child):
            children.append(ChildModule(name, _path_of(type(child[0])), len(child)))
        else:
            children.append(ChildModule(name, _path_of(type(child)), 1))
    return tuple(children)


def _of_default_model(class_path: str) -> ModuleEntry:
    """The entry of a class of transformers, at its model's default config."""
    parts = class_path.split(".")
    if len(parts) < 5 or parts[1] != "models":
        raise InvalidValue(
            f"{class_path!r} belongs to no model; give a path such as "
            "transformers.models.llama.modeling_llama.LlamaMLP"
        )
    for entry in derive_model({"model_type": parts[2]}):
        if entry.module == class_path:
            return entry
    raise UnsupportedModel(
        f"no layer of the default {parts[2]} config runs {parts[-1]}; "
        "derive it from a model's config"
    )
