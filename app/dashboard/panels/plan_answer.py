"""The answer on page Plan: the best in words, the plans, all candidates, how to start and check."""

from collections.abc import Callable, Mapping
from math import nan
from typing import Any

import streamlit as st

from app.answers.columns import COLUMNS
from app.answers.table import to_json
from app.charts import plan as charts
from app.dashboard import export, open_point, plan_answers, search_form, sidebar, strip
from app.dashboard.page_texts import page_text
from app.dashboard.widgets import card, draw_table, draw_tabs, say_each, say_error
from app.decide import plan_systems, report
from app.decide.axes import ACROSS, UPWARDS
from app.decide.candidate_points import points
from app.decide.plan_query import Planned, Searched
from app.line.sentence import left_open
from app.planning import plan_text
from app.planning.answer import Answer
from app.planning.document import deployment_row
from app.planning.manifests.bundle import KINDS, bundle
from app.scenario.setup import Setup
from app.wording import quantities
from app.wording.markdown import capital, plain
from genz_core.errors import InvalidValue, RidgelineError

Named = Mapping[str, Any]
#: What stands in place of figures that only a simulation tells.
_SOON, _NEVER = "being simulated", "not simulated"


def page() -> None:
    """Draw the inputs of a plan and its answer."""
    setup = sidebar.chosen_setup()
    search_form.opener()
    with sidebar.stopping():
        searched = search_form.searched(setup)
        query, several = searched.query(), dict(searched.several)
        chosen = left_open("plan", query.given | set(query.several))
        idle = ("isl", "osl") if searched.trace else ()
        strip.say(searched.setup.scenario, "plan", several, chosen, idle=idle)
        planned = plan_answers.in_closed_form(searched)
    if planned is not None:
        show(searched, planned, setup)


def show(searched: Searched, closed: Planned, setup: Setup) -> None:
    """Draw the answer to a question: in closed form at once, then as its simulation has it.

    setup: the form's, whose deployment is the one before the plan.
    """
    planned, pending = _simulated(searched, closed)
    if pending == _SOON and not planned.document["plans"]:
        st.info(f"{_none(planned.document)} The nearest ones are being simulated.",
                icon=":material/hourglass:")  # fmt: skip
    elif not planned.document["plans"]:
        planned = _nothing(searched, planned)
    named, rows = planned.document, planned.systems
    if named["plans"]:
        _best(named, ", ".join(one.words for one in planned.answer.found.targets), pending)
    draw_table([plan_systems.words(row, pending) for row in rows], "plan_systems")
    if named["others"]:
        other = _best_other(named["others"], planned.answer)
        near = other.get("nearest")
        runs = f"{plan_text.shape(near)} on {near['devices']} × " if near else ""
        st.markdown(f"Best of the others: {runs}{plain(other['family'])}: {plain(other['why'])}.")
    of_others = [row for row in rows if "launch" in row and row not in named["plans"]]
    startable = {**named, "plans": [*named["plans"], *of_others]}
    _chart(searched, planned.answer)
    tabs = {
        "Start it": lambda: _launch(startable),
        "All plans": lambda: _plans(named),
        "Why not the others": lambda: _others(named),
        "Check it": lambda: _measure(named),
        "Download": lambda: _downloads(
            named, planned.answer, startable,
            lambda: plan_answers.as_stated(searched, setup.scenario),
        ),
    }  # fmt: skip
    if pending == _SOON:
        follows = "Available once the plans have been simulated."
        tabs |= dict.fromkeys(("Start it", "Check it", "Download"), lambda: st.caption(follows))
    draw_tabs(tabs, "plan_tab")
    if pending == _SOON:
        return
    with st.expander("Notes", icon=":material/info:"):
        told = [f"percentiles of the best: {plan['percentiles']}" for plan in named["plans"][:1]]
        left_out = (f"{one['what']}: {one['why']}" for one in named["left_out"])
        say_each([*told, *named["notes"], *left_out], form="- {}")


def _simulated(searched: Searched, closed: Planned) -> tuple[Planned, str]:
    """The simulated answer and "", or the one in closed form and why it is not simulated; draws
    the progress of the simulations.
    """
    if not searched.setup.scenario.simulate:
        return closed, ""
    try:
        planned = plan_answers.simulated(searched)
    except RidgelineError as error:
        st.warning(f"Not simulated: {plain(error)}.", icon=":material/block:")
        return closed, _NEVER
    return (closed, _SOON) if planned is None else (planned, "")


