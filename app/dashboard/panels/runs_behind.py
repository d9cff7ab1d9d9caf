"""The measured runs that correct the steps of a load, in a collapsed list."""

from dataclasses import replace
from typing import Any

import streamlit as st

from app.answers.columns import COLUMNS
from app.dashboard import cached
from app.dashboard.widgets import draw_table
from app.scenario import runs_behind as behind
from app.scenario.setup import Setup
from app.wording.markdown import plain

_HEADS = {
    f"{what}_{name}": words.format(COLUMNS[name].head)
    for name in ("tpot_s", "ttft_s")
    for what, words in (("measured", "{} measured [s]"), ("of_physics", "{} of physics"))
} | {
    f"{what}_{latent}": f"{words}{head}"
    for latent, head in (("steps", "steps"), ("wait", "first token"))
    for what, words in (("learned", ""), ("weight", "weight in "))
}
_HELP = (
    "Each run gives two correction factors: one for all steps, and one for TTFT beyond its steps. "
    "The steps of this load are multiplied by each run's factor to the power of its weight, and "
    "so is TTFT: runs of the same GPU, format and release, of near lengths, loads and degrees "
    "weigh most."
)


def runs_behind_list(setup: Setup, load: str, value: float) -> None:
    """Draw the runs behind the figures of one load.

    load: "concurrency" or "rate", at `value`.
    """
    asked: dict[str, Any] = {load: value}
    alone = replace(setup.scenario, batch=1, **asked)
    resolved = cached.deployed(replace(setup, scenario=alone))
    rows = behind.runs_behind(resolved)
    with st.expander("Measured runs behind this number", icon=":material/format_list_numbered:"):
        if not rows:
            st.caption(
                f"No shipped run measured this model under {plain(resolved.engine.name)}, so the "
                f"figures use the engine's profile only. Add your own runs on page Measure."
            )
            return
        st.caption(_HELP)
        draw_table(
            rows, "serving_runs",
            height="auto", column_config=dict(_HEADS),
            column_order=list(dict.fromkeys(("run", *_HEADS, *rows[0]))),
        )  # fmt: skip
