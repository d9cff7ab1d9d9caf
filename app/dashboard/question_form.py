"""Controls of a question, drawn from the declarations of its parameters.

Each is bound to the address under the parameter's name, so that a link restores it.  Numbers are
typed as text, including "10k" and "1e6"; invalid text is refused with a sentence.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import streamlit as st

import hardware_db
from app.dashboard import name_options, near_names, phrases
from app.dashboard.page_texts import page_text
from app.question import groups, literals
from app.question.parameter import Parameter
from app.question.parameters import PARAMETERS, in_group
from genz_core.errors import InvalidValue

#: Shown for an empty text, whose value is left to the checkpoint or the engine.
AUTO = "as checkpoint"
PRECISIONS = ("bf16", "fp8", "fp8_block", "int8", "int4", "mxfp4", "nvfp4", "q8_0", "q4_k_m")
_DEGREES = ("tp", "pp", "dp", "ep")
_HELP: Mapping[str, str] = {
    "model": page_text("model"),
    "system": "Type to search; marketing names and names as printed by nvidia-smi work.",
    "engine": page_text("engine", more=PARAMETERS["engine"].help),
}
#: Groups of the drawer of controls, which are drawn when it is open or when they are in use.
DRAWER: Mapping[str, tuple[str, ...]] = {
    groups.FORMATS: ("kv", "moe_weights", "activations", "compute"),
    groups.DEGREES: (
        "pp", "dp", "ep", "moe_tp", "cp", "micro_batches", "sequence_parallel", "placement",
        "expert_imbalance", "redundant_experts", "overlap", "replicas", "router", "front_ends",
    ),
    groups.ENGINE: ("engine_version", *in_group(groups.ENGINE)),
    groups.CACHE: (
        *in_group(groups.CACHE), "host_cache_price", "disk_cache_price", "remote_cache_price",
    ),
    groups.DRAFTS: in_group(groups.DRAFTS),
    groups.LOAD: ("requests", "burst_start", "burstiness", "ramp_to", "ramp_s", "seed"),
    groups.LENGTHS: ("length_ratio", "length_spread"),
    groups.SHARED: in_group(groups.SHARED),
    groups.INPUTS: in_group(groups.INPUTS),
    groups.TARGETS: ("ttft_target_s", "tpot_target_s", "e2e_target_s"),
    groups.POOL: in_group(groups.POOL),
    groups.WHAT_IF: (*in_group(groups.WHAT_IF), "price"),
}  # fmt: skip


def controls() -> tuple[str, ...]:
    """Names of the parameters with a control in the sidebar."""
    in_view = ("model", "system", "engine", "weights", "tp", *phrases.NAMES)
    return (*in_view, *(name for group in DRAWER.values() for name in group))


def control(
    name: str, place: Any = st, label: str = "", options: Sequence[str] = (), **more: Any
) -> Any:
    """Draw the control of a parameter and return its value.

    place: Streamlit container.  options: texts to choose among if the parameter declares none.
     more: arguments of the widget that replace the defaults.
    """
    one = PARAMETERS[name]
    label = label or one.title
    common = {"key": name, "bind": "query-params", "help": _HELP.get(name, one.help), **more}
    options = options or _options(one)
    if one.kind == "truth":
        return place.toggle(label, **{"value": one.default, **common})
    if one.kind == "list" and options:
        return tuple(place.multiselect(label, options, **common))
    if not options:
        unit = f" [{one.unit}]" if one.unit and "[" not in label else ""
        given = {"value": _default_text(name), "placeholder": "default", "max_chars": 200, **common}
        text = str(place.text_input(f"{label}{unit}", **given) or "").strip()
        return literals.value(one, text) if text else one.default
    if name == "engine":
        options = (_blank(one), *options)
    if one.names:
        taking = {"on_change": near_names.take, "args": (name, name, options)}
        first = options.index(one.default) if one.default in options else 0
        common = {"index": first, **taking, **common}
    chosen = place.selectbox(label, options, accept_new_options=not one.choices, **common)
    return one.default if chosen is None else literals.value(one, _stated(one, str(chosen)))


def several(
    name: str, key: str, label: str, question: Any, options: Sequence[str] = (), **more: Any
) -> tuple[str, ...]:
    """Draw the box for several values of a parameter; returns the chosen ones.

    question: the sidebar's, whose value an empty box shows.  options, more: as for `control`.
    """
    one = PARAMETERS[name]
    options = options or _options(one)
    address = st.query_params.get_all(key)
    if any("," in text for text in address):  # "a,b,c" as well as "a" and "b" and "c"
        st.query_params[key] = literals.words(",".join(address))
        st.rerun()
    if one.names in ("model", "system"):
        more |= {
            "on_change": near_names.take, "args": (key, name, options),
            "accept_new_options": True, "filter_mode": name_options.FILTER, "select_all": False,
        }  # fmt: skip
    now = getattr(question, name) or _blank(one)
    usual = {"placeholder": f"as above: {now}", "help": _HELP.get(name, one.help)}
    chosen = st.multiselect(label, options, key=key, bind="query-params", **{**usual, **more})
    return tuple(_stated(one, str(each)) for each in chosen)


def _options(one: Parameter) -> Sequence[str]:
    """The texts to choose among for a parameter, as shown in its box; () if it is typed."""
    if one.name in _DEGREES:
        return ("1", "2", "4", "8", "16", "32", "64")
    if one.group == groups.FORMATS:
        return (AUTO, *PRECISIONS)
    named = {
        "model": name_options.models,
        "system": name_options.systems,
        "engine": hardware_db.engine_names,
    }
    if one.name in named:
        return named[one.name]()
    return tuple(choice or _blank(one) for choice in one.choices)


def _blank(one: Parameter) -> str:
    """The text shown for an empty value in a box of options."""
    return {"engine": "default"}.get(one.name, AUTO if one.group == groups.FORMATS else "none")


def _stated(one: Parameter, shown: str) -> str:
    """The parameter's text for an option as shown."""
    return "" if shown == _blank(one) and "none" not in one.choices else shown


