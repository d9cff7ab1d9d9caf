"""Uneven experts: an engine's routing counts as a load, and the gain from copies of experts."""

from pathlib import Path

import streamlit as st

from app.answers.columns import COLUMNS
from app.charts.chip_lab import busiest_ranks
from app.dashboard import caches, export, uploads
from app.dashboard.load_curves import alone
from app.dashboard.page_texts import page_text
from app.dashboard.widgets import draw_table, saying_errors
from app.decide.routing import read_counts, routing
from app.question.query import Query
from app.scenario.setup import Setup, source_of
from app.wording import quantities

_SAMPLE = Path(__file__).parents[2] / "samples" / "studies" / "experts.json"


def show(setup: Setup) -> None:
    """Draw the box of counts, and the cost of the busiest rank with and without copies.

    setup: a trace has no single load, so it is priced as a batch of one.
    """
    sent = uploads.picker("routing", ()).first("routing", "Uneven experts")
    sample = st.toggle("Sample: 128 experts", key="routing_sample", bind="query-params",
                       help="Synthetic data to try the page.")  # fmt: skip
    if sent is None and not sample:
        st.caption(page_text("uneven experts"))
        return
    with saying_errors():
        content = sent.content if sent else _SAMPLE.read_bytes()
        rows = _priced(alone(setup) if setup.scenario.trace else setup, content)
        export.chart(busiest_ranks(rows, export.look()), "routing")
        draw_table([_words(row) for row in rows], "routing_table")


@caches.by_setup(16)
def _priced(setup: Setup, content: bytes) -> list[dict]:
    s = setup.scenario
    model = source_of(s.model, setup.model_config)
    objects = {} if isinstance(model, str) else {"model": model}
    query = Query("estimate", s, {}, {}, frozenset(s.changed()), objects)
    return routing(query, read_counts(content.decode("utf-8", "replace")))


def _words(row: dict) -> dict:
    gain = row["gain"]
    return {
        "copies of experts": row["redundant_experts"],
        "busiest rank": f"{row['busiest_rank']:.2f} × the mean",
        **{COLUMNS[name].head: COLUMNS[name].words(row[name]) if row.get(name) else None
           for name in ("ttft_s", "tpot_s", "output_tokens_per_s")},
        "gain": None if gain is None else quantities.percent(gain),
        "status": row["status"] if row["status"] != "ok" else "",
    }  # fmt: skip
