"""Facts about what ran, with the possible values of an uncertain fact as buttons."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from app.dashboard.question_form import set_controls
from app.measuring.identity import Known, rows
from app.question.parameters import PARAMETERS
from app.wording.markdown import plain

#: Most candidates of a fact that are drawn.
_MOST = 6


def to_sidebar(name: str, value: str) -> None:
    """Put a candidate into the sidebar's control of its parameter."""
    set_controls({name: value})


def show_identity(
    facts: Sequence[Known], key: str, choose: Callable[[str, str], None] | None = None
) -> None:
    """Draw the facts about what ran.

    key: of its buttons.  choose: called with the name of a parameter and the clicked candidate
    before the page is redrawn; None if there is nothing to set.
    """
    unsure = [one for one in facts if one.certainty != "certain"]
    counts = ", ".join(
        f"{sum(one.certainty == name for one in facts)} {name}"
        for name in ("certain", "likely", "unknown")
    )
    with st.expander(f"What ran: {counts}", icon=":material/fingerprint:"):
        st.table([{name: plain(text) for name, text in row.items()} for row in rows(facts)])
        for one in unsure if choose else ():
            if one.field not in PARAMETERS or not one.candidates:
                continue
            words = one.field.replace("_", " ")
            st.caption(f"{words.upper() if len(words) == 2 else words.capitalize()} may also be")
            with st.container(horizontal=True):
                for candidate in one.candidates[:_MOST]:
                    st.button(
                        plain(candidate), on_click=choose, args=(one.field, candidate),
                        key=f"{key}_{one.field}_{candidate}",
                    )  # fmt: skip