def set_controls(values: Mapping[str, Any]) -> None:
    """Set the controls of some parameters; other values of the session are unchanged.

    Only before the controls are drawn, as in a callback.
    """
    phrases.set_texts(values)
    others = {name: value for name, value in values.items() if name not in phrases.NAMES}
    st.session_state.update({name: _shown(name, value) for name, value in others.items()})


def _shown(name: str, value: Any) -> Any:
    """A parameter's value in the form that its control stores."""
    one = PARAMETERS.get(name)
    if one is None or isinstance(value, bool):
        return value
    if isinstance(value, (list, tuple)):
        return list(value) if _options(one) else ", ".join(map(str, value))
    if value in (None, ""):
        return _default_text(name)
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def refused_in_address() -> list[str]:
    """The errors of all values in the address that their parameters refuse."""
    said = []
    for name in controls():
        text = st.query_params.get(name, "")
        try:
            if text:
                literals.value(PARAMETERS[name], _stated(PARAMETERS[name], text))
        except InvalidValue as error:
            said.append(str(error))
    return said


def drawer(
    changed: Mapping[str, Mapping[str, Any]] | None = None, *, opened: bool = True
) -> dict[str, Any]:
    """Draw the drawer's groups; returns the values of those that are open or in use.

    opened: whether the drawer is open; if not, only groups in use are drawn.  changed: arguments of
    single controls that replace the defaults, by parameter.
    """
    values: dict[str, Any] = {}
    in_use = {title: _in_use(names) for title, names in DRAWER.items()}
    if not (opened or any(in_use.values())):
        return values
    for title, names in DRAWER.items():
        key, used = f"{title.casefold().replace(' ', '_')}_open", in_use[title]
        kept = st.container()  # where no group is drawn, too: what follows never moves
        if not (used or opened):
            continue
        at_first = st.session_state.setdefault(f"{key}_at_first", used)
        place = kept.expander(title, at_first, key=key, on_change="rerun")
        if place.open or used:
            with place:
                values |= {name: control(name, **(changed or {}).get(name, {})) for name in names}
    return values


def _in_use(names: Iterable[str]) -> bool:
    """Whether the address or the session has a value for any of the parameters."""
    state, address = st.session_state, frozenset(st.query_params)
    usual = {name: _default_text(name) for name in names}
    return any(
        name in address or str(state.get(name, text)) != text for name, text in usual.items()
    )


@functools.cache
def _default_text(name: str) -> str:
    """The text of a parameter's default."""
    one = PARAMETERS[name]
    if one.kind == "truth":
        return str(one.default)
    if one.default in (None, "", ()):
        return _blank(one) if _options(one) else ""
    return f"{one.default:g}" if one.kind == "number" else str(one.default)
