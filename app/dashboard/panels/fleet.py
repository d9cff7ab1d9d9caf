"""A fleet: several models on one set of machines, as editable text, and what runs where."""

from pathlib import Path
from typing import Any

import streamlit as st

from app.charts import fleet as charts
from app.dashboard import export, strip
from app.dashboard.display_tables import rows_in_words
from app.dashboard.job_progress import is_running, result_of, start
from app.dashboard.page_texts import page_text
from app.dashboard.widgets import draw_table, say_each, saying_errors
from app.fleets import report
from app.fleets.fleet_question import fleet_question
from app.fleets.job_work import assigned
from app.jobs import SIMULATING
from app.wording.markdown import capital, plain
from hardware_db import yaml_document

JOB = "fleet_job"
_EXAMPLE = Path(__file__).parents[2] / "samples" / "fleets" / "two-tenants.yaml"


def page() -> None:
    """Draw the fleet's text, the progress of its job, and the result."""
    strip.say_nothing()
    st.caption(page_text("fleet"))
    with st.form("fleet_form"):
        example = _EXAMPLE.read_text(encoding="utf-8")
        text = st.text_area("Fleet (YAML)", example, 420, key="fleet_text", max_chars=50_000)
        sent = st.form_submit_button("Assign", disabled=is_running(JOB))
    with saying_errors():
        if sent:
            st.session_state.pop(JOB, None)
            fleet_question(yaml_document.parse(text, "fleet"))  # refused here, in a sentence
            start(JOB, assigned, text, "Fleet", SIMULATING)
        if named := result_of(JOB, "Stopping after the current model or simulation."):
            _answer(named)


def _answer(named: dict[str, Any]) -> None:
    st.markdown(plain(report.headline(named)))
    draw_table(rows_in_words(report.model_rows(named)), "fleet_models")
    if named["deployments"]:
        st.markdown("**Assignment of models to machines**")
        draw_table(rows_in_words(report.shown_rows(named)), "fleet_deployments")
        export.chart(charts.machines(named, export.look()), "fleet-machines")
    st.markdown("**Machines, and the gain from one more of each kind**")
    draw_table(rows_in_words(report.machine_rows(named)), "fleet_machines")
    if named["refusals"]:
        st.markdown("**Cannot run**")
        say_each(f"{one['name']} on {one['machine']}: {one['why']}." for one in named["refusals"])
    say_each(map(capital, named["notes"]), st.caption, "{}.")
