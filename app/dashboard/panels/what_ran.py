"""What ran beside what is priced: the banner of where they differ, and the button that fills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

import hardware_db
from app.measuring.filling import Difference, differences, filled, filled_names
from app.scenario.scenario import Resolved
from app.wording.markdown import plain
from genz_core.errors import RidgelineError
from genz_core.memo import ByIdentity
from genz_core.types import Workload
from profilers import PhasePattern, Report
from profilers.found_phases import phased
from profilers.what_ran import WhatRan, what_ran

_KNOWN = ByIdentity[tuple[list[Report], WhatRan]](8)


def known(
    reports: Sequence[Report], patterns: Sequence[PhasePattern]
) -> tuple[list[Report], WhatRan]:
    """Reports with the phases that their shapes tell, and what ran; kept for the next rerun."""

    def read() -> tuple[list[Report], WhatRan]:
        found = [phased(report, "", patterns) for report in reports]
        return found, what_ran(found)

    return _KNOWN.get(read, *reports, values=tuple(patterns))


def banner(
    resolved: Resolved, ran: WhatRan, loads: Mapping[str, Workload]
) -> tuple[Difference, ...]:
    """Draw where what ran says otherwise than the scenario, and a button that fills it.

    loads: workloads of phases that are priced in place of the scenario's.  Returns the differences.
    """
    apart = differences(resolved, ran, loads)
    fields = sidebar_fields(resolved, ran)
    if apart:
        lines = "\n".join(f"- {plain(str(one))}" for one in apart)
        st.warning(
            f"What ran is not what is priced, so no finding is stated:\n{lines}",
            icon=":material/difference:",
        )
    if fields:
        names = ", ".join(f"{name} {plain(str(value))}" for name, value in fields.items())
        st.button(
            "Set the scenario to what ran", on_click=_fill, args=(fields,),
            icon=":material/tune:", help=f"Read from the reports: {names}", key="fill_scenario",
        )  # fmt: skip
    return apart


def _fill(fields: Mapping[str, Any]) -> None:
    st.session_state.update(fields)


def sidebar_fields(resolved: Resolved, ran: WhatRan) -> dict[str, Any]:
    """Fields of the sidebar that what ran tells and that differ from the scenario's."""
    scenario = resolved.scenario
    found: dict[str, Any] = {one.field: one.value for one in filled_names(ran, ())}
    try:
        if "system" in found:
            found["system"] = hardware_db.load(found["system"]).slug
    except RidgelineError:
        del found["system"]
    rest = filled(scenario, ran, resolved.model, ())
    found |= {one.field: one.value for one in rest.fillings if not one.phase}
    if rest.loads:
        found |= {name: getattr(rest.scenario, name) for name in ("batch", "isl", "osl")}
    return {name: value for name, value in found.items() if value != getattr(scenario, name)}