def _best_other(others: list[Named], answer: Answer) -> Named:
    """The best of the deployments that are not of the best plan's family, if there are any."""
    best = str(answer.short.candidates.of(answer.short.plans[0].at)) if answer.short.plans else ""
    return next((other for other in others if other["family"] != best), others[0])


def _none(named: Named) -> str:
    return f"{capital(plan_text.none_words(named))}."


def _best(named: Named, targets: str, pending: str) -> None:
    best, fewest = named["plans"][0], named["fewest_devices"]
    st.markdown(f"**{best['devices']} × {best['system']}: {plan_text.short(best)}**")
    with st.grid(5 if named["targets"] else 4, min_column_width=150, key="cards"):
        for name in ("ttft", "tpot"):
            trust = quantities.span(*(best[f"{name}_{end}_s"] or nan for end in ("low", "high")))
            margin = _margin(named, name)
            column = COLUMNS[f"{name}_s"]
            card(column.head, column.words(best[column.name]), margin or f"80 %: {trust}",
                 f"Mean; 80 % interval {trust}." if margin else "")  # fmt: skip
        cost = best["usd_per_mtok"]
        card(
            "Cost per 1M tokens",
            quantities.dollars(cost) if cost else "no price",
            f"{quantities.dollars(best['usd_per_hour'])} an hour"
            if cost
            else "set Rent of a device",
            COLUMNS["usd_per_mtok"].help,
        )
        card("Devices", str(best["devices"]), f"fewest that do: {fewest['devices']}",
             f"All targets are met on {fewest['devices']} × {plain(fewest['system'])}, with "
             f"{plain(fewest['engine'])}." if named["targets"] else "")  # fmt: skip
        if named["targets"]:
            share, known = best["probability"], best["probability_validated"]
            card(
                "Meets all targets",
                quantities.NOT_VALIDATED if share is None else quantities.chance(share),
                targets if known or share is None else quantities.NOT_VALIDATED,
                page_text("probability"),
            )
    if pending != _SOON:
        others = filter(None, (plan_text.long_wait(named), *plan_text.beside(named)))
        say_each(map(capital, others), form="{}.")
        if found := named["settling"]:
            st.markdown(f"A measurement that would decide: {plain(found['words'])}.")
            st.code(found["command"], language="bash", wrap_lines=True)
    said = [f"{plan_text.priced_words(named)}; ranked by {plan_text.ranked_words(named)}."]
    said += [f"In closed form, {pending}."] if pending else []
    beyond = plain("; ".join(best["beyond_measurements"]))
    st.caption(" ".join([*said, *([f"No measured run covers {beyond}."] if beyond else [])]))


def _margin(named: Named, name: str) -> str:
    """How far the tightest target on a latency is away, "" without one."""
    margins = [
        (share, target.partition("_")[2])
        for target, share in named["plans"][0]["margins"].items()
        if target.partition("_")[0] == name and share is not None
    ]
    if not margins:
        return ""
    share, percentile = min(margins)
    return f"{percentile or 'mean'} {quantities.percent(share)} below target"


def _nothing(searched: Searched, planned: Planned) -> Planned:
    """Draw why there is no plan and which changes would allow one; returns the answer with them."""
    st.warning(_none(planned.document), icon=":material/block:")
    if planned.document["undecided"]:
        return planned
    try:
        changed = plan_answers.with_changes(searched, planned)
    except RidgelineError as error:
        say_error(error)
        return planned
    if changed is None:
        return planned
    changes = changed.answer.changes
    st.markdown(page_text("possible changes") if changes else page_text("no change helps"))
    say_each([change.words for change in changes], form="- {}")
    return changed


def _opened(key: str, answer: Answer, searched: Searched) -> None:
    """Put the clicked candidate into the sidebar; a callback."""
    at, candidates = int((open_point.clicked(key) or [-1])[0]), answer.short.candidates
    if 0 <= at < len(candidates):
        row, family = deployment_row(candidates, at), candidates.of(at)
        open_point.open_as_scenario(row, family, searched.systems)
        st.session_state[search_form.FREE] = True  # the search space is unchanged


@st.fragment
def _chart(searched: Searched, answer: Answer) -> None:
    if not answer.found.ranking.sound(answer.short.candidates).any():
        return  # why none runs stands above
    open_point.draw_opened()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        x, y = search_form.chosen_axes("plan")
    shown = points(answer, ACROSS[x], UPWARDS[y])
    if not shown.series:
        st.info(page_text("no candidates"), icon=":material/info:")
        return
    key = f"plan-candidates-{x}-{y}"
    figure = charts.candidates(shown, export.look())
    export.chart(figure, key, clicked=lambda: _opened(key, answer, searched))
    more = f" {shown.left_out:,} points are not shown." if shown.left_out else ""
    words = page_text("candidates").strip()
    st.caption(f"{open_point.opened_words()}{words}{more}")


