"""Widgets of several pages: cards, choices, sentences, tables of errors."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import streamlit as st

from app.charts import parity
from app.charts.figure import Figure
from app.dashboard import export
from app.wording.markdown import with_code
from genz_core.errors import InvalidValue, RidgelineError
from hardware_db import yaml_document

Points = Sequence[dict[str, Any]]
One = TypeVar("One")
Answer = TypeVar("Answer")
#: Heading and explanation of each column in a table of errors.
HEADINGS = yaml_document.read(Path(__file__).with_name("error_columns.yaml"))
_METRICS = {r"^tpot_s\b": "TPOT", r"^ttft_s\b": "TTFT"}


def card(label: str, value: str, beside: str, meaning: str = "", *, alarming: bool = False) -> None:
    """Draw a figure on a card: its name, its value, and a figure to compare it with below."""
    st.metric(
        label, value, beside, border=True, help=meaning or None,
        delta_color="inverse" if alarming else "off", delta_arrow="off", height="stretch",
    )  # fmt: skip


def say_error(error: object) -> None:
    """Draw an error as its sentence."""
    st.error(with_code(error), icon=":material/error:")


def say_each(
    texts: Iterable[object],
    draw: Callable[..., object] = st.markdown,
    form: str = "{}",
    **more: Any,
) -> None:
    """Draw external texts one below the other.

    draw, more: Streamlit's function, and its arguments.  form: what stands around each text.
    """
    for text in texts:
        draw(form.format(with_code(text)), **more)


@contextmanager
def saying_errors() -> Iterator[None]:
    """Draw the error of the block as its sentence; what follows the block is drawn too."""
    try:
        yield
    except RidgelineError as error:
        say_error(error)


def each_answered(asked: Mapping[str, One], answer: Callable[[One], Answer]) -> dict[str, Answer]:
    """The answers to questions by their names; draws the error of each that has none."""
    found: dict[str, Answer] = {}
    for name, one in asked.items():
        try:
            found[name] = answer(one)
        except RidgelineError as error:
            say_error(f"{name}: {error}")
    return found


def draw_table(rows: Any, key: str, **more: Any) -> Any:
    """Draw a table without its index and with all rows visible; returns the selection.

    rows: a data frame, or a sequence of mappings.  more: arguments of `st.dataframe`.
    """
    usual = {"hide_index": True, "height": "content", "placeholder": "–"}
    frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows)
    return st.dataframe(frame, key=key, **{**usual, **more})


def choose(label: str, options: Sequence[str], key: str, **more: Any) -> str:
    """Draw a choice among options, by default the first, bound to the address."""
    usual = {"default": options[0], "required": True, "bind": "query-params"}
    chosen: str = st.segmented_control(label, options, key=key, **{**usual, **more})
    return chosen


def pick(label: str, options: Sequence[str], key: str, **more: Any) -> str:
    """`choose` as a drop-down box, for any number of options."""
    chosen: str = st.selectbox(label, options, key=key, bind="query-params", **more)
    return chosen


def one_of(label: str, items: Sequence[One], words: Callable[[One], str], key: str) -> One:
    """Draw a choice among items if there are several, by their words; returns the chosen one."""
    if len(items) == 1:
        return items[0]
    named = range(len(items))
    return items[st.selectbox(label, named, format_func=lambda at: words(items[at]), key=key)]


def slide(label: str, least: float, most: float, usual: float, key: str, **more: Any) -> float:
    """Draw a slider, bound to the address; returns its number.

    more: arguments of `st.slider`.
    """
    said = st.query_params.get(key)
    try:
        reached = said is None or least <= float(said) <= most
    except ValueError:
        reached = False
    if not reached:
        raise InvalidValue(f"{key} = {said}: give a number from {least:g} to {most:g}")
    return float(st.slider(label, least, most, usual, key=key, bind="query-params", **more))


def follow(key: str, now: int) -> None:
    """Move the slider of a key to the question's value when that has changed."""
    if st.session_state.setdefault(f"{key}_was", now) != now:
        st.session_state[key] = st.session_state[f"{key}_was"] = now


def draw_tabs(tabs: Mapping[str, Callable[[], object]], key: str, **more: Any) -> None:
    """Draw tabs by title; only the open tab calls its function.

    more: arguments of `st.tabs` other than its binding to the address.
    """
    places = st.tabs(list(tabs), key=key, **(more or {"bind": "query-params"}))
    for place, draw in zip(places, tabs.values(), strict=True):
        if place.open:
            with place:
                draw()


def titled_table(title: str, rows: Points, key: str, caption: str = "") -> None:
    """Draw a table with a title, or a sentence if the fit that writes it has not run."""
    st.subheader(title, anchor=False)
    if not rows:
        st.caption("Not available: the fit that produces this table has not been run.")
        return
    shown = pd.DataFrame(rows).dropna(axis=1, how="all")
    if "metric" in shown:
        shown["metric"] = shown["metric"].replace(_METRICS, regex=True)
    headings = {
        name: st.column_config.Column(label, help=meaning)
        for name, (label, meaning) in HEADINGS.items()
    }
    draw_table(shown, key, height="auto", column_config=headings)
    if caption:
        st.caption(caption)


def parity_and_errors(points: parity.Points, by: str, title: str, key: str) -> dict[str, Figure]:
    """Draw the parity of points and the histogram of their errors; returns both by name.

    points, by: as for `app.charts.parity.parity`.
    """
    look = export.look()
    figures = {
        "parity": parity.parity(points, by, f"{title}, by {by}", look),
        "errors": parity.error_histogram(points, "Spread of the errors", look),
    }
    export.beside(key, figures, (3, 2))
    return figures
