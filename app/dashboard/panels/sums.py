"""Consistency checks of a measurement: failed ones as sentences, all of them in a table."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app.wording.markdown import plain
from profilers import account
from profilers.account import Check


def show_sums(checks: Sequence[Check], *, in_words: bool = True) -> None:
    """Draw the checks of a measurement.

    in_words: state the failed ones; False if findings state them.
    """
    if not checks:
        return
    failing = account.failed(tuple(checks))
    for one in failing if in_words else ():
        st.warning(
            f"A check failed, so this measurement is not used: {plain(one.sentence)}",
            icon=":material/report:",
        )
    counts = {name: sum(one.outcome == name for one in checks) for name in ("passed", "not made")}
    said = f"{counts['passed']} hold, {len(failing)} fail, {counts['not made']} cannot be made"
    with st.expander(f"Sums: {said}", icon=":material/functions:"):
        st.table([{k: plain(v) for k, v in row.items()} for row in account.rows(checks)])