def _plans(named: Named) -> None:
    if named["plans"]:
        draw_table([report.plan_words(plan) for plan in named["plans"]], "plan_table")
    else:
        st.caption(_none(named))


def _launch(named: Named) -> None:
    if not named["plans"]:
        st.caption("There is no plan to start.")
        return
    names = [f"{at}. {plan['system']}: {plan_text.short(plan)}"
             for at, plan in enumerate(named["plans"], 1)]  # fmt: skip
    chosen = st.selectbox("Plan", names, key="plan_chosen")
    plan = named["plans"][names.index(chosen)]
    if plan["launch"]:
        lines = "\n".join(plan_text.launch_lines(plan))
        st.code(lines, language="bash", wrap_lines=True)
        checked = f", read in {plan['launch_checked']}"
        st.caption(f"Options of {plan['engine']} {plan['launch_version']}{checked}.")
    elif other := next((name for name, one in zip(names, named["plans"], strict=True)
                        if one["launch"]), ""):  # fmt: skip
        words = page_text("no launch line", engine=plain(plan["engine"]), other=plain(other))
        st.info(words, icon=":material/info:")
    for name, text in plan["launch_files"].items():
        st.caption(f"{name}:")
        st.code(text, language="yaml")
    say_each(plan["launch_notes"], form="- {}")


def _others(named: Named) -> None:
    rows = [
        {
            "family": other["family"],
            "nearest": f"{quantities.counted(near['devices'], 'device')}, {plan_text.shape(near)}"
            if near
            else None,
            "why it loses": other["why"],
        }
        for other in named["others"]
        for near in [other.get("nearest")]
    ]
    if rows:
        draw_table(rows, "plan_others")
    else:
        st.caption("No alternatives were searched: add systems, engines or formats.")
    for at, one in enumerate(named["pays"]):
        st.markdown(f"{plain(capital(one['words']))}.")
        draw_table(one["rows"], f"plan_pays_{at}")


def _measure(named: Named) -> None:
    best = named["plans"][0] if named["plans"] else {"benchmark": "", "guard": ""}
    if checks := f"{best['benchmark']}\n{best['guard']}".strip():
        st.markdown("Check the running deployment under the planned load:")
        st.code(checks, language="bash", wrap_lines=True)
    measured = named["measurement"]
    if measured:
        figure = COLUMNS[measured["figure"]].head
        st.markdown(
            f"The measurement that narrows the interval of {figure} most: "
            f"{plain(measured['words'])}."
        )
        st.code(measured["command"], language="bash", wrap_lines=True)
        export.save_button("Points file (CSV)", measured["points"], "points.csv", icon=None)


def _downloads(named: Named, answer: Answer, startable: Named, before: Callable[[], Named]) -> None:
    """Draw what can be saved.  before: the document of the deployment that the form states."""
    with st.container(horizontal=True):
        export.save_button("Report (HTML)", lambda: report.html(named, answer), "plan.html")
        export.save_button("Report (Markdown)", lambda: report.markdown(named), "plan.md")
        export.save_button("Plan (YAML)", lambda: report.to_yaml(named), "plan.yaml")
        export.save_button("Plan (JSON)", lambda: to_json(named), "plan.json")
        export.save_button("Launch commands", lambda: report.script(named), "launch.sh")
    if startable["plans"]:
        kind = _deployment(startable)
        export.save_button(
            "Before and after (ZIP)",
            lambda: report.before_and_after(before(), startable, kind), "before_and_after.zip",
            icon=":material/difference:", key="save_both",
            help=page_text("before and after"),
        )  # fmt: skip
    st.caption("The same on the command line:")
    st.code(report.command(named), language="bash", wrap_lines=True)


def _deployment(named: Named) -> str:
    """Draw files of the best plan for a cluster, to look at and to save; returns their kind."""
    kind = st.segmented_control("The best plan for a cluster", KINDS, key="plan_deployment",
                                bind="query-params", help=page_text("manifests"))  # fmt: skip
    if not kind:
        return ""
    try:
        made = bundle(named, kind)
    except InvalidValue as refused:
        st.info(f"{plain(str(refused))}.")
        return str(kind)
    export.save_button("All files (ZIP)", made.zipped(), f"{kind}.zip", key="save_deployment")
    for name, text in made.files.items():
        with st.expander(name):
            st.code(text, language="yaml")
    say_each(made.notes, form="- {}")
    return str(kind)
