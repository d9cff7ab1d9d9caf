"""The button that contacts the Hugging Face hub for a model; no other part of the
dashboard does.
"""

from __future__ import annotations

import json

import streamlit as st

from app.dashboard import own_definitions
from app.wording.markdown import plain
from genz_core.errors import RidgelineError
from model_registry.finding.hub import hub_id
from model_registry.finding.sources import hub_config, shipped_page

_ERROR = "hub_error"


def ask_button(model: str) -> None:
    """Draw the button if `model` is a hub address whose config is not cached.

    Raises:
        InvalidValue: it begins like an address but is invalid.
    """
    if hub_id(model) is None or shipped_page(model) or own_definitions.config_of(model):
        return
    st.button(
        "Ask the Hugging Face hub", on_click=_ask, args=(model,), key="ask_hub", width="stretch",
        icon=":material/cloud_download:",
        help="Fetches the model's config.json, a few kilobytes; it stays for this session.",
    )  # fmt: skip
    asked, message = st.session_state.get(_ERROR, ("", ""))
    if asked == model:
        st.error(plain(message), icon=":material/error:")


def _ask(model: str) -> None:
    """Fetch the config of a hub address and store it, or the error, for the session; a callback."""
    try:
        config = hub_config(str(hub_id(model)))
        own_definitions.own_texts("models")[model] = json.dumps(config)
    except RidgelineError as error:
        st.session_state[_ERROR] = model, str(error)
