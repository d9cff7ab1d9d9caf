"""What ran against what is priced: a banner of the differences, and a button that fills them in."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

import hardware_db
from app.dashboard import caches, open_point
from app.dashboard.page_texts import page_text
from app.dashboard.phrases import off_default
from app.dashboard.question_form import AUTO, set_controls
from app.measuring.completion import Difference, differences, filled, filled_names, model_differs
from app.measuring.device_by_size import with_device
from app.measuring.identity import Known, of_reports
from app.measuring.likely_models import likely_models
from app.scenario.scenario import Resolved
from app.scenario.setup import Setup
from app.wording.markdown import plain
from genz_core.common.memo import ByIdentity
from genz_core.errors import RidgelineError
from genz_core.types import Workload
from profilers import PhasePattern, Report
from profilers.phases.inferred_phases import phased
from profilers.phases.what_ran import WhatRan, what_ran

_FILLED = "filled_with"
_ALIKE = 4
#: Reports with the phases inferred from their shapes, what ran, and the facts in the reports.
Read = tuple[list[Report], WhatRan, tuple[Known, ...]]
_LIKELY = ByIdentity[list[str]](8)
_KNOWN = ByIdentity[Read](8)


def known(reports: Sequence[Report], patterns: Sequence[PhasePattern]) -> Read:
    """What is known of reports without a question; cached for the next rerun."""

    def read() -> Read:
        found = [phased(report, "", patterns) for report in reports]
        ran = with_device(what_ran(found), reports)
        return found, ran, of_reports(ran, found)

    return _KNOWN.get(read, *reports, values=tuple(patterns))


def banner(
    resolved: Resolved,
    ran: WhatRan,
    loads: Mapping[str, Workload],
    labels: Sequence[str] = (),
) -> tuple[Difference, ...]:
    """Draw the differences between what ran and the scenario, and a button that fills them in.

    An unchanged scenario is filled in immediately, with a note of what was filled in.

    loads: workloads of phases that are priced instead of the scenario's.  labels: original names of
    the reports' files.  Returns the differences.
    """
    apart = differences(resolved, ran, loads)
    fields = sidebar_fields(resolved, ran, labels)
    words = ", ".join(f"{name} {plain(value)}" for name, value in fields.items())
    filled_with = st.session_state.get(_FILLED, ((), ""))
    setup = st.session_state.get("setup")
    untouched = isinstance(setup, Setup) and not off_default(setup)
    if fields and untouched and filled_with[0] != tuple(labels):
        others = ", ".join(map(plain, _likely(ran, labels)[1:_ALIKE])) if "model" in fields else ""
        words += f" (the same shapes: {others})" if others else ""
        st.session_state[_FILLED] = (tuple(labels), words)
        open_point.set_at_next_run(fields)
    if labels and filled_with[0] == tuple(labels):
        st.info(f"The scenario was set from the report: {filled_with[1]}.", icon=":material/tune:")
    if apart:
        lines = "\n".join(f"- {plain(one)}" for one in apart)
        st.warning(f"{page_text('run differs')}\n{lines}", icon=":material/difference:")
    if fields:
        st.button(
            "Set the scenario from the report", on_click=set_controls, args=(fields,),
            icon=":material/tune:", help=f"Read from the reports: {words}",
            key="fill_scenario",
        )  # fmt: skip
    return apart


def sidebar_fields(resolved: Resolved, ran: WhatRan, labels: Sequence[str] = ()) -> dict[str, Any]:
    """Fields of the sidebar that are known from what ran and differ from the scenario's.

    labels: original names of the reports' files.
    """
    scenario = resolved.scenario
    found: dict[str, Any] = {one.field: one.value for one in filled_names(ran, ())}
    try:
        if "system" in found:
            found["system"] = hardware_db.load(found["system"]).slug
    except RidgelineError:
        del found["system"]
    model = resolved.model
    likely = _likely(ran, labels) if model_differs(model, ran) else []
    if likely and scenario.model not in likely:
        found["model"] = likely[0]
        model = caches.model_of(likely[0], "", ())
        found |= dict.fromkeys(scenario.precisions, AUTO)  # chosen for another model
    rest = filled(scenario, ran, model, ())
    found |= {one.field: one.value for one in rest.fillings if not one.phase}
    if rest.loads:
        found |= {name: getattr(rest.scenario, name) for name in ("batch", "isl", "osl")}
    apart = {name: value for name, value in found.items() if value != getattr(scenario, name)}
    setup = st.session_state.get("setup")
    if "batch" in found and isinstance(setup, Setup) and setup.scenario.kind != "batch":
        apart["batch"] = found["batch"]  # instead of the sidebar's load
    return apart


def _likely(ran: WhatRan, labels: Sequence[str]) -> list[str]:
    return _LIKELY.get(lambda: likely_models(ran, labels), ran, values=tuple(labels))
