"""Page Compare by models, systems, engines, versions or use cases: one thing changed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isfinite

import pandas as pd
import streamlit as st

from app.charts import setups as charts
from app.charts.figure import Figure
from app.charts.memory import PARTS
from app.dashboard import (
    caches,
    display_tables,
    export,
    own_definitions,
    search_form,
    sidebar,
    strip,
)
from app.dashboard.load_curves import as_batch, batches_words
from app.dashboard.page_texts import page_text
from app.dashboard.widgets import draw_table, each_answered, pick, say_each
from app.decide import comparison as model
from app.decide.comparison import AXES, HEADLINES, USE_CASES
from app.decide.loads import under_load
from app.decide.measured_versions import measured_of, usual_versions
from app.scenario import intervals, operator_intervals
from app.scenario.description import load_words
from app.scenario.intervals import Ranged
from app.scenario.levers import phases_of
from app.scenario.served_rows import as_calibrated, completed
from app.scenario.setup import Setup
from app.scenario.summary import step_of
from app.wording.markdown import plain
from genz_core import Estimate
from genz_core.errors import InvalidValue
from genz_core.models.model_kinds import generates

#: Default comparisons; the sidebar's own value is the first.
_USUAL: Mapping[str, tuple[str, ...]] = {
    "model": ("meta-llama/Llama-3.1-8B", "Qwen/Qwen3-8B"),
    "system": ("h100-sxm5-80gb", "h200-sxm-141gb", "b200-sxm-180gb"),
    "engine": ("vllm", "sglang", "trtllm"),
    "weights": ("", "fp8"),
    "use": tuple(USE_CASES),
}
_OWN: Mapping[str, own_definitions.Kind] = {"model": "models", "system": "systems"}


def show(tab: str, base: Setup) -> None:
    """Draw one of `TABS` of the sidebar's scenario with one thing changed."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        axis = chosen_axis()
        search_form.opener()
    with sidebar.stopping():
        names = compared(axis, base)
    strip.say(under_load(base.scenario), "sweep", {axis: tuple(names)}, lead="Compare")
    if unused := search_form.unread((axis,)):
        st.caption(f"Not used here: {', '.join(unused)}.")
    sidebar.say_trace()
    own = " (the sidebar's batch)" if base.scenario.kind == "batch" else ""
    base = as_batch(base) if base.scenario.kind == "trace" else base
    setups = each_answered(model.setups(base, axis, names), own_definitions.attach)
    found = {name: setups[name] for name in each_answered(setups, _figures)}
    if not found:
        return
    s = base.scenario
    assumed = page_text("assumed lengths") if axis == "use" else ""
    load = f"{load_words(under_load(s))}{own}"
    st.caption(page_text("one thing changed", load=load, s=s, assumed=assumed))
    TABS[tab](axis, found, base)


def chosen_axis() -> str:
    """Draw the choice of what differs; returns an axis."""
    axes = {words: axis for axis, words in AXES.items()}
    return axes[pick("Compare", list(axes), "compare_by", width=180)]


def compared(axis: str, base: Setup) -> list[str]:
    """The compared values along an axis: those of the search, otherwise the usual ones with the
    sidebar's.

    Raises:
        InvalidValue: there are none.
    """
    space, s = search_form.space(), base.scenario
    said = space.uses if axis == "use" else space.among.get(axis, ())
    if said:
        return list(said)
    if axis == "engine_version":
        resolved = caches.resolved(base)
        if names := usual_versions(resolved):
            return names
        engine = resolved.engine.name
        raise InvalidValue(f"no version of {engine} was measured; name some under Search")
    own = [getattr(s, axis)] if axis in ("model", "system", "weights") else []
    same = _full_name(axis, base)
    return list(dict.fromkeys([*own, *(name for name in _USUAL[axis] if name != same)]))


def _full_name(axis: str, base: Setup) -> str:
    """The full name of the sidebar's model or system, "" for a visitor's own or another axis."""
    if axis not in _OWN or getattr(base.scenario, axis) in own_definitions.own_texts(_OWN[axis]):
        return ""
    resolved = caches.resolved(own_definitions.attach(base))
    return resolved.system.slug if axis == "system" else resolved.model.name


@caches.by_setup(128)
def _figures(setup: Setup) -> dict[str, Ranged]:
    loaded = replace(setup, scenario=under_load(setup.scenario))
    return model.figures(completed(as_calibrated(caches.resolved(loaded)), {}))


def _figures_tab(axis: str, found: Mapping[str, Setup], base: Setup) -> None:
    look = export.look()
    table = {name: _figures(setup) for name, setup in found.items()}
    say_each(model.verdict(table), form="- {}")
    figures = {
        about.head: charts.headline(table, n, look)
        for n, about in HEADLINES.items()
        if any(isfinite(each[n].value) for each in table.values())
    }
    export.grid("headline", figures, 2, 360)
    best = {name: model.best(table, name) for name in HEADLINES}
    draw_table(display_tables.comparison_words(table, best), "compare_figures")
    st.caption(page_text("headlines"))
    export.downloads(
        "compare-by", figures, display_tables.comparison_numbers(table), base, of_setup=False
    )
    if axis == "engine_version":
        _versions(base, list(found))


def _versions(base: Setup, names: Sequence[str]) -> None:
    resolved = caches.resolved(base)
    st.subheader(f"Measured of {plain(resolved.engine.name)}", anchor=False)
    table = pd.DataFrame(measured_of(resolved, names))
    ratio = st.column_config.NumberColumn(format="%.2f")
    ratios = {name: ratio for name in table if " / " in name}
    draw_table(table, "compare_versions", column_config=ratios)
    st.caption(page_text("versions"))


def _priced(found: Mapping[str, Setup]) -> dict[str, Estimate]:
    """The estimates of the batches that represent the setups' loads, with a note."""
    batches = {name: as_batch(setup) for name, setup in found.items()}
    st.caption(batches_words(batches))
    return {name: caches.priced(batch) for name, batch in batches.items()}


def by_class(estimates: Mapping[str, Estimate], key: str) -> dict[str, Figure]:
    """Draw both steps of estimates by operator class; returns the charts by phase."""
    figures = {}
    for phase in ("prefill", "decode"):
        having = {name: one for name, one in estimates.items() if phase in phases_of(one)}
        if not having:
            continue
        made = any(generates(one.model) for one in having.values())
        title = f"{f'{phase.capitalize()} step' if made else 'The forward pass'} by operator class"
        totals = {name: intervals.step_latency(one, phase) for name, one in having.items()}
        classes = [operator_intervals.by_class(step_of(one, phase)) for one in having.values()]
        figures[phase] = charts.stacked_by_class(totals, classes, title, export.look())
        export.chart(figures[phase], f"{key}-{phase}")
    return figures


def _memory_tab(axis: str, found: Mapping[str, Setup], base: Setup) -> None:
    parts, usable = {}, []
    for name, estimate in _priced(found).items():
        parts[name] = {part: float(getattr(estimate.memory, part)[0]) for part in PARTS}
        usable.append(float(estimate.memory.usable_bytes))
    export.chart(charts.memory(parts, usable, export.look()), "compare-memory")


#: Parts of the page that compare by an axis; each is given it, the setups by name and the base.
TABS: Mapping[str, Callable[[str, Mapping[str, Setup], Setup], object]] = {
    "Figures": _figures_tab,
    "Breakdown": lambda axis, found, base: by_class(_priced(found), "compare-by"),
    "Memory": _memory_tab,
}
