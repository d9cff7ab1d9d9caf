"""Exports of a page: charts as HTML, SVG and PNG, tables as CSV and JSON, the scenario as JSON.

PNG, PDF and SVG files are drawn on the server if kaleido and a browser are installed; the camera in
a chart's own toolbar needs neither.
"""

import copy
import functools
import html as html_module
import importlib.util
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import plotly.io
import streamlit as st
from plotly.basedatatypes import BaseFigure

from app.accuracy.tables import Columns
from app.answers.table import to_csv
from app.charts import style
from app.charts.figure import Figure, Trace, faded
from app.charts.labels import LEGEND_LINE, legend_lines, wrapped
from app.dashboard import caches
from app.dashboard.page_texts import page_text
from app.rights import rights_here
from app.scenario.description import setup_words
from app.scenario.setup import Setup
from genz_core.common.installation import pip_install_extra
from genz_core.errors import RidgelineError

#: Columns that saved tables start with.
_NAMES = ("model", "system", "engine")
#: Formats of an exported chart.
_KINDS = ("svg", "pdf", "png")
#: Width in pixels: in a column of 85 mm (241 points) a text of 10 pixels, the smallest, is 6 points
#: high, the smallest that journals print; one of 12 is 7.2.
PRINT_WIDTH, _SMALLEST = 400, 10
#: Space around the footer's text [px].
_EDGES = 12
#: Type of every saved file: browsers keep its name as it is, and open none.
_SAVED = "application/octet-stream"
_UNUSED_BUTTONS = ("lasso2d", "autoScale2d")
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
#: No script from another host, and a proxy that does not exist, because a browser contacts its
#: vendor unasked.
_WITHOUT_NETWORK: Mapping[str, Any] = {"mathjax": False, "proxy_server": "127.0.0.1:9"}


def look() -> style.Look:
    """The look for the visitor's appearance setting."""
    return style.look(st.context.theme.type)


_MARK = "chart_mark"


def mark_charts(words: str) -> None:
    """Fade the charts that this page draws from now on, `words` after their titles; "" for none."""
    st.session_state[_MARK] = words


def chart(
    figure: Figure,
    key: str,
    alt: str = "",
    *,
    select: bool = False,
    clicked: Callable[[], None] | None = None,
    spans: bool = False,
) -> list[dict]:
    """Draw a figure; returns the points that were clicked.

    key: of the widget and of saved files.  alt: the text for screen readers, by default the
    figure's title.  select: whether the figure accepts clicks; if not, the list is empty.  clicked:
    called on a click, before the page is drawn again.  spans: whether boxes may be dragged, too.
    """
    if words := st.session_state.get(_MARK):
        faded(figure, words)
    config = {
        "displaylogo": False,
        "modeBarButtonsToRemove": [*_UNUSED_BUTTONS, *([] if spans else ["select2d"])],
        "toImageButtonOptions": {"format": "svg", "filename": f"ridgeline-{key}"},
    }
    event = st.plotly_chart(
        _AsItIs(figure),
        theme=None,
        key=key,
        config=config,
        alt=alt or str(figure.layout["title"]["text"]),
        on_select=clicked or ("rerun" if select else "ignore"),
        selection_mode=("points", "box") if spans else "points",
    )
    return event["selection"]["points"] if select or clicked else []


def beside(prefix: str, figures: Mapping[str, Figure], widths: int | Sequence[int] = 2) -> None:
    """Draw figures by their names side by side.  prefix: of their keys."""
    places = st.columns(widths, gap="medium")
    for place, (name, figure) in zip(places, figures.items(), strict=True):
        with place:
            chart(figure, _key(prefix, name))


def grid(prefix: str, figures: Mapping[str, Figure], columns: int, least_px: int) -> None:
    """Draw figures by their names in a grid.  prefix: of their keys.  least_px: of a column."""
    with st.grid(columns, min_column_width=least_px):
        for name, figure in figures.items():
            chart(figure, _key(prefix, name))


def _key(prefix: str, name: str) -> str:
    return f"{prefix}-{name}".replace(" ", "-")


