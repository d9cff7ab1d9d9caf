"""The measured runs that corrected a load, in a list that opens."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from app.dashboard import cached
from app.scenario import runs_behind as behind
from app.scenario.served_rows import as_calibrated
from app.scenario.setup import Setup
from app.wording.markdown import plain
from genz_core.serving import Traffic

_WIDTHS = {
    "measured_tpot_s": "TPOT measured [s]",
    "of_physics_tpot_s": "of physics",
    "weight_tpot_s": "weight",
    "measured_ttft_s": "TTFT measured [s]",
    "of_physics_ttft_s": "of physics ",
    "weight_ttft_s": "weight ",
}
_HELP = (
    "What physics alone predicts is multiplied by each run's measured over predicted, to the power "
    "of its weight: runs of the same GPU, format and release, of near lengths, loads and degrees "
    "weigh most."
)


def runs_behind_list(setup: Setup, load: str, value: float, ratio: float) -> None:
    """Draw the runs behind the figures of one load.

    load: "concurrency" or "rate_per_s", at `value`.  ratio: shortest over nominal length.
    """
    s = setup.scenario
    asked: Any = {"isl": s.isl, "osl": s.osl, "length_ratio": ratio, load: value}
    traffic = Traffic(**asked)
    rows = behind.runs_behind(as_calibrated(cached.resolved(setup)), traffic)
    with st.expander("Measured runs behind this number", icon=":material/format_list_numbered:"):
        if not rows:
            st.caption(
                f"Nobody measured this model under {plain(s.engine)} in what ships: the engine's "
                "profile alone speaks. Runs of your own join in on page Calibrate."
            )
            return
        st.caption(_HELP)
        st.dataframe(
            rows,
            hide_index=True,
            key="serving_runs",
            column_order=_order(rows[0]),
            column_config=dict(_WIDTHS),
        )


def _order(row: Mapping[str, Any]) -> list[str]:
    """The figures first, what ran behind them."""
    return ["run", *_WIDTHS, *(name for name in row if name not in ("run", *_WIDTHS))]
