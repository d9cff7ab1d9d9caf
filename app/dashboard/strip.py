"""The question at the top of every page: a sentence, and a box for a typed line.

Parts of the sentence that a page does not use are grey, and parts that it searches over read "any".
An understood line sets the controls of the form and of the page that answers it.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import streamlit as st
from streamlit.errors import StreamlitAPIException

from app.dashboard import caches, phrases
from app.dashboard.completion import complete
from app.dashboard.page_texts import page_text
from app.dashboard.question_form import controls, set_controls
from app.dashboard.search_form import AMONG, NUMBERS
from app.line.largest_load import with_largest_load
from app.line.line import Line
from app.line.line_parser import LONGEST, read
from app.line.line_text import written
from app.line.sentence import Part, sentence, words
from app.line.unread import NotUnderstood, Unread
from app.question import literals, verbs
from app.question.parameters import PARAMETERS
from app.question.question import LOADS, STANDARD, Question
from app.scenario.inputs import sound_seconds
from app.scenario.setup import Setup
from app.wording.markdown import plain, unbroken, with_code
from app.wording.quantities import count
from genz_core.errors import RidgelineError
from genz_core.models.model_kinds import generates

#: The verb of each page, by address; other pages have no strip.
VERBS: Mapping[str, str] = {
    "": "serve", "answer": "serve", "explain": "estimate", "compare": "estimate",
    "plan": "plan", "chip_lab": "sensitivity",
}  # fmt: skip
#: Parameters that pages use beyond their verb, and parameters of the verb that they do not use.
_ALSO = dict.fromkeys(("", "answer"), ("target",))
_IDLE = {"explain": verbs.NOT_OF_A_BATCH}
#: The page that answers each verb, if the present page does not.
_PAGES: Mapping[str, str] = {
    "serve": "answer", "estimate": "answer", "simulate": "answer",
    "plan": "plan", "sensitivity": "chip_lab", "economics": "plan",
}  # fmt: skip
_OPEN, _LINE, _REFUSED, _NOTES, _NEXT, _HERE = (
    "question_open", "question_line", "question_refused", "question_notes", "question_next",
    "question_page",
)  # fmt: skip
_SAID, _PLACE, _OPENER = "question_said", "question_place", "question_type"
_EXAMPLE = "llama 70b fp8 on 8 h100 vllm 20/s 2k/500 p99 tpot<30ms"


class _Next(NamedTuple):
    """What the next page takes of a typed line.

    page: the page that answers it.  typed_on: the page where it was typed.  values: those of
    controls outside the sidebar.  new: texts of all controls that no page has drawn yet.
    """

    page: str
    typed_on: str
    values: Mapping[str, Any]
    new: Mapping[str, Any]


def begin(page: str) -> None:
    """Draw the strip of a page, with the sidebar's question until the page calls `say`.

    page: its address.
    """
    if _NEXT in st.session_state:
        _to_address(st.session_state.pop(_NEXT).values)
    setup = st.session_state.get("setup")
    if page not in VERBS or not isinstance(setup, Setup):
        return
    with st.container(key="question_strip", gap="xxsmall"):
        if not st.session_state.get(_OPEN):
            complete(_LINE, _OPENER, opened=False)
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.session_state[_PLACE] = st.empty()
            st.button(
                "Type a question", key=_OPENER, icon=":material/edit:", type="tertiary",
                on_click=_open, help="One line instead of the form.", shortcut="Q",
            )  # fmt: skip
        if st.session_state.get(_OPEN):
            _box()
        if notes := st.session_state.pop(_NOTES, ()):
            st.caption(" ".join(f"{plain(note)}." for note in notes))
    say(setup.scenario, VERBS[page], also=_ALSO.get(page, ()), idle=_IDLE.get(page, ()))


def go(page: str) -> None:
    """Go to the page that answers the typed line, before the form of this one is drawn.

    A visitor who has opened another page since stays there, with the line's question.
    page: the address of the present page.
    """
    asked = st.session_state.get(_NEXT)
    if asked and page == asked.typed_on and (page or "answer") != asked.page:
        st.switch_page(f"views/{asked.page}.py", query_params=asked.new)
    if asked:
        _to_address(asked.new)  # for controls that are drawn again
    st.session_state[_HERE] = page


def _to_address(state: Mapping[str, Any]) -> None:
    """Write values into the address, from which controls that are not drawn yet take them."""
    for name, value in state.items():
        with suppress(StreamlitAPIException):  # of a control that writes its value itself
            if isinstance(value, list):
                st.query_params[name] = value
            elif value not in (None, "", False):
                st.query_params[name] = literals.text(value)


def say(
    question: Question,
    verb: str,
    several: Mapping[str, tuple[Any, ...]] | None = None,
    searched: Collection[str] = (),
    *,
    also: Collection[str] = (),
    idle: Collection[str] = (),
    lead: str = "",
) -> None:
    """Write a question into the strip of the page.  Arguments as for `app.line.sentence`.

    also, idle: parameters that the page uses beyond its verb, and those of the verb that it does
    not use.  lead: first word of the sentence, if the page does something other than the verb.
    """
    place = st.session_state.get(_PLACE)
    if place is None:
        return
    chosen = {name: v for name, v in (several or {}).items() if name in verbs.VERBS[verb].several}
    st.session_state[_SAID] = (question, chosen)
    first, *rest = sentence(question, verb, several, searched, _lengths(question))
    parts = (
        replace(part, used=bool((part.used or set(part.names) & set(also)) and not
                                set(part.names) <= set(idle)))
        for part in (replace(first, lead=lead or first.lead), *rest)
    )  # fmt: skip
    place.markdown(words(parts, _shown))


def _lengths(question: Question) -> str:
    """The lengths of a request in words if the model hears sound or generates nothing, else ""."""
    setup = st.session_state.get("setup")
    if isinstance(setup, Setup):
        with suppress(RidgelineError):
            model = caches.resolved(replace(setup, scenario=question)).model
            heard = sound_seconds(model, question)
            read = f"{heard:g} s of audio" if heard else f"{count(question.isl)} tokens"
            if not generates(model):
                return read
            return f"{read} / {count(question.osl)} tokens" if heard else ""
    return ""


def say_nothing() -> None:
    """Empty the strip, for a part of a page with a question other than the form's."""
    if place := st.session_state.get(_PLACE):
        place.empty()


