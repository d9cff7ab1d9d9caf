"""The findings of a comparison, each with its gain, its operator and its kernels a click away."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from app.dashboard.panels.compared_run import Priced
from app.dashboard.panels.time_report import show_time_report
from app.dashboard.widgets import draw_table
from app.wording import quantities
from app.wording.markdown import plain
from profilers import Comparison
from profilers.findings import Finding

#: Most findings shown.
_MOST = 8
#: Kinds of findings that are gaps in the timeline.
IDLE = ("idle", "launch-bound", "idle between steps")


def show_findings(
    priced: Priced, comparison: Comparison, look_at: Callable[[Finding], None] | None = None
) -> None:
    """Draw the findings, the largest gain first, then where the time of each step goes.

    look_at: a callback that moves the chart beside them to a finding; None if there is no chart.
    """
    if priced.apart:
        st.caption("There are none: the run differs from what is priced, see above.")
        return
    for at, finding in enumerate(comparison.findings[:_MOST]):
        gain = f"**{plain(quantities.seconds(finding.seconds))}**" if finding.seconds else ""
        if look_at is None or not (finding.kernels or finding.kind in IDLE):
            st.markdown(f"- {gain}{' · ' if gain else ''}{plain(finding.sentence)}")
            continue
        with st.container(gap="xxsmall"):
            st.button(
                gain or "Show", key=f"finding_{at}", on_click=look_at, args=(finding,),
                type="tertiary", icon=":material/my_location:", help="Show it in the timeline",
            )  # fmt: skip
            st.markdown(plain(finding.sentence))
    told = [f for f in comparison.findings[:_MOST] if f.operator or f.kernels]
    if told:
        with st.expander("Operators and kernels behind the findings"):
            rows = [
                {
                    "gain [ms]": finding.seconds / quantities.MILLISECOND,
                    "finding": finding.kind,
                    **{name: getattr(finding, name) for name in ("phase", "operator", "kernels")},
                }
                for finding in told
            ]
            heads = {"gain [ms]": st.column_config.NumberColumn(format="%.4g")}
            draw_table(rows, "finding_kernels", height="auto", column_config=heads)
    if not comparison.findings:
        st.caption("Nothing stands out.")
    for made in priced.where_time_goes(comparison):
        show_time_report(made)