class _AsItIs(BaseFigure):
    """A figure that Streamlit sends without the validation that a plain document would get."""

    def __init__(self, figure: Figure) -> None:
        self._document = figure.drawn_once()

    def to_dict(self) -> dict[str, Any]:
        """The document, as `BaseFigure.to_dict` gives it."""
        return self._document


@st.fragment
def downloads(
    name: str,
    figures: Mapping[str, Figure],
    table: pd.DataFrame | Sequence[Mapping[str, Any]] | Columns,
    setup: Setup,
    *,
    of_setup: bool = True,
) -> None:
    """Draw a menu of buttons that save the table, the scenario and every figure.

    The buttons are drawn when the menu is open, each file is made at the click.  table: also as its
    rows or columns.  of_setup: whether all rows are figures of the setup, whose names they get.
    """

    def every_row() -> pd.DataFrame:
        return names_first(pd.DataFrame(table), setup if of_setup else None)

    menu = st.popover("Export", icon=":material/download:", key=f"export {name}", on_change="rerun")
    if not menu.open:
        return
    with menu:
        with st.container(horizontal=True):
            _save("Table (CSV)", lambda: table_csv(every_row()), f"{name}.csv")
            _save("Table (JSON)", lambda: every_row().to_json(orient="records", indent=1),
                  f"{name}.json")  # fmt: skip
            _save("Question (JSON)", lambda: json.dumps(setup.document(), indent=1),
                  "scenario.json", key=f"save {name} scenario.json")  # fmt: skip
        for title, figure in figures.items():
            signed = functools.partial(with_footer, figure, footer_words(setup))
            _figure_buttons(_key(name, title), title, signed)
        st.caption(f"{_files_words()} {page_text('camera')}")


def names_first(table: pd.DataFrame, setup: Setup | None = None) -> pd.DataFrame:
    """The table with its columns model, system and engine in front.

    setup: gives those that the table lacks; without it they are left out.
    """
    names: dict[str, Any] = {}
    if setup is not None:
        of = caches.resolved(setup)
        names = {"model": of.model.name, "system": of.system.slug, "engine": of.engine.name}
    named = table.assign(**{name: word for name, word in names.items() if name not in table})
    front = [name for name in _NAMES if name in named]
    return named[[*front, *(name for name in named.columns if name not in front)]]


@functools.cache
def _files_words() -> str:
    """A note on charts as files, or on what is missing to draw them."""
    if can_draw():
        return "SVG, PDF and PNG use print colours and state the scenario below the chart."
    if importlib.util.find_spec("kaleido") is not None:
        return "SVG, PDF and PNG need Chromium or Chrome on the server's machine."
    if rights_here().shared:  # do not show the server's paths to others
        return "SVG, PDF and PNG need the extra `export` on the server."
    return f"For SVG, PDF and PNG: `{pip_install_extra('export')}`, then start this server again."


def footer_words(setup: Setup) -> str:
    """The footer of an exported chart: model, system, engine, load, version and date."""
    day = datetime.now(UTC).date().isoformat()
    return " · ".join([*setup_words(setup), "Ridgeline", day])


def with_footer(figure: Figure, words: str) -> Figure:
    """A copy of a figure with small print at its lower edge, wrapped if it is long.

    The text is the title of a separate legend: only legends and the title are positioned by the
    edge of the image, whatever space the axes take.
    """
    lines = [
        html_module.escape(line, quote=False)
        for line in wrapped(words, _SMALLEST, PRINT_WIDTH - _EDGES)
    ]
    room = 13 * len(lines) + 12
    signed = Figure()
    signed.layout = copy.deepcopy(figure.layout)
    named = {id(trace): str(trace["name"]) for trace in _named(figure)}
    # a trace that draws nothing, whose entry makes the footer's legend appear
    unseen = Trace(
        x=[None], y=[None], mode="markers", name=" ", legend="legend2", showlegend=True,
        type="scatter", marker={"opacity": 0.0}, hoverinfo="skip",
    )  # fmt: skip
    shown = [{**trace, "showlegend": id(trace) in named} for trace in figure.data]
    signed.data = [*shown, unseen]
    signed.layout["showlegend"] = True
    if not any(trace["type"] in ("bar", "scatter") for trace in figure.data):
        signed.update_layout(xaxis_visible=False, yaxis_visible=False)
    # a chart leaves space for two lines of its legend
    more = max(legend_lines([*named.values()], PRINT_WIDTH) - 2, 0)
    added = room + LEGEND_LINE * more
    height = figure.layout.get("height", 500) + added
    signed.update_layout(
        height=height,
        margin_b=signed.layout.get("margin", {}).get("b", 84) + added,
        legend_y=room / height,
        legend2={
            "title": {"text": "<br>".join(lines), "font": {"size": _SMALLEST}, "side": "top"},
            "orientation": "h",
            "xref": "container", "x": 0, "xanchor": "left",
            "yref": "container", "y": room / height, "yanchor": "top",
            "bgcolor": "rgba(0,0,0,0)",
        },
    )  # fmt: skip
    return signed


