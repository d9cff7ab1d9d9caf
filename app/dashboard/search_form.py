"""The search space of a question, used by Compare and Plan, as a group of the sidebar.

A page reads it with `space`, or with `searched` together with the sidebar's question.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import streamlit as st

import hardware_db
from app.dashboard import own_definitions, traces
from app.dashboard.page_texts import page_text
from app.dashboard.question_form import control, several
from app.dashboard.widgets import pick
from app.decide.axes import ACROSS, UPWARDS
from app.decide.comparison import USE_CASES
from app.decide.loads import under_load
from app.decide.measured_versions import measured_versions
from app.decide.plan_query import Searched
from app.planning.space import DEGREES, KINDS
from app.planning.targets import FIGURES
from app.question.question import STANDARD, Question
from app.question.verbs import parameters_of
from app.scenario.known_systems import find_system
from app.scenario.setup import Setup
from app.wording.markdown import plain
from genz_core.errors import RidgelineError

#: Boxes for several values: key in an address, and label, by parameter.
AMONG: Mapping[str, tuple[str, str]] = {
    "system": ("systems", "Systems"),
    "engine": ("engines", "Engines"),
    "engine_version": ("versions", "Versions of the engine"),
    "weights": ("formats", "Formats of weights"),
    "model": ("models", "Models to compare"),
    "speculation": ("drafts", "Speculation"),
}
#: Use cases to compare, whose lengths replace those of the question.
USES = "uses"
#: Other parameters of a search, and arguments of their widgets that differ from the default.
NUMBERS = (
    "devices", "pools", "rank", "confidence", "top", "simulate", "break_even", "cross_systems",
)  # fmt: skip
_DRAWN: Mapping[str, Mapping[str, Any]] = {
    "pools": {"placeholder": "both"},
    "rank": {"options": list(FIGURES), "index": None, "placeholder": "cost, else devices"},
}
#: Toggle that makes Plan also search degrees and engines.
FREE = "free"
_FREED = (*DEGREES, "engine", "engine_version", "max_num_seqs")
_MOST, _KEPT, _OPEN = 12, "search_space", "search_open"
#: Parameters of the search that a plan chooses.
_SEARCHED = ("system", "engine", "weights", "speculation")
#: Requests of a trace for the simulation of plans while the page waits.
_MOST_REQUESTS = 5000


@dataclass(frozen=True, slots=True)
class Space:
    """A search space.

    among: values to choose among, by parameter.  uses: names of use cases.
    numbers: the other parameters of a search.  free: whether degrees and engine are searched even
    if the sidebar states them.
    """

    among: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    uses: tuple[str, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)
    free: bool = False

    @property
    def pools(self) -> dict[str, Any]:
        """The numbers of a plan; a separate prefill system applies only to pools."""
        pooled = KINDS[1] in (self.numbers["pools"] or KINDS)
        return {**self.numbers, "cross_systems": pooled and self.numbers["cross_systems"]}


def drawer(question: Question, *, opened: bool) -> None:
    """Draw the group, collapsed unless it is in use, and store its space for the page.

    opened: whether the drawer that contains it is open.
    """
    used = any(_is_used(key) for key in keys())
    first = st.session_state.setdefault(f"{_OPEN}_at_first", used)
    st.session_state[_KEPT] = Space(numbers=_usual())
    if not (opened or used):
        return
    place = st.expander("Search", first, key=_OPEN, on_change="rerun")
    if not (place.open or used):
        return
    with place:
        st.caption("Values that Compare and Plan try; if empty, the value of the form above.")
        among = {name: several(name, key, label, question, max_selections=_MOST,
                               **_options(name, question))
                 for name, (key, label) in AMONG.items()}  # fmt: skip
        uses = tuple(st.multiselect("Use cases", list(USE_CASES), key=USES, bind="query-params",
                                    placeholder="the lengths above"))  # fmt: skip
        free = st.toggle("Also search parallelism and engines", key=FREE, bind="query-params",
                         help=page_text("free search"))  # fmt: skip
        numbers = {name: control(name, **_DRAWN.get(name, {})) for name in NUMBERS}
    chosen = {name: values for name, values in among.items() if values}
    st.session_state[_KEPT] = Space(chosen, uses, numbers, free)


def take_lists() -> None:
    """Put several values that the address has of a parameter with one value, "h100,h200", into the
    search; called before any control is drawn.
    """
    said = {name: ",".join(st.query_params.get_all(name)).split(",") for name in AMONG}
    lists = {name: [text.strip() for text in texts] for name, texts in said.items() if texts[1:]}
    for name, texts in lists.items():
        st.query_params[name] = texts[0]
        st.query_params[AMONG[name][0]] = texts
    if lists:
        st.rerun()


def opener() -> None:
    """Draw the button that opens the group."""
    st.button(
        "Choose", key="open_search", icon=":material/tune:", type="tertiary",
        on_click=st.session_state.update, args=({"more_open": True, _OPEN: True},),
        help=page_text("search"),
    )  # fmt: skip


def space() -> Space:
    """The search space of the group."""
    kept = st.session_state.get(_KEPT)
    return kept if isinstance(kept, Space) else Space(numbers=_usual())


def unread(among: Collection[str]) -> list[str]:
    """Labels of the boxes with values that a page does not use.

    among: parameters whose boxes it uses, "use" for the use cases.
    """
    said = space()
    labels = {name: label for name, (_, label) in AMONG.items() if name in said.among}
    labels |= {"use": "Use cases"} if said.uses else {}
    return [label for name, label in labels.items() if name not in among]


def keys() -> tuple[str, ...]:
    """Keys of all controls of the group."""
    return (*(key for key, _ in AMONG.values()), USES, FREE, *NUMBERS)


def _options(name: str, question: Question) -> dict[str, Any]:
    """Options of a box whose parameter declares none."""
    if name != "engine_version":
        return {}
    names: Sequence[str] = ()
    with suppress(RidgelineError):  # said by the page
        usual = hardware_db.engines_for(find_system(question.system))[0]
        names = measured_versions(question.engine or usual)
    return {"options": names, "accept_new_options": True}


def _usual() -> dict[str, Any]:
    """Default numbers of a search."""
    return {name: getattr(STANDARD, name) for name in NUMBERS}


def _is_used(key: str) -> bool:
    """Whether the address or the session has a value for a control."""
    usual = getattr(STANDARD, key, None)
    silent: tuple[Any, ...] = (None, "", [], False, usual, str(usual), "0")
    return key in st.query_params or st.session_state.get(key, usual) not in silent


# ------------------------------------------------------------------------------- what is asked


def freed(question: Question) -> Question:
    """The question with degrees and engine left open for the search."""
    return replace(question, **{name: getattr(STANDARD, name) for name in _FREED})


def every_load(question: Question) -> Question:
    """The question for one replica, with all degrees of its devices and all loads left open."""
    loop = replace(freed(question), batch=1, rate=None, trace=None, concurrency=1, pools=KINDS[:1])
    return replace(loop, engine_version=question.engine_version)


def own_systems() -> tuple[tuple[str, str], ...]:
    """Texts of the visitor's own systems, by name."""
    return tuple(own_definitions.own_texts("systems").items())


