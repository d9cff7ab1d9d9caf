"""Every chart of the pages in a column of a paper and on a telephone: texts of six points at least,
none over another, none cut off."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import plotly
import pytest
from streamlit.testing.v1 import AppTest

from app.charts import style
from app.charts.figure import Figure
from app.dashboard import export, report_uploads
from app.scenario.scenario import Scenario
from app.scenario.setup import Setup
from tests.app.pages import REPORTS, brought, charts, opened, pressed, shown

pytestmark = pytest.mark.browser

PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
TEXTS = (Path(__file__).parent / "texts.js").read_text(encoding="utf-8")
DRAW = """async ([figure, width, height]) => {
    const chart = document.getElementById('chart');
    Plotly.purge(chart);
    Object.assign(figure.layout, {width, height});
    await Plotly.newPlot(chart, figure.data, figure.layout, {staticPlot: true});
}"""
#: A column of 85 mm and a point of print [mm]; pixels across that a telephone leaves a chart.
COLUMN_MM, POINT_MM, TELEPHONE = 85.0, 25.4 / 72.0, 358
LEAST_POINTS = 6.0
BUSY = {"model": "openai/gpt-oss-120b", "engine": "vllm", "tp": 2, "batch": 64}
SETUP = Setup(Scenario(**{**BUSY, "engine_version": "0.11.0", "weights": "fp8"}))


def two_pins() -> AppTest:
    return opened("compare", pins=json.dumps([BUSY, {**BUSY, "system": "h200-sxm-141gb"}]))


def a_trace() -> AppTest:
    app = opened("reports")
    return app.pills("report_samples").set_value([next(iter(report_uploads.SAMPLES))]).run()


def compared_with_a_trace() -> AppTest:
    name = "inference_sglang_prefilldecode_sglang_Qwen3-8B_prefilldecode.json.gz"
    app = opened("measured", model="Qwen/Qwen3-8B", system="mi300x", batch=15, engine="sglang")
    return brought(app, "measured_files", REPORTS / "torch" / name)


def simulated() -> AppTest:
    return pressed(opened("serving", serving_tab="Simulate", isl=256, osl=32, **BUSY), "Simulate")


def several_systems() -> AppTest:
    names = "h100-sxm5-80gb,h200-sxm-141gb,b200-sxm-180gb,mi300x"
    return opened("frontiers", compare=names, frontier_targets="tpot < 30ms", **BUSY)


def by_systems(tab: str) -> AppTest:
    return shown("compare", compare_by="Systems", compare_tab=tab, **BUSY)


PAGES: dict[str, Callable[[], AppTest]] = {
    "overview": lambda: shown(**BUSY),
    "under load": lambda: shown(asked="Under load", **BUSY),
    "roofline": lambda: shown("roofline", **BUSY),
    "breakdown": lambda: shown("breakdown", **BUSY),
    "memory": lambda: shown("memory", **BUSY),
    "serving": lambda: shown("serving", **BUSY),
    "simulate": simulated,
    "compare": two_pins,
    "compare figures": lambda: by_systems("Figures"),
    "compare frontiers": lambda: by_systems("Frontier"),
    "compare classes": lambda: by_systems("Breakdown"),
    "compare memory": lambda: by_systems("Memory"),
    "plan": lambda: shown("plan", model="Qwen/Qwen3-32B", plan_rate="20.0"),
    "frontiers": several_systems,
    "sensitivity": lambda: shown("sensitivity", **BUSY),
    "economics": lambda: shown("economics", economics_api_in="0.5", economics_api_out="2.0",
                               economics_capex="30000", **BUSY),
    "reports": a_trace,
    "measured": compared_with_a_trace,
    "accuracy": lambda: shown("accuracy"),
    "hardware": lambda: shown("hardware"),
    "inside": lambda: shown("inside", **BUSY),
    "modules": lambda: shown("modules"),
}  # fmt: skip


@pytest.fixture(scope="module")
def paper(browser):
    """A page with Plotly and an empty chart."""
    page = browser.new_page()
    page.set_content("<body style='margin: 0'><div id='chart'></div></body>")
    page.add_script_tag(path=PLOTLY)
    yield page
    page.close()


def wrong(paper, document: dict, width: int, least: float) -> list[str]:
    """What is wrong with the texts of a figure's document at a width [px]."""
    height = document["layout"].get("height", 450)
    paper.set_viewport_size({"width": width, "height": height})
    paper.evaluate(DRAW, [document, width, height])
    return paper.evaluate(TEXTS, [width, height, least])


def as_exported(document: dict) -> dict:
    """A chart as its SVG and PDF show it."""
    figure = Figure()
    figure.data, figure.layout = document["data"], document["layout"]
    signed = export.with_footer(figure, export.footer_words(SETUP))
    return json.loads(style.printable(json.dumps(signed.document())))


@pytest.mark.parametrize("name", PAGES)
def test_the_charts_of_a_page_are_legible_in_a_column_and_on_a_telephone(paper, name: str):
    app = PAGES[name]()
    assert not app.exception and not app.error
    least = LEAST_POINTS * POINT_MM / COLUMN_MM * export.PRINT_WIDTH
    for chart in charts(app):
        title = chart["layout"].get("title", {}).get("text")
        assert not wrong(paper, as_exported(chart), export.PRINT_WIDTH, least), title
        assert not wrong(paper, chart, TELEPHONE, 9.0), title


def test_words_that_cross_are_seen(paper):
    note = {"text": "words", "showarrow": False, "x": 1, "y": 1}
    bare = {"data": [{"type": "scatter", "x": [0, 2], "y": [0, 2]}], "layout": {"height": 300}}
    assert not wrong(paper, bare, 400, 6.0)
    crossing = {**bare, "layout": {"height": 300, "annotations": [note, note]}}
    assert wrong(paper, crossing, 400, 6.0) == ["over one another: words | words"]
    small = {**bare, "layout": {"height": 300, "annotations": [{**note, "font": {"size": 7}}]}}
    assert wrong(paper, small, 400, 9.0) == ["7.0 px: words"]
