"""The measured rows beside what is predicted for them, priced once for all visitors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from app.accuracy import measured_points
from app.accuracy.likely_causes import run_words

Rows = list[dict[str, Any]]
_READERS: Mapping[str, Callable[..., Rows]] = {
    "batch points": measured_points.published,
    "serving": measured_points.serving,
}


def rows(area: str) -> Rows:
    """The rows of "batch points" or "serving", a progress bar while they are priced.

    Each carries a `label` for a chart's hover.  Shared: nobody changes them.
    """
    kept = _store()
    if area not in kept:
        bar = st.progress(0.0, f"Pricing every measured row ({area}) …")
        found = _READERS[area](lambda done, of: bar.progress(done / of))
        kept[area] = [{**row, "label": run_words(row)} for row in found]
        bar.empty()
    return kept[area]


@st.cache_resource(show_spinner=False)
def _store() -> dict[str, Rows]:
    return {}
