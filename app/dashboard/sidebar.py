"""The scenario's controls in the sidebar; each is bound to the address, so a link restores it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, NoReturn

import streamlit as st

from app.dashboard import (
    caches,
    export,
    load_curves,
    near_names,
    old_links,
    open_point,
    own_definitions,
    phrases,
    pinned_scenarios,
    search_form,
    traces,
    tracing,
)
from app.dashboard.does_not_fit import runnable
from app.dashboard.load_curves import Load, alone, as_batch, load_of, under
from app.dashboard.page_texts import page_text
from app.dashboard.question_form import control, drawer, refused_in_address, set_controls
from app.dashboard.widgets import say_each
from app.line.presets import PRESETS
from app.line.words import short
from app.question.question import STANDARD, Question
from app.question.validity import has_pool, meaningless, refuse_contradictions
from app.question.verbs import NOT_OF_A_BATCH
from app.scenario.description import setup_words
from app.scenario.gate import meaningless_for
from app.scenario.known_systems import find_system
from app.scenario.scenario import Resolved
from app.scenario.setup import Setup
from app.wording.markdown import plain, with_code
from genz_core import Estimate
from genz_core.errors import InvalidValue, RidgelineError
from genz_core.models.model_kinds import check_generates


def sidebar() -> None:
    """Draw unreadable files and the scenario's controls; store their setup, or its error."""
    old_links.take()
    search_form.take_lists()
    open_point.take_next()
    export.mark_charts("")
    with st.sidebar:
        say_each(caches.left_out(), st.warning, icon=":material/warning:")
        model, system = control("model"), control("system")
        try:
            own_definitions.ask_button(model)
            chosen = _scenario(model, system)
        except RidgelineError as error:
            said = dict.fromkeys((str(error), *refused_in_address()))
            st.session_state["setup"] = error if len(said) == 1 else InvalidValue("; ".join(said))
            st.error(with_code("; ".join(said)))
            return
        st.session_state["setup"] = own_definitions.attach(Setup(chosen))
        st.page_link("views/upload.py", label="Upload a file", icon=":material/upload_file:")
        pinned_scenarios.pins_and_link()


def chosen_setup() -> Setup:
    """The sidebar's setup; if its controls have an error, the page stops with a sentence."""
    setup = st.session_state.get("setup", Setup())
    if isinstance(setup, RidgelineError):
        stop(setup)
    return setup


def priced_setup(generation: str = "") -> tuple[Setup, Resolved, Estimate]:
    """The sidebar's setup with its model, system and engine, and its estimate.

    If it cannot be priced, the page stops with a sentence; if its model must be traced first, with
    the progress of the trace.
    generation: the part of the page that applies only to generation, as the subject of a sentence;
    the page stops there for a model that generates nothing.
    """
    setup, _ = deployed_setup(generation)
    with stopping():
        setup = as_batch(setup)
        return setup, caches.deployed(setup), caches.priced(setup)


def deployed_setup(generation: str = "") -> tuple[Setup, Resolved]:
    """The sidebar's setup with its model, system and engine, without pricing.

    The page stops as in `priced_setup`, with the same meaning of `generation`.
    """
    setup = chosen_setup()
    with stopping():
        if not tracing.is_trace_ready(setup, described=False):
            st.stop()
        resolved = caches.deployed(setup)
        if generation:
            check_generates(resolved.model, generation)
        return setup, resolved


def gated(setup: Setup, resolved: Resolved, estimate: Estimate) -> tuple[Setup, Resolved, Estimate]:
    """A static batch to draw; if it cannot run, the page stops with the reason.

    With the switch "If it fitted" its memory is large enough, and every chart is marked.
    """
    say_unread(resolved)
    least, batch = estimate, setup.scenario.batch
    if chosen_setup().scenario.kind != "batch":  # a load runs where one of its requests fits
        least, batch = caches.priced(alone(setup)), 1
    shown = runnable(setup, str(least.status[0]), least.message(), batch)
    return (setup, resolved, estimate) if shown is setup else as_if_fitted(setup)


def as_if_fitted(setup: Setup) -> tuple[Setup, Resolved, Estimate]:
    """A static batch as it would run if its memory were large enough."""
    shown = replace(setup, if_fitted=True)
    return shown, caches.deployed(shown), caches.priced(shown)


