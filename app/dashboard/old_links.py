"""Keys of addresses that earlier releases wrote, by the parameters that they are now."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from app.dashboard.question_form import set_controls
from app.question.parameters import PARAMETERS

#: The tab Simulate once had controls of its own for each parameter, page Plan for some.
OLD: Mapping[str, str] = {
    "sim_users": "concurrency",
    **{f"sim_{name}": name for name in PARAMETERS if name != "trace"},
    "plan_hits": "prefix_hits",
    "plan_lora_rank": "lora_rank",
}
_IN_PERCENT = ("plan_hits",)
_RENT = "plan_rent_"  # and the name of a system: its rent, in dollars an hour
_SAYS_NOTHING = ("none", "as decode", "")


def take() -> None:
    """Put the values of old keys into the controls of today; before any of them is drawn."""
    found = {key: st.query_params[key] for key in st.query_params if key in OLD}
    rents = {key: st.query_params[key] for key in st.query_params if key.startswith(_RENT)}
    for key in (*found, *rents):
        del st.query_params[key]
    values = {OLD[key]: _value(key, text) for key, text in found.items()}
    if rents:
        values["price"] = ",".join(f"{key.removeprefix(_RENT)}={rents[key]}" for key in rents)
    for name, value in values.items():
        if value not in _SAYS_NOTHING and name not in st.query_params:
            set_controls({name: value})


def _value(key: str, text: str) -> str | bool:
    """What an old key said, as the control of its parameter has it."""
    if PARAMETERS[OLD[key]].kind == "truth":
        return text.casefold() == "true"
    if key not in _IN_PERCENT:
        return text
    try:
        return f"{float(text) / 100:g}"
    except ValueError:
        return text  # refused by the control, as it was typed
