"""Below the answer, for a new visitor: three examples, the last scenarios, this machine."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import streamlit as st

from app.dashboard import phrases, sidebar, visitor
from app.dashboard.pinned_scenarios import is_scenario
from app.dashboard.question_form import set_controls
from app.scenario.setup import Setup, setup_from
from hardware_db import yaml_document
from hardware_db.data_folder import data_folder, dated_files

_MOST = 3
_LONGEST = 20_000
#: The examples by title: question, state of the controls, and page, none for this one.
_EXAMPLES = yaml_document.read(Path(__file__).parents[2] / "samples" / "examples.yaml")


def first_page(setup: Setup) -> None:
    """Draw the examples, unless this visitor dismissed them or has a scenario already."""
    address = st.session_state.setdefault("first_address", tuple(st.query_params))
    known = bool(phrases.off_default(setup)) or bool(address)
    if known or _kept().get("away"):
        return
    with st.container(border=True, key="first_page"):
        with st.grid(3, min_column_width=230):
            for title, one in _EXAMPLES.items():
                _example(title, one)
        _machines()
        _last_scenarios()
        st.button(
            "Do not show this again", on_click=_keep, args=({"away": True},), type="tertiary",
            key="first_page_away", icon=":material/close:",
        )  # fmt: skip


def _example(title: str, one: Mapping[str, Any]) -> None:
    """Draw an example: a button if it is for this page, else a link that opens its page set up."""
    with st.container():
        st.markdown(f"**{title}**")
        st.caption(one["question"])
        label, icon, state = f"Show me: {title}", ":material/arrow_forward:", one["state"]
        if "page" in one:
            st.link_button(label, f"{one['page']}?{urlencode(state)}", icon=icon)
        else:
            st.button(label, on_click=set_controls, args=(state,), key="example", icon=icon)


def _machines() -> None:
    names = [path.stem for path, _ in dated_files(data_folder(), "systems/*.yaml")][:_MOST]
    if names:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption("This machine, as calibrated:")
            for name in names:
                st.button(
                    name, on_click=set_controls, args=({"system": name},), key=f"machine_{name}"
                )


def _last_scenarios() -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        for at, changed in enumerate(_scenarios()):
            words = sidebar.describe(setup_from(changed))
            st.button(words, on_click=set_controls, args=(changed,), key=f"last_{at}",
                      type="tertiary", icon=":material/history:")  # fmt: skip


def remember(setup: Setup) -> None:
    """Store a scenario among the visitor's last ones, unless it is the default or was the last."""
    changed = phrases.off_default(setup)
    before = _scenarios()
    if not changed or (before and before[0] == changed):
        return
    alike = ("model", "system", "engine")  # moving a slider makes one scenario
    others = [one for one in before if any(one.get(k) != changed.get(k) for k in alike)]
    _keep({"scenarios": [changed, *others][:_MOST]})


def _scenarios() -> list[dict[str, Any]]:
    found = _kept().get("scenarios", [])
    return [one for one in found if is_scenario(one)] if isinstance(found, list) else []


def _file() -> Path:
    return (visitor.own_folder() or data_folder()) / "first_page.json"


def _kept() -> dict[str, Any]:
    """The stored data of this visitor; empty if the file cannot be read."""
    with suppress(OSError, ValueError, RecursionError):
        text = _file().read_text(encoding="utf-8")
        found = json.loads(text) if len(text) < _LONGEST else {}
        return found if isinstance(found, dict) else {}
    return {}


def _keep(changes: Mapping[str, Any]) -> None:
    with suppress(OSError):
        _file().parent.mkdir(parents=True, exist_ok=True)
        _file().write_text(json.dumps({**_kept(), **changes}), encoding="utf-8")
