"""Measured points with their predictions, priced once for all visitors."""

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


def measured_records(area: str) -> Rows:
    """The records of "batch points" or "serving", with a progress bar while they are priced.

    Each has a `label` for a chart's hover text.  Shared between visitors and not to be changed.
    """
    priced = _store()
    if area not in priced:
        bar = st.progress(0.0, f"Pricing every measured row ({area}) …")
        records = _READERS[area](lambda done, of: bar.progress(done / of))
        priced[area] = [{**row, "label": run_words(row)} for row in records]
        bar.empty()
    return priced[area]


@st.cache_resource(show_spinner=False)
def _store() -> dict[str, Rows]:
    return {}
