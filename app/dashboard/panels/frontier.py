"""What several systems, engines and formats can reach, on one chart."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import streamlit as st

from app.charts import frontiers as charts
from app.dashboard import display_tables, export, open_point, planned, sidebar
from app.dashboard.panels import plan_form
from app.dashboard.question_form import control, several
from app.decide.axes import ACROSS, UPWARDS, guides
from app.decide.frontiers import Curve
from app.decide.measured_loads import BASES
from app.decide.searched import Searched
from app.planning.targets import parse_targets
from app.planning.wording import shape
from app.scenario.setup import Setup
from app.wording import quantities
from app.wording.markdown import plain


def show(setup: Setup) -> None:
    """Draw the frontier of every system, engine and format that is chosen."""
    s = setup.scenario
    st.caption(
        f"{plain(s.model)}, {quantities.tokens(s.isl)} tokens in, {quantities.tokens(s.osl)} out: "
        "one replica at every degree and load, and the best of them on two axes."
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        systems = plan_form.chosen_systems("frontier", setup, 8)
        engines = several("engine", "frontier", "Engines", s, width=240) or (s.engine,)
        weights = several("weights", "frontier", "Weights", s, width=240)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        devices = control("devices", width=150)
        target = control("target", label="Targets as guides", width=260,
                         placeholder="tpot < 30ms, usd_per_mtok < 1")  # fmt: skip
        across, upwards = plan_form.chosen_axes("frontier")
    question = plan_form.every_load(replace(plan_form.kept(s), devices=devices))
    if engines != (s.engine,):
        question = replace(question, engine_version="")  # one engine's release is none of another's
    among = {"engine": engines, **({"weights": weights} if weights else {})}
    if systems != [s.system]:
        among["system"] = tuple(systems)
    searched = Searched(
        replace(setup, scenario=question), tuple(among.items()), plan_form.own_systems()
    )
    with sidebar.stopping():
        targets = parse_targets(", ".join(target))
        found = planned.frontier_curves(searched)
    if found is None:
        return
    curves, left_out = found or ((), ())
    x, y = ACROSS[across], UPWARDS[upwards]

    if not any(curve.vertices(x, y).size for curve in curves):
        st.warning("No point has both figures: nothing fits, or a system states no price or power.",
                   icon=":material/block:")  # fmt: skip
    else:
        figure = charts.frontiers(curves, (x, y), (guides(targets, x), guides(targets, y)),
                                  export.look())  # fmt: skip
        key = f"frontiers-{across}-{upwards}"
        export.chart(figure, key, f"Frontiers: {y.words} against {x.words}",
                     clicked=lambda: _opened(key, curves, searched))  # fmt: skip
        done = st.session_state.get("frontier_opened")
        st.caption(
            (f"Opened as the scenario: **{plain(done)}**. " if done else "")
            + f"{sum(map(len, curves)):,} points that run without waiting, and their frontiers. "
            "Beside a point: its degrees and open requests. Diamonds are measured loads of the "
            "same lengths, their bars the 80 % interval predicted there; their throughput follows "
            "from the measured latencies. Lines: measured or between measurements, beyond them, or "
            "never measured. A click opens a point as the sidebar's scenario."
        )
        rows = [
            {
                "family": str(curve.family),
                "degrees": shape({**{n: curve.columns[n][at] for n in ("tp", "pp", "dp", "ep")},
                                  "replicas": 1}),
                "concurrency": curve.columns["users"][at],
                x.words: x.values(curve.columns)[at],
                y.words: y.values(curve.columns)[at],
                "ttft_s": curve.columns["ttft_s"][at],
                "tpot_s": curve.columns["tpot_s"][at],
                "basis": BASES[int(curve.basis[at])],
            }
            for curve in curves
            for at in curve.vertices(x, y)
        ]  # fmt: skip
        table = pd.DataFrame(rows)
        display_tables.draw_figures(table, "frontier_table")
        export.downloads("frontiers", {"frontiers": figure}, table, setup)
    for left in left_out:
        st.caption(f"Left out: {plain(left.what)}: {plain(left.why)}")


def _opened(key: str, curves: tuple[Curve, ...], searched: Searched) -> None:
    """Put the clicked point into the sidebar; a callback."""
    clicked = (st.session_state.get(key) or {}).get("selection", {}).get("points", [])
    custom = clicked[0].get("customdata") if clicked else None
    if not isinstance(custom, list) or len(custom) < 2 or not custom[0] < len(curves):
        return
    curve = curves[int(custom[0])]
    row = {name: float(column[int(custom[1])]) for name, column in curve.columns.items()}
    own = {plan_form.slug_of(name, searched.systems): name for name, _ in searched.systems}
    named = {**row, "engine": curve.family.resolved.engine.name, "replicas": 1.0}
    q = curve.family.question
    system = own.get(curve.family.system.slug, q.system)
    open_point.open_as_scenario(open_point.scenario_of(named, system, q.weights))
    st.session_state["frontier_opened"] = (
        f"{shape(named)} with {row['users']:,.0f} users, {curve.family}"
    )