def _shown(part: Part) -> str:
    lead, said = plain(part.lead), unbroken(plain(part.said))
    return f"{lead} **{said}**".strip() if part.used else f":gray[{lead} {said}]"


# ------------------------------------------------------------------------------- the box


def _open() -> None:
    """Open the box with the page's question as a line, or close it; a callback."""
    st.session_state[_OPEN] = not st.session_state.get(_OPEN)
    st.session_state.pop(_REFUSED, None)
    question, several = st.session_state.get(_SAID, (STANDARD, {}))
    st.session_state[_LINE] = written(question, several)


def _box() -> None:
    """Draw the box, and the words of its line that were not understood."""
    st.text_input(
        "Question", key=_LINE, on_change=_take, max_chars=LONGEST, placeholder=_EXAMPLE,
        help=page_text("question", example=_EXAMPLE),
    )  # fmt: skip
    complete(_LINE, _OPENER, opened=True)
    refused = st.session_state.get(_REFUSED)
    if refused is None:
        return
    st.error(with_code(refused), icon=":material/error:")
    if isinstance(refused, NotUnderstood):
        with st.container(horizontal=True):
            for at, one in enumerate(refused.unread):
                for name in one.near:
                    st.button(name, key=f"question_near_{at}_{name}", on_click=_replace,
                              args=(one, name))  # fmt: skip


def _replace(one: Unread, name: str) -> None:
    """Replace a word that is not understood by a name, and answer again; a callback."""
    st.session_state[_LINE] = st.session_state[_LINE].replace(one.word, name, 1)
    _take()


def _take() -> None:
    """Set the controls from the line in the box, or store the error; a callback."""
    try:
        line = with_largest_load(read(st.session_state[_LINE]).understood())
        state = _state(line)
    except RidgelineError as error:
        st.session_state[_REFUSED] = error
        return
    known = {name for name in state if name in st.session_state or name in phrases.NAMES}
    set_controls(state)
    # a control that is drawn for the first time keeps what the address has of it
    new = {
        name: value if isinstance(value, list) else literals.text(value)
        for name, value in state.items()
        if name not in known and value not in (None, "", False, [])
    }
    st.session_state.pop(_REFUSED, None)
    st.session_state[_OPEN] = False
    st.session_state[_NOTES] = line.notes
    of_the_page = {name: value for name, value in state.items() if name not in controls()}
    typed_on = st.session_state.get(_HERE, "")
    st.session_state[_NEXT] = _Next(_PAGES[line.verb], typed_on, of_the_page, new)


def _state(line: Line) -> dict[str, Any]:
    """The values of all controls for a line; parameters that it leaves out get their defaults."""
    question = line.question
    shared = controls()
    drawn = {name for name in shared if name in st.session_state or name in line.given}
    state: dict[str, Any] = {name: getattr(question, name) for name in shared if name in drawn}
    state |= {name: None for name in LOADS} | {question.kind: getattr(question, question.kind)}
    state |= {name: getattr(question, name) for name in ("isl", "osl", "target")}
    if line.verb == "plan":
        state |= {key: list(line.several.get(name, ())) for name, (key, _) in AMONG.items()}
        numbers = {name: getattr(question, name) for name in NUMBERS}
        state |= {**numbers, "part": "Plan", "free": False, "pools": list(question.pools)}
    elif line.verb in ("sensitivity", "economics"):
        state["part"] = line.verb.capitalize()
    elif line.verb == "simulate":
        state["part"] = "Simulate"
        extra = (name for name in line.given if name in PARAMETERS and name not in state)
        state |= {name: getattr(question, name) for name in extra}
    return state