def _named(figure: Figure) -> list[Trace]:
    """The traces in the legend; as in Plotly, a single one has no entry unless asked for."""
    asked = figure.layout.get("showlegend")
    named = [trace for trace in figure.data if trace.get("showlegend", True) and trace.get("name")]
    return [] if asked is False or (len(named) < 2 and not asked) else named


def _figure_buttons(stem: str, title: str, figure: Callable[[], Figure]) -> None:
    with st.container(horizontal=True):
        _save(f"{title} (HTML)", lambda: html(figure(), title), f"{stem}.html")
        for kind in _KINDS if can_draw() else ():
            _save(kind.upper(), lambda kind=kind: image(figure(), kind), f"{stem}.{kind}")


def save_button(
    label: str, data: Any, file: str, *, key: str = "", icon: str | None = ":material/download:",
    **more: Any,
) -> None:  # fmt: skip
    """Draw a button that saves a file.

    data: its content, or what makes it at the click.  key: "save" and the file unless given.
    more: arguments of `st.download_button`.
    """
    key = key or f"save {file}"
    st.download_button(label, data, file, _SAVED, key=key, on_click="ignore", icon=icon, **more)


_save = functools.partial(save_button, icon=None)


def table_csv(table: pd.DataFrame) -> str:
    """A table as CSV in which no text is a formula; see `app.answers.table.to_csv`."""
    return to_csv(table.to_dict("records")) + "\n"


def html(figure: Figure, title: str) -> str:
    """A figure as an HTML page that needs no network."""
    document, config = figure.document(), {"displaylogo": False}
    page = plotly.io.to_html(document, config, include_plotlyjs=True, validate=False)
    return page.replace("<head>", f"<head><title>Ridgeline: {title}</title>", 1)


@functools.cache
def can_draw() -> bool:
    """Whether this server can draw image files: kaleido is installed and finds a browser."""
    if importlib.util.find_spec("kaleido") is None:
        return False
    named = os.environ.get("BROWSER_PATH")
    return bool(named or any(shutil.which(name) for name in _BROWSERS))


@functools.cache
def _keep_browser() -> None:
    """Start the browser for drawing, once for all images of this server."""
    import kaleido

    kaleido.start_sync_server(silence_warnings=True, **_WITHOUT_NETWORK)


def image(figure: Figure, kind: str) -> bytes:
    """A figure as "svg", "pdf" or "png" in colours for paper, `PRINT_WIDTH` pixels wide.

    Drawn without scripts from other hosts, by a browser that keeps running for the next image.

    Raises:
        RidgelineError: the browser behind kaleido did not start.
    """
    import kaleido
    from kaleido.errors import ChromeNotFoundError

    size = {"width": PRINT_WIDTH, "height": figure.layout.get("height", 500)}
    scale = 3 if kind == "png" else 1
    document = json.loads(style.printable(plotly.io.to_json(figure.document(), validate=False)))
    try:
        _keep_browser()
        return kaleido.calc_fig_sync(document, opts={"format": kind, **size, "scale": scale})
    except (ChromeNotFoundError, RuntimeError, OSError) as error:
        raise RidgelineError(f"the chart could not be drawn: {error}") from None
