"""A measurement for comparison with its prediction: a stored run, or uploaded reports."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import streamlit as st

import profilers
from app.dashboard import caches, sidebar, tracing
from app.dashboard.load_curves import as_batch
from app.dashboard.page_texts import page_text
from app.dashboard.panels.run_facts import show_sweep, show_time_report
from app.dashboard.panels.what_ran import banner, known
from app.dashboard.widgets import card, choose, draw_table, say_each
from app.measuring import endpoint_run, run_store
from app.measuring.comparison import Compared, clocks_text, compared, steps_measured, verdict
from app.measuring.completion import Difference, Filled, estimate_filled, phase_loads
from app.measuring.identity import Known
from app.measuring.outcome import priced_sweep
from app.measuring.prediction import RunContext
from app.measuring.time_report import TimeReport, of_profile
from app.measuring.unfused_kernels import as_it_ran
from app.scenario.scenario import Resolved
from app.scenario.setup import Setup
from app.wording import quantities
from app.wording.markdown import capital, plain
from genz_core import Estimate
from genz_core.common.memo import ByIdentity
from genz_core.errors import ReportError, RidgelineError
from genz_core.types import Workload
from profilers import Comparison, Measurement, Report
from profilers.comparison.compare import in_phase
from profilers.comparison.findings import Finding
from profilers.phases.what_ran import what_was_kept
from profilers.runs.store import Store
from profilers.schema import PHASES

#: Most findings shown.
_MOST = 8
#: Kinds of findings that are gaps in the timeline.
IDLE = ("idle", "launch-bound", "idle between steps")


@dataclass(frozen=True, slots=True)
class Priced:
    """A measurement and the estimate beside it.

    apart: differences between what ran and the question.  identity: how certain each fact is.
    resolved, loads: what is priced; resolved is None for a stored run.
    """

    measurement: Measurement
    estimate: Estimate
    apart: tuple[Difference, ...] = ()
    reports: Sequence[Report] = ()
    identity: tuple[Known, ...] = ()
    resolved: Resolved | None = None
    loads: Mapping[str, Workload] = field(default_factory=dict)


#: Inputs of the page that stay the same objects between redraws.
_PRICED, _COMPARED = ByIdentity[Priced](2), ByIdentity[Comparison](2)
_SPENT = ByIdentity[tuple[TimeReport, ...]](2)


def kept_run() -> tuple[Store, str]:
    """Draw the choice of a stored run; returns its store and its id.

    Without stored runs the page stops with a sentence.
    """
    named = {
        run.id: (store, f"{run.label} on {run.system} · {run.id[:8]}")
        for store in run_store.stores()
        for run in store.runs()
        if run.source != endpoint_run.SOURCE  # a load on a server has no operators
    }
    if not named:
        st.info("No kept runs yet; measure one first.", icon=":material/timer:")
        st.stop()
    run = st.selectbox(
        "Run", list(named), format_func=lambda run: named[run][1], key="measured_run"
    )
    return named[run][0], run


def own_pricing() -> Priced | None:
    """Draw the choice of a stored run and a description of it; returns it with its estimate, None
    for a sweep or a run over prompts, whose predictions are drawn or are in its report.

    The estimate is of its own model, system and engine, or with a warning of the scenario's if
    those are unknown here.
    """
    store, identity = kept_run()
    chosen = store.load(identity)
    load, ranks = chosen.workload, chosen.facts.get("world_size")
    sizes = f", batch {load.batch:g}, {load.isl:g} + {load.osl:g} tokens" if load else ""
    over = f", TP {ranks}" if ranks else ""
    ran = f"{chosen.model or chosen.source} with the engine {chosen.engine}{sizes}{over}"
    if chosen.facts.get("prompts") and load is None:
        st.info(page_text("prompts", ran=plain(ran)), icon=":material/format_list_bulleted:")
        return None
    own, context = run_store.own_estimate(store, identity)
    if chosen.steps and context.model is not None and context.system is not None:
        st.caption(f"It ran {plain(ran)}; the prediction is for {plain(context.system.name)}.")
    elif own is not None:
        names = {"system": plain(own.system.name), "engine": plain(own.engine.name)}
        st.caption(page_text("own model and system", ran=plain(ran), **names))
        return Priced(chosen, own)
    else:
        st.caption(f"It ran {plain(ran)}.")
        form = "{}. The prediction is for the sidebar's scenario."
        say_each(context.notes, st.warning, form, icon=":material/warning:")
        _, resolved, estimate = sidebar.priced_setup()
        sidebar.say_trace()
        if not chosen.steps:
            return Priced(chosen, estimate, banner(resolved, what_was_kept(chosen), {}))
        context = RunContext(resolved.model, resolved.system, resolved.engine)
    st.caption(page_text("swept"))
    show_sweep(priced_sweep(chosen, context))
    return None


def report_pricing(uploaded: Sequence[Report]) -> Priced:
    """Draw the differences between one run's reports and the scenario; returns them with its
    estimate.

    Raises:
        RidgelineError: the scenario cannot be priced, or the reports cannot be compared together.
    """
    setup = st.session_state.get("setup", Setup())
    if isinstance(setup, RidgelineError):
        raise setup
    setup = as_batch(setup)
    if not tracing.is_trace_ready(setup, described=False):
        raise ReportError(f"{setup.scenario.model} is traced first")
    resolved, estimate = caches.deployed(setup), caches.priced(setup)
    patterns = st.session_state.get("phase_patterns", profilers.DEFAULT_PHASES)
    labels = [report.label for report in uploaded]
    reports, ran, facts = known(uploaded, patterns)
    loads = phase_loads(resolved, ran)
    apart = banner(resolved, ran, loads, labels)

    def read() -> Priced:
        eager, of_them = as_it_ran(resolved, ran), estimate
        if loads or eager is not resolved:
            of_them = estimate_filled(eager, loads)
        measurement = profilers.measure_from(reports, patterns)
        return Priced(measurement, of_them, apart, reports, facts, eager, loads)

    return _PRICED.get(read, resolved, estimate, ran, *uploaded, values=tuple(patterns))


def comparison_of(priced: Priced) -> Comparison:
    """Draw the missing facts of a measurement, its phase and its steps; returns the comparison.

    Raises:
        RidgelineError: it cannot be compared.
    """
    measurement, steps = priced.measurement, {}
    phases = [p for p in PHASES if p in measurement.phases]
    if not phases:
        words = "These reports name no phase; treat them as"
        phase = choose(words, ["prefill", "decode"], "measured_phase")
        measurement, phases = in_phase(measurement, phase), [phase]
    run_key = "" if priced.reports else f"_{st.session_state['measured_run']}"
    with st.container(horizontal=True):
        for phase in phases:
            usual = steps_measured(priced.estimate, measurement, priced.reports, phase)
            key, meaning = f"steps_{phase}{run_key}", page_text("measured steps")
            label = f"Steps of {phase} measured"
            steps[phase] = int(
                st.number_input(label, 1, 1_000_000, usual, key=key, width=220, help=meaning)
            )

    def read() -> Comparison:
        return compared(priced.estimate, measurement, priced.reports, steps)

    return _COMPARED.get(read, priced, values=(tuple(measurement.phases), *steps.items()))


def show_phases(comparison: Comparison) -> None:
    """Draw where reports are truncated, cards of every phase's times, and conclusions in words."""
    say_each(comparison.truncated, st.warning, icon=":material/content_cut:")
    with st.grid(4, min_column_width=230):
        for row in comparison.phases.to_dict("records"):
            phase, basis = plain(row["phase"].capitalize()), plain(row["basis"])
            change = quantities.change(row["predicted_s"], row["measured_s"])
            predicted = f"{change} against {quantities.seconds(row['predicted_s'])} predicted"
            bound = f"Bound {quantities.seconds(row['bound_s'])} a step; {basis} clock."
            card(f"{phase}, measured", quantities.seconds(row["measured_s"]), predicted, bound)
            if row["wall_s"] > 0 and row["wall_s"] != row["measured_s"]:
                predicted = f"{quantities.seconds(row['predicted_wall_s'])} predicted"
                meaning = page_text("wall time", busy=quantities.seconds(row["busy_s"]))
                card(f"{phase}, wall time", quantities.seconds(row["wall_s"]), predicted, meaning)
    for row in comparison.phases.to_dict("records"):
        st.caption(plain(verdict(row, comparison.classes)))
        st.caption(plain(clocks_text(row)))
    say_each(map(capital, comparison.notes), st.caption, "{}.")


