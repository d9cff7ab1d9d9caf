"""Validation errors of a document in one sentence: the key, its value, what is expected."""

from __future__ import annotations

import difflib
from typing import Any, get_args

from pydantic import BaseModel, ValidationError


def sentence(error: ValidationError, label: str, form: type[BaseModel]) -> str:
    """The first validation error of a document as a sentence, with the number of further ones.

    label: name of the document.  form: its schema.
    """
    complaints = error.errors(include_url=False)
    # Unknown keys first, because a missing key is often a misspelt one.
    first = min(complaints, key=lambda item: item["type"] != "extra_forbidden")
    more = f" (and {len(complaints) - 1} more)" if len(complaints) > 1 else ""
    return f"{label}: {_complaint(dict(first), form)}{more}"


def _complaint(item: dict[str, Any], form: type[BaseModel]) -> str:
    """A validation error of pydantic as a sentence."""
    path = ".".join(_printable(part) for part in item["loc"] if part != "[key]")
    kind, value = item["type"], item.get("input")
    if kind == "extra_forbidden":
        return _unknown_key(path, form, item["loc"])
    if kind == "missing":
        return _missing(path)
    if kind in ("model_type", "model_attributes_type"):
        keys = list(_form_at(form, item["loc"]).model_fields)
        return f"{path} is {_short(value)}; give a mapping of {', '.join(keys)}"
    if kind == "value_error":
        reason = item["msg"].removeprefix("Value error, ")
        return f"{path}: {reason}" if path else reason
    return f"{path} is {_short(value)}: {item['msg'][0].lower()}{item['msg'][1:]}"


def _printable(part: Any) -> str:
    """A key unchanged, or quoted if it contains characters that break a line."""
    text = str(part)
    return text if text.isprintable() else repr(text)


def _missing(path: str) -> str:
    last = path.rpartition(".")[2]
    if last in ("value", "source", "kind"):
        return f"{path} is missing: every number needs value, source and kind"
    return f"{path} is missing"


def _unknown_key(path: str, form: type[BaseModel], loc: tuple[Any, ...]) -> str:
    keys = list(_form_at(form, loc[:-1]).model_fields)
    near = difflib.get_close_matches(str(loc[-1]), keys, n=3, cutoff=0.4)
    hint = f"near: {', '.join(near)}" if near else f"known here: {', '.join(keys)}"
    return f"unknown key {path!r}; {hint}"


def _form_at(form: type[BaseModel], loc: tuple[Any, ...]) -> type[BaseModel]:
    """Schema at a place in a document; inside a free mapping, the schema of that mapping."""
    for part in loc:
        field = form.model_fields.get(str(part))
        inner = _model_in(field.annotation) if field is not None else None
        form = inner or form
    return form


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Schema inside an annotation such as `Annotated[Fact, ...] | None`; None if there is none."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    models = (_model_in(part) for part in get_args(annotation))
    return next((model for model in models if model is not None), None)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