def searched(setup: Setup) -> Searched:
    """The sidebar's question with its search space."""
    chosen = space()
    question = replace(kept(under_load(setup.scenario), _SEARCHED), **chosen.pools)
    question = freed(question) if chosen.free else question
    among = {name: values for name, values in chosen.among.items() if name in _SEARCHED}
    setup = replace(setup, scenario=question)
    asked = Searched(setup, tuple(among.items()), own_systems())
    if question.kind != "trace":
        return asked
    key, trace = traces.keyed(_MOST_REQUESTS)
    what = "; ".join([trace.name, *trace.notes])
    st.caption(page_text("planned trace", trace=plain(what)))
    return replace(asked, trace=trace, trace_key=key)


def kept(question: Question, among: Collection[str]) -> Question:
    """The sidebar's question without parameters that a plan ignores, with a note on them.

    among: search parameters that the page reads, see `unread`.
    """
    known = parameters_of("plan")
    idle = [name for name in question.changed() if name not in known and name != "batch"]
    if said := [*idle, *unread(among)]:
        st.caption(f"Not used here: {', '.join(said)}.")
    return replace(question, batch=1, **{name: getattr(STANDARD, name) for name in idle})


def chosen_axes(page: str) -> tuple[str, str]:
    """Draw the boxes of a chart's axes; returns a name of `ACROSS` and one of `UPWARDS`."""
    with st.popover("Axes", icon=":material/swap_horiz:"):
        across = pick("Across", list(ACROSS), f"{page}_x",
                      format_func=lambda name: ACROSS[name].words)  # fmt: skip
        upwards = pick("Upwards", list(UPWARDS), f"{page}_y",
                       format_func=lambda name: UPWARDS[name].words)  # fmt: skip
    return across, upwards
