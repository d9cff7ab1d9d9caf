"""Controls of a question, drawn from the declarations of its parameters.

Each is bound to the address under the parameter's name, so that a link restores it.  Numbers are
typed as text, "10k" and "1e6" among them; what cannot be is refused in a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import streamlit as st

from app.question import groups, typed
from app.question.parameter import Parameter
from app.question.parameters import PARAMETERS, in_group

#: What stands for a text that is left to the checkpoint or the engine.
AUTO = "as checkpoint"
#: The engine that the defaults name, in the box of engines.
DEFAULT_ENGINE = "default"
PRECISIONS = ("bf16", "fp8", "fp8_block", "int8", "int4", "mxfp4", "nvfp4", "q8_0", "q4_k_m")
DEGREES = ("1", "2", "4", "8", "16", "32", "64")
_DEGREES = ("tp", "pp", "dp", "ep")
#: Groups of the drawer: what it holds beside what stands in view, drawn when opened or in use.
DRAWER: Mapping[str, tuple[str, ...]] = {
    groups.FORMATS: ("kv", "moe_weights", "activations", "compute"),
    groups.DEGREES: (
        "moe_tp", "cp", "micro_batches", "sequence_parallel", "placement", "expert_imbalance",
        "redundant_experts", "overlap", "replicas", "router",
    ),
    groups.ENGINE: in_group(groups.ENGINE),
    groups.DRAFTS: in_group(groups.DRAFTS),
    groups.LENGTHS: ("length_ratio", "length_spread"),
    groups.SHARED: in_group(groups.SHARED),
    groups.INPUTS: in_group(groups.INPUTS),
    groups.WHAT_IF: (
        *in_group(groups.WHAT_IF), "price",
    ),
}  # fmt: skip


def controls() -> tuple[str, ...]:
    """The parameters that the sidebar has a control for."""
    in_view = ("model", "system", "engine", "engine_version", "weights", *_DEGREES, "batch", "isl",
               "osl")  # fmt: skip
    return (*in_view, *(name for group in DRAWER.values() for name in group))


def control(name: str, place: Any = st, label: str = "", **more: Any) -> Any:
    """Draw the control of a parameter and return its value.

    place: where it stands.  more: arguments of the widget in place of the usual.

    Raises:
        InvalidValue: the text in it is no value of the parameter.
    """
    one = PARAMETERS[name]
    label = label or one.label or one.name.replace("_", " ").capitalize()
    common = {"key": name, "bind": "query-params", "help": one.help, **more}
    if one.kind == "truth":
        return place.toggle(label, one.default, **common)
    if one.group == groups.FORMATS:
        options = {"accept_new_options": True, **common}
        chosen = place.selectbox(label, (AUTO, *PRECISIONS), **options)
        return "" if chosen == AUTO else str(chosen)
    if name in _DEGREES:
        chosen = place.selectbox(label, DEGREES, accept_new_options=True, **common)
        return typed.value(one, str(chosen))
    if one.choices:
        shown = [choice or "none" for choice in one.choices]
        chosen = place.selectbox(label, shown, **common)
        return "" if chosen == "none" and "" in one.choices else chosen
    return _from_text(one, label, place, common)


def set_controls(values: Mapping[str, Any]) -> None:
    """Put values of parameters into their controls; others of the session as they are.

    Only before the controls are drawn, as in a callback.
    """
    st.session_state.update({name: _shown(name, value) for name, value in values.items()})


def _shown(name: str, value: Any) -> Any:
    """A parameter's value as its control holds it."""
    one = PARAMETERS.get(name)
    if one is None or isinstance(value, bool):
        return value
    if value in (None, ""):
        return DEFAULT_ENGINE if name == "engine" else _text(one)
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def drawer(changed: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """Draw the groups that are not in view; returns the values of those that are open or in use.

    changed: arguments of single controls in place of the usual, by parameter.

    Raises:
        InvalidValue: as `control`.
    """
    values: dict[str, Any] = {}
    for title, names in DRAWER.items():
        key = f"{title.casefold().replace(' ', '_')}_open"
        used = _in_use(names)
        at_first = st.session_state.setdefault(f"{key}_at_first", used)
        place = st.expander(title, at_first, key=key, on_change="rerun")
        if place.open or used:
            with place:
                values |= {name: control(name, **(changed or {}).get(name, {})) for name in names}
    return values


def _in_use(names: Iterable[str]) -> bool:
    """Whether the address or the session has a value of one of the parameters."""
    state, address = st.session_state, st.query_params
    return any(
        name in address or str(state.get(name, _text(PARAMETERS[name]))) != _text(PARAMETERS[name])
        for name in names
    )


def _from_text(one: Parameter, label: str, place: Any, common: Mapping[str, Any]) -> Any:
    unit = f" [{one.unit}]" if one.unit and "[" not in label else ""
    given = {"placeholder": "default", "max_chars": 200, **common}
    text = str(place.text_input(f"{label}{unit}", _text(one), **given) or "").strip()
    return typed.value(one, text) if text else one.default


def _text(one: Parameter) -> str:
    """The text of a default."""
    if one.kind == "truth":
        return str(one.default)
    if one.default in (None, "", ()):
        return AUTO if one.group == groups.FORMATS else "none" if one.choices else ""
    return f"{one.default:g}" if one.kind == "number" else str(one.default)
