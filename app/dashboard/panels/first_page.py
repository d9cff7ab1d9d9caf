"""Below the answer, for a new visitor: three examples, the last scenarios, this machine."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import streamlit as st

from app.dashboard import phrases, visitor
from app.dashboard.pinned_scenarios import is_scenario
from app.dashboard.question_form import set_controls
from app.dashboard.uploads import REPORT_SAMPLES
from app.scenario.description import setup_words
from app.scenario.setup import Setup, setup_from
from app.wording.markdown import plain
from hardware_db.data_folder import data_folder, dated_files

_MOST = 3
_LONGEST = 20_000
#: The three examples: title, question, state of the widgets, page; "" for this one.
_EXAMPLES: tuple[tuple[str, str, Mapping[str, Any], str], ...] = (
    (
        "Predict",
        "TTFT and TPOT of gpt-oss-120b on one H200 under vLLM, for 64 users",
        {"model": "openai/gpt-oss-120b", "system": "h200-sxm-141gb", "engine": "vllm",
         "concurrency": 64, "isl": 1024, "osl": 1024, "tp": 1},
        "",
    ),
    (
        "Decide",
        "The cheapest deployment of Qwen3-32B for 20 requests per second",
        {"model": "Qwen/Qwen3-32B", "isl": 1024, "osl": 512, "rate": 20},
        "plan",
    ),
    (
        "Measure",
        "Where a step of Qwen1.5-0.5B on an H100 spends its time, from a trace",
        {"upload_samples": next(iter(REPORT_SAMPLES))},
        "upload",
    ),
)  # fmt: skip


def first_page(setup: Setup) -> None:
    """Draw the examples, unless this visitor dismissed them or has a scenario already."""
    address = st.session_state.setdefault("first_address", tuple(st.query_params))
    known = bool(phrases.off_default(setup)) or bool(address)
    if known or _kept().get("away"):
        return
    with st.container(border=True, key="first_page"):
        with st.grid(3, min_column_width=230):
            for title, question, state, page in _EXAMPLES:
                _example(title, question, state, page)
        _machines()
        _last_scenarios()
        st.button(
            "Do not show this again", on_click=_keep, args=({"away": True},), type="tertiary",
            key="first_page_away", icon=":material/close:",
        )  # fmt: skip


def _example(title: str, question: str, state: Mapping[str, Any], page: str) -> None:
    """Draw an example: a button if it is for this page, else a link that opens its page set up."""
    with st.container():
        st.markdown(f"**{title}**")
        st.caption(question)
        icon = ":material/arrow_forward:"
        if page:
            st.link_button(f"Show me: {title}", f"{page}?{urlencode(state)}", icon=icon)
        else:
            st.button(
                f"Show me: {title}", on_click=set_controls, args=(state,), key="example", icon=icon
            )


def _machines() -> None:
    """Draw a button for each system that was calibrated here."""
    names = [path.stem for path, _ in dated_files(data_folder(), "systems/*.yaml")][:_MOST]
    if names:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption("This machine, as calibrated:")
            for name in names:
                st.button(
                    name, on_click=set_controls, args=({"system": name},), key=f"machine_{name}"
                )


def _last_scenarios() -> None:
    """Draw a button for each of the visitor's last scenarios."""
    with st.container(horizontal=True, vertical_alignment="center"):
        for at, changed in enumerate(_scenarios()):
            words = " · ".join(map(plain, setup_words(setup_from(changed))))
            st.button(words, on_click=set_controls, args=(changed,), key=f"last_{at}",
                      type="tertiary", icon=":material/history:")  # fmt: skip


def remember(setup: Setup) -> None:
    """Store a scenario among the visitor's last ones, unless it is the default or a
    repeated one.
    """
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


# ------------------------------------------------------------------------------- kept


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
