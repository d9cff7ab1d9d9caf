"""JSON schemas (draft 2020-12) of the documents that `step_documents` makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genz_core.errors import UnknownName
from model_registry.reports import step_documents, symbolic

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ADDRESS = "urn:ridgeline:schema:{}:1"
_TEXT, _TRUTH = {"type": "string"}, {"type": "boolean"}
_POSITIVE = {"type": "number", "minimum": 0}
_COUNT = {"type": "integer", "minimum": 0}
_TEXTS = {"type": "array", "items": _TEXT}
_NUMBERS = {"type": "object", "additionalProperties": {"type": "number"}}


def _object(fields: Mapping[str, Any], *, open_: bool = False, optional: Any = ()) -> Any:
    """An object with all of these fields, except optional ones, and with no others unless open."""
    needed = [name for name in fields if name not in optional]
    return {
        "type": "object", "properties": dict(fields), "required": needed,
        "additionalProperties": open_,
    }  # fmt: skip


def _list(items: Any) -> Any:
    return {"type": "array", "items": items}


_CARRIED = {
    "config": {
        "type": "object", "description": "The model's config.json, with _id and _source.",
        "required": ["_id", "_source"],
    },
    "formats": {"type": "object", "additionalProperties": _TEXT,
                "description": "Number formats in place of the checkpoint's."},
    "trace": _TRUTH,
    "without": _TEXTS,
}  # fmt: skip
_OPERATOR = {
    "name": _TEXT, "kind": _TEXT, "module": _TEXT, "repeat": _POSITIVE, "weights": _TEXT,
    "held_weight_bytes": _POSITIVE, "dims": _NUMBERS,
}  # fmt: skip
_ORIGIN = {"name": _TEXT, "source": {"enum": ["builder", "trace"]}}


def _arch() -> dict[str, Any]:
    return {
        **_ORIGIN,
        "parameters": _POSITIVE, "active_parameters": _POSITIVE,
        "max_context": {"type": ["integer", "null"]}, "layer_count": _COUNT,
        "precision": {"type": "object"},
        "layers": _list(_object({
            "indices": _list(_COUNT), "count": _COUNT, "operators": _list(_object(_OPERATOR)),
        })),
        "notes": _TEXTS,
    }  # fmt: skip


def _modules() -> dict[str, Any]:
    formula = {"type": ["string", "null"]}
    return {
        **_ORIGIN,
        "symbols": {"type": "array",
                    "items": {"enum": [*symbolic.SYMBOLS, *symbolic.BYTES]}},
        "operators": _list(_object({
            "name": _TEXT, "kind": _TEXT, "count": _POSITIVE,
            "bytes": {"type": "object", "additionalProperties": _POSITIVE},
            "formulas": _object(dict.fromkeys(symbolic.FIGURES, formula)),
            "counted": {"type": "array", "items": {"enum": list(symbolic.FIGURES)}},
        })),
        "classes": _list(_object({"module": _TEXT, "validated": {"type": "object"}})),
    }  # fmt: skip


def _ops() -> dict[str, Any]:
    words = dict.fromkeys(step_documents.WORDS, _TEXT)
    numbers = dict.fromkeys(step_documents.NUMBERS, _POSITIVE)
    more = {"forced": _TRUTH, "layers": _list(_COUNT), "dims": _NUMBERS}
    query = {"type": "array", "items": _POSITIVE, "minItems": 2, "maxItems": 2}
    sizes = ("weight_bytes", "input_bytes", "output_bytes", "kv_bytes")
    row = _object({
        "node": _TEXT, "kind": _TEXT, "blocks": _COUNT, "of_blocks": _COUNT, "flops": _POSITIVE,
        **dict.fromkeys(sizes, _POSITIVE), "repeat": _POSITIVE, "flops_per_byte": _POSITIVE,
    })  # fmt: skip
    storage = ("weights", "kv_cache", "inactive_experts", "embedding_table", "total")
    return {
        "groups": _list(_object(dict.fromkeys(step_documents.GROUP, _POSITIVE))),
        "tp": {"type": "integer", "minimum": 1}, "layer_count": _COUNT,
        "operators": _list(_object({**words, **numbers, **more})),
        "model": _TEXT, "queries": _list(query), "batch_size": _COUNT, "rows": _list(row),
        "total": row, "storage": _object(dict.fromkeys(storage, _POSITIVE)), "notes": _TEXTS,
    }  # fmt: skip


def _step() -> dict[str, Any]:
    parts = ("compute", "tiles", "memory", "bandwidth", "communication", "links", "launch", "host",
             "pipeline")  # fmt: skip
    operator = {
        "name": _TEXT, "kind": _TEXT, "class": _TEXT, "module": _TEXT, "runs": _POSITIVE,
        "flops": _POSITIVE, "bytes": _POSITIVE, "bound_s": _POSITIVE, "predicted_s": _POSITIVE,
        "bound": {"enum": ["compute", "memory", "communication", "overhead"]},
    }  # fmt: skip
    return {
        "model": _TEXT, "system": _TEXT, "engine": _TEXT, "sequences": _COUNT, "tokens": _COUNT,
        "step_s": _POSITIVE, "bound_step_s": _POSITIVE,
        **{f"{part}_s": _POSITIVE for part in parts}, "not_validated": _TEXT,
        "operators": _list(_object(operator, open_=True)),
    }  # fmt: skip


_OWN = {"arch": _arch, "modules": _modules, "ops": _ops, "step": _step}
_TITLES = {
    "arch": "Layers and operators of a model: `ridgeline arch MODEL --json`.",
    "modules": "Formulas of a model's operators: `ridgeline modules populate`.",
    "ops": "FLOPs and bytes of one step: `ridgeline ops MODEL --json`.",
    "step": "Seconds of one step: `ridgeline estimate - --json`.",
}
#: Keys that a hand-written ops document may omit: the static table, which is not priced.
_TABLE = ("model", "queries", "batch_size", "rows", "total", "storage", "notes")


def schema(name: str) -> dict[str, Any]:
    """The JSON schema of a document: "arch", "modules", "ops" or "step".

    Raises:
        UnknownName: there is no such document.
    """
    if name not in _OWN:
        raise UnknownName("schema", name, list(_OWN), f"Documents: {', '.join(_OWN)}.")
    handed_on = {} if name == "step" else _CARRIED
    fields = {"schema": {"const": step_documents.SCHEMAS[name]}, **handed_on, **_OWN[name]()}
    return {
        "$schema": _DIALECT, "$id": _ADDRESS.format(name), "title": _TITLES[name],
        **_object(fields, optional=_TABLE if name == "ops" else ()),
    }  # fmt: skip


def names() -> list[str]:
    """The documents that have a schema, in the order in which they are made from one another."""
    return list(_OWN)