def gated_load(setup: Setup, *, switch: bool = True) -> tuple[Setup, Load, Mapping[str, Any]]:
    """`gated` for a setup under its load: the setup that is drawn, the load and its figures.

    switch: whether the page has the switch "If it fitted".
    """
    load = load_of(setup)
    setup = under(setup, load)
    say_unread(caches.deployed(setup))
    row = load_curves.one_load(setup)
    shown = runnable(setup, str(row["status"]), str(row["message"]), 1, switch=switch)
    return shown, load, load_curves.one_load(shown)


def say_trace() -> None:
    """Draw a caption if `priced_setup` uses a batch that represents a trace."""
    if chosen_setup().scenario.kind == "trace":
        st.caption(page_text("load of a trace"))


def say_unread(resolved: Resolved) -> None:
    """Draw captions on stated parameters that neither the load nor the model uses, and on those
    that the batch of a load leaves out.
    """
    drawn, asked = resolved.scenario, chosen_setup().scenario
    said = [*meaningless(drawn), *meaningless_for(resolved)]
    if said:
        st.caption(f"Not used here: {plain('; '.join(said))}.")
    left_out = [one for one in NOT_OF_A_BATCH if getattr(drawn, one) != getattr(asked, one)]
    if drawn.kind == "batch" and left_out:
        where = "a replica" if asked.replicas > 1 else "the deployment"
        where = "a worker of the decode pool" if has_pool(asked) else where
        st.caption(page_text("left out of a batch", where=where, names=plain(", ".join(left_out))))


def stop(error: RidgelineError) -> NoReturn:
    """Show an error as its sentence and end the page."""
    st.error(with_code(error), icon=":material/error:")
    near_names.near_buttons(error)
    st.caption("Change the scenario in the sidebar to see this page.")
    st.stop()
    raise error


@contextmanager
def stopping() -> Iterator[None]:
    """End the page with a sentence, see `stop`, if the block raises an error."""
    try:
        yield
    except RidgelineError as error:
        stop(error)


# ------------------------------------------------------------------------------- controls


def _scenario(model: str, system: str) -> Question:
    """Draw the visible controls and the drawer; returns their question."""
    asked: dict[str, Any] = {"model": model, "system": system}
    of_degree, of_engine = st.columns((2, 3), gap="xxsmall")
    asked["tp"] = control("tp", of_degree, help=page_text("degrees"))
    asked["engine"] = control("engine", of_engine)
    asked["weights"] = control("weights")
    of_load, of_lengths = st.columns(2, gap="xxsmall")
    asked |= phrases.box("load", of_load) | phrases.box("lengths", of_lengths)
    if asked.get("trace"):
        asked["trace"] = traces.uploader()
    asked |= phrases.box("targets")
    with st.expander("More", icon=":material/tune:", key="more_open", on_change="rerun") as more:
        if more.open:
            _usual_loads()
        rent = {"price": {"placeholder": _public_rent(system)}}
        asked |= drawer(rent, opened=bool(more.open))
    question = Question(**asked)
    with more:
        search_form.drawer(question, opened=bool(more.open))
    refuse_contradictions(question)
    return question


def _usual_loads() -> None:
    """Draw a button for each usual load, in a collapsed list."""
    with st.expander("Usual loads", icon=":material/bolt:"), st.grid(2, min_column_width=120):
        for name, values in PRESETS.items():
            words = [f"{name[0].upper()}{name[1:]}"]
            if "isl" in values:
                words.append(f"{short(values['isl'])}/{short(values['osl'])}")
            if values.get("prefix_hits"):
                words.append(f"{values['prefix_hits']:.0%} cached")
            st.button(" ".join(words), key=f"preset_{name.replace(' ', '_')}", width="stretch",
                      on_click=_apply_preset, args=(values,))  # fmt: skip


def _apply_preset(values: Mapping[str, Any]) -> None:
    """Set the controls of a usual load, and reset those of an earlier one that it leaves out."""
    usual = {name: getattr(STANDARD, name) for name in ("isl", "osl", "prefix_hits")}
    set_controls({**usual, **values})


def _public_rent(system: str) -> str:
    """The text of the empty rent box: the system's public price, if it has one."""
    with suppress(RidgelineError):  # said by the page
        if price := find_system(system).price_usd_per_hour:
            return f"{price:.2f}, as published"
    return "none known"


def describe(setup: Setup) -> str:
    """Model, system, degrees, engine, formats, workload and changes, a line of Markdown."""
    return " · ".join(map(plain, setup_words(setup)))