def show_findings(
    priced: Priced, comparison: Comparison, look_at: Callable[[Finding], None] | None = None
) -> None:
    """Draw the findings, the largest gain first, then where the time of each step goes.

    look_at: a callback that moves the chart beside them to a finding; None if there is no chart.
    """
    if priced.apart:
        st.caption("None: the run differs from the priced scenario, see above.")
        return
    for at, finding in enumerate(comparison.findings[:_MOST]):
        gain = f"**{plain(quantities.seconds(finding.seconds))}**" if finding.seconds else ""
        if look_at is None or not (finding.kernels or finding.kind in IDLE):
            st.markdown(f"- {gain}{' · ' if gain else ''}{plain(finding.sentence)}")
            continue
        with st.container(gap="xxsmall"):
            st.button(
                gain or "Show", key=f"finding_{at}", on_click=look_at, args=(finding,),
                type="tertiary", icon=":material/my_location:", help="Show it in the timeline",
            )  # fmt: skip
            st.markdown(plain(finding.sentence))
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
        failed = "None: the run fails a consistency check."
        st.caption(failed if comparison.failed else "Nothing stands out.")
    if (resolved := priced.resolved) is None:  # the page of a stored run has its own report
        return
    filled = Filled(resolved.scenario, priced.loads, differences=priced.apart)
    whole = Compared(comparison, resolved, filled)
    for made in _SPENT.get(lambda: of_profile(whole), comparison, priced):
        show_time_report(made)
