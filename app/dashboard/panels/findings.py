"""The findings of a comparison, each with its gain, its operator and its kernels a click away."""

from __future__ import annotations

import streamlit as st

from app.dashboard.widgets import draw_table
from app.wording import quantities
from app.wording.markdown import plain
from profilers import Comparison

#: Findings shown at most.
_MOST = 8


def show_findings(comparison: Comparison) -> None:
    """Draw the findings, the largest gain first."""
    for finding in comparison.findings[:_MOST]:
        gain = f"**{plain(quantities.seconds(finding.seconds))}** · " if finding.seconds else ""
        st.markdown(f"- {gain}{plain(finding.sentence)}")
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
