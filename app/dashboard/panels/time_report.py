"""Where the measured time goes, the possible gain, and what to change."""

from __future__ import annotations

import streamlit as st

from app.measuring.time_report import TimeReport
from app.wording import quantities
from app.wording.markdown import plain


def show_time_report(report: TimeReport) -> None:
    """Draw a report: the parts with the largest possible gain first, then the changes."""
    total = quantities.seconds(report.total_s)
    st.markdown(f"**Where the time of {plain(report.of)} goes** ({plain(total)})")
    st.markdown("\n".join(f"- {plain(one.sentence)}" for one in report.spent))
    if report.changes:
        advice = report.advice.removesuffix(":")
        st.markdown(f"**{plain(advice[:1].upper() + advice[1:])}**")
        st.markdown("\n".join(f"- {plain(one.sentence)}" for one in report.changes))
