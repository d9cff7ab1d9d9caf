"""Every chart of the pages in a column of a paper and on a phone: text of at least six points,
without overlaps or truncation, with the pages' own letter width and that of the widest usual fonts.
The font is Streamlit's, so that the machine's fonts do not matter.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import plotly
import pytest
import streamlit
from streamlit.testing.v1 import AppTest

from app.charts import style
from app.charts.figure import Figure
from app.dashboard import export, uploads
from app.question.question import Question
from app.scenario.setup import Setup
from tests.app.pages import REPORTS, brought, charts, opened, pressed, settled, shown

pytestmark = pytest.mark.browser

PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
TEXTS = (Path(__file__).parent / "texts.js").read_text(encoding="utf-8")
#: The file of the font "Source Sans" that Streamlit sends with every page.
LETTERS = next(Path(streamlit.__file__).parent.glob("static/**/SourceSansVF-Upright*.woff2"))
#: Space between letters [em]: as in the font, and such that digits are as wide as in DejaVu Sans
#: and Verdana (0.636 em), in which many machines draw a chart's file, with words some percent
#: wider.
OWN, WIDE = 0.0, 0.14
#: Words of charts, and their width in DejaVu Sans 2.37 [em].
SAMPLE, SAMPLE_EM = "InfiniBand NDR 400 Gb/s 50.0 GB/s", 17.56
DRAW = """async ([figure, width, height]) => {
    const chart = document.getElementById('chart');
    Plotly.purge(chart);
    Object.assign(figure.layout, {width, height});
    await Plotly.newPlot(chart, figure.data, figure.layout, {staticPlot: true});
}"""
#: A column of 85 mm and a point of print [mm]; width in pixels of a chart on a phone.
COLUMN_MM, POINT_MM, TELEPHONE = 85.0, 25.4 / 72.0, 358
LEAST_POINTS = 6.0
BUSY = {"model": "openai/gpt-oss-120b", "engine": "vllm", "tp": 2, "batch": 64}
SERVED = {name: value for name, value in BUSY.items() if name != "batch"} | {"concurrency": 64}
SETUP = Setup(Question(**{**BUSY, "engine_version": "0.11.0", "weights": "fp8"}))


def two_pins() -> AppTest:
    return opened("compare", pins=json.dumps([BUSY, {**BUSY, "system": "h200-sxm-141gb"}]))


def a_trace() -> AppTest:
    app = opened("reports")
    return app.pills("upload_samples").set_value([next(iter(uploads.REPORT_SAMPLES))]).run()


def compared_with_a_trace() -> AppTest:
    name = "inference_sglang_prefilldecode_sglang_Qwen3-8B_prefilldecode.json.gz"
    app = opened("measured", model="Qwen/Qwen3-8B", system="mi300x", batch=15, engine="sglang")
    return brought(app, "upload_files", REPORTS / "torch" / name)


def simulated() -> AppTest:
    return pressed(opened("answer", part="Simulate", isl=256, osl=32, **SERVED), "Simulate")


def several_systems() -> AppTest:
    names = "h100-sxm5-80gb,h200-sxm-141gb,b200-sxm-180gb,mi300x"
    return opened("compare", systems=names, target="tpot < 30ms", **BUSY)


def by_systems(tab: str) -> AppTest:
    return shown("compare", compare_by="Systems", part=tab, **BUSY)


PAGES: dict[str, Callable[[], AppTest]] = {
    "static batch": lambda: shown(**BUSY),
    "under load": lambda: shown(target="tpot < 12ms, ttft < 1s", **SERVED),
    "roofline": lambda: shown("roofline", **BUSY),
    "breakdown": lambda: shown("breakdown", **BUSY),
    "memory": lambda: shown("memory", **BUSY),
    "load curves": lambda: shown(part="Load curves", **SERVED),
    "simulate": simulated,
    "compare": two_pins,
    "compare figures": lambda: by_systems("Figures"),
    "compare classes": lambda: by_systems("Breakdown"),
    "compare memory": lambda: by_systems("Memory"),
    "plan": lambda: shown("plan", model="Qwen/Qwen3-32B", rate="20"),
    "frontiers": several_systems,
    "sensitivity": lambda: shown("chip_lab", part="Sensitivity", **BUSY),
    "economics": lambda: shown("plan", part="Economics", economics_api_in="0.5",
                               economics_api_out="2.0", economics_capex="30000", **BUSY),
    "reports": a_trace,
    "measured": compared_with_a_trace,
    "accuracy": lambda: settled(opened("accuracy")),
    "hardware": lambda: shown("hardware"),
    "inside": lambda: shown("inside", **BUSY),
    "modules": lambda: shown("modules"),
}  # fmt: skip


@pytest.fixture(scope="module")
def papers(browser):
    """A page with Plotly and an empty chart by the space between its letters [em].

    A page for each, since Plotly caches the size of a text.
    """
    letters = base64.b64encode(LETTERS.read_bytes()).decode()
    pages = {}
    for between in (OWN, WIDE):
        pages[between] = page = browser.new_page()
        page.set_content(
            "<style>@font-face { font-family: 'Source Sans'; font-weight: 200 900;"
            f" src: url(data:font/woff2;base64,{letters}); }}"
            f" svg text {{ letter-spacing: {between}em; }}</style>"
            "<body style='margin: 0'><div id='chart'></div></body>"
        )
        assert page.evaluate("document.fonts.load(\"12px 'Source Sans'\").then(all => all.length)")
        page.add_script_tag(path=PLOTLY)
    yield pages
    for page in pages.values():
        page.close()


def wrong(paper, document: dict, width: int, least: float) -> list[str]:
    """Errors in the texts of a figure's document at a width [px].

    least: size of a text [px].
    """
    height = document["layout"].get("height", 450)
    paper.set_viewport_size({"width": width, "height": height})
    paper.evaluate(DRAW, [document, width, height])
    return paper.evaluate(TEXTS, [width, height, least])


def as_exported(document: dict) -> dict:
    """A chart as its SVG and PDF exports contain it."""
    figure = Figure()
    figure.data, figure.layout = document["data"], document["layout"]
    signed = export.with_footer(figure, export.footer_words(SETUP))
    return json.loads(style.printable(json.dumps(signed.document())))


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", PAGES)
def test_the_charts_of_a_page_are_legible_in_a_column_and_on_a_telephone(papers, name: str):
    app = PAGES[name]()
    assert not app.exception and not app.error
    least = LEAST_POINTS * POINT_MM / COLUMN_MM * export.PRINT_WIDTH
    for chart in charts(app):
        title = chart["layout"].get("title", {}).get("text")
        assert not wrong(papers[WIDE], as_exported(chart), export.PRINT_WIDTH, least), title
        for between, paper in papers.items():
            assert not wrong(paper, chart, TELEPHONE, 9.0), (title, between)


def test_the_wide_letters_are_wider_than_the_widest_usual_ones(papers):
    note = {"text": SAMPLE, "showarrow": False, "x": 1, "y": 1, "font": {"size": 10}}
    axis = {"visible": False}
    layout = {"height": 300, "annotations": [note], "xaxis": axis, "yaxis": axis}
    layout["font"] = style.template(style.LIGHT)["layout"]["font"]
    page = {"data": [{"type": "scatter", "x": [0, 2], "y": [0, 2]}], "layout": layout}
    ems = {}
    for between, paper in papers.items():
        assert not wrong(paper, page, TELEPHONE, 9.0)
        ems[between] = (
            paper.evaluate("document.querySelector('#chart text.annotation-text').getBBox().width")
            / 10.0
        )
    assert ems[OWN] < 0.9 * SAMPLE_EM < SAMPLE_EM < ems[WIDE]


def test_words_that_cross_are_seen(papers):
    paper = papers[OWN]
    note = {"text": "words", "showarrow": False, "x": 1, "y": 1}
    bare = {"data": [{"type": "scatter", "x": [0, 2], "y": [0, 2]}], "layout": {"height": 300}}
    assert not wrong(paper, bare, 400, 6.0)
    crossing = {**bare, "layout": {"height": 300, "annotations": [note, note]}}
    assert wrong(paper, crossing, 400, 6.0) == ["over one another: words | words"]
    small = {**bare, "layout": {"height": 300, "annotations": [{**note, "font": {"size": 7}}]}}
    assert wrong(paper, small, 400, 9.0) == ["7.0 px: words"]
