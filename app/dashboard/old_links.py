"""Keys of addresses that earlier releases wrote, by the parameters that they are now."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from app.dashboard.question_form import set_controls
from app.question.parameters import PARAMETERS

#: The tab Simulate once had controls of its own for each parameter.
OLD: Mapping[str, str] = {
    "sim_users": "concurrency",
    **{f"sim_{name}": name for name in PARAMETERS if name != "trace"},
}
_SAYS_NOTHING = ("none", "as decode", "")


def take() -> None:
    """Put the values of old keys into the controls of today; before any of them is drawn."""
    for key in [key for key in st.query_params if key in OLD]:
        name, value = OLD[key], st.query_params[key]
        del st.query_params[key]
        truth = PARAMETERS[name].kind == "truth"
        if value not in _SAYS_NOTHING and name not in st.query_params:
            set_controls({name: value.casefold() == "true" if truth else value})
