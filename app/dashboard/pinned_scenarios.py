"""Scenarios pinned for comparison, stored as text in the address, so that a link restores them."""

import json
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import streamlit as st

from app.dashboard import phrases
from app.dashboard.page_texts import page_text
from app.question import literals
from app.scenario.setup import Setup, setup_from
from genz_core.errors import RidgelineError

MOST = 4


def pins_and_link() -> None:
    """Draw the sidebar's pin button, the text that holds the pins, and the address of the page."""
    with st.expander("Pins and link", icon=":material/keep:", key="pins_open"):
        pin_button("Pin this scenario", "pin", width="stretch")
        st.text_input("As text", key="pins", bind="query-params", help=page_text("pins"))
        _copy_link()


def _copy_link() -> None:
    """Draw the address of the page on one line, with the button that copies it."""
    chosen = st.query_params.to_dict()
    setup = st.session_state.get("setup")
    if isinstance(setup, Setup):
        chosen |= {name: literals.text(value) for name, value in phrases.off_default(setup).items()}
    address = str(st.context.url or "").partition("?")[0]
    query = f"?{urlencode(chosen)}" if chosen else ""
    with st.container(key="copy_link", gap=None):
        st.caption("Link to this view")
        st.code(f"{address}{query}", language=None)


def pin_button(label: str, key: str, **more: Any) -> None:
    """Draw a button that pins the sidebar's scenario, unless no more can be pinned."""
    full = len(pinned_scenarios()) >= MOST
    st.button(label, key=key, icon=":material/keep:", on_click=_pin, disabled=full, **more)


def _pin() -> None:
    setup = st.session_state.get("setup")
    if isinstance(setup, Setup):
        _save([*pinned_scenarios(), setup.changed()])
        count = len(pinned_scenarios())
        st.toast(f"Pinned: {count} of {MOST}. Page Compare shows them.", icon=":material/keep:")


def remove(place: int) -> None:
    """Unpin the scenario at `place` of the pins; a callback."""
    _save([pin for at, pin in enumerate(pinned_scenarios()) if at != place])


def clear() -> None:
    """Unpin all; a callback."""
    _save([])


def pinned_scenarios() -> list[dict[str, Any]]:
    """The pins that are valid scenarios, each as its non-default fields, at most `MOST`."""
    return parsed(st.session_state.get("pins") or "[]")


def parsed(text: str) -> list[dict[str, Any]]:
    """The pins in the text of an address; invalid ones are left out."""
    with suppress(ValueError, RecursionError):
        pins = json.loads(text)
        return [pin for pin in pins if is_scenario(pin)][:MOST] if isinstance(pins, list) else []
    return []


def is_scenario(changed: object) -> bool:
    """Whether a stored object has the fields of a scenario."""
    with suppress(RidgelineError):
        return isinstance(changed, dict) and bool(setup_from(changed))
    return False


def _save(pins: list[dict[str, Any]]) -> None:
    """Write the text; only from a callback, before the sidebar is drawn."""
    unique = [pin for at, pin in enumerate(pins) if pin not in pins[:at]]
    text = json.dumps(unique[:MOST], separators=(",", ":"), ensure_ascii=False)
    st.session_state["pins"] = text if unique else ""
