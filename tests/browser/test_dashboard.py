"""The dashboard in a real browser: clicks, sliders, links, downloads, phones, light and dark."""

import csv
import json
import re
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.browser.conftest import SETTLED, settled

POINTS = ".js-plotly-plot .scatterlayer .points path.point"
PATHS = ["", "roofline", "breakdown", "memory", "inside", "compare", "hardware", "models"]
WITH_CHARTS = ["", "roofline", "breakdown", "memory", "inside", "compare", "hardware"]


def drawn(page) -> None:
    page.wait_for_selector(".js-plotly-plot .main-svg")
    settled(page)


def places(page) -> list[tuple[float, float]]:
    """Screen positions of the roofline's points."""
    return page.eval_on_selector_all(
        POINTS, "all => all.map(e => e.getBoundingClientRect()).map(r => [r.x, r.y])"
    )


def ticks(page) -> list[str]:
    return page.eval_on_selector_all(
        ".js-plotly-plot .xtick text", "all => all.map(e => e.textContent)"
    )


def query(page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def test_the_first_page_opens_by_its_name_too_with_what_stands_in_the_address(open_page):
    page = open_page("answer", tp=2)
    page.wait_for_selector("h1:has-text('Llama-3.1-8B')")
    page.wait_for_function("() => location.pathname === '/'")
    assert query(page)["tp"] == ["2"]
    assert not page.get_by_text("Page not found").count()


# ------------------------------------------------------------------------------- roofline


@pytest.mark.slow
def test_a_click_on_a_roofline_point_marks_that_operator_and_explains_it(open_page):
    page = open_page("explain")
    drawn(page)
    before = page.locator("h3").first.text_content()
    lowest = max(
        range(page.locator(POINTS).count()),
        key=lambda at: -page.locator(POINTS).nth(at).bounding_box()["y"],
    )
    box = page.locator(POINTS).nth(lowest).bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_function(f"() => document.querySelector('h3').textContent != '{before}'")
    settled(page)
    faint = "all => all.filter(e => getComputedStyle(e).opacity < 0.5).length"
    assert page.eval_on_selector_all(POINTS, faint) == page.locator(POINTS).count() - 1


def test_the_slider_moves_the_points_and_not_the_axes(open_page):
    page = open_page("explain", batch=1)
    drawn(page)
    first, axis = places(page), ticks(page)
    slider = page.locator('.st-key-roofline_batch input[type="range"]')
    slider.focus()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    page.wait_for_function("() => location.search.includes('roofline_batch=64')")
    settled(page)
    page.wait_for_timeout(500)
    assert places(page) != first
    assert ticks(page) == axis


def test_hovering_a_point_shows_the_formula_with_its_numbers(open_page):
    page = open_page("explain")
    drawn(page)
    box = page.locator(POINTS).first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    words = page.wait_for_selector(".hoverlayer .hovertext").text_content()
    assert re.search(r"bound = max\([\d.]+ [MGT]FLOP / 989 TFLOP/s", words)
    assert re.search(r" = [\d.,]+ FLOP/byte", words)


# ------------------------------------------------------------------------------- model inside


def line_of_graph(page, words: str) -> tuple[float, float]:
    """Screen position of the mark on the line that begins with `words`."""
    lines = page.locator(".js-plotly-plot .textpoint")
    labels = [label.strip() for label in lines.all_text_contents()]
    at = next(at for at, label in enumerate(labels) if label.startswith(words))
    box = lines.nth(at).bounding_box()
    return box["x"] - 8, box["y"] + box["height"] / 2


def test_a_click_on_an_operator_shows_its_formula_and_one_on_its_layers_folds_them(open_page):
    page = open_page("explain", part="Model inside", phase="prefill", isl=512, batch=1)
    drawn(page)
    page.mouse.click(*line_of_graph(page, "o_proj"))
    page.wait_for_selector("text=/2 × 512 × 4,096 × 4,096/")
    settled(page)
    page.mouse.click(*line_of_graph(page, "Layers 0–31"))
    page.wait_for_function(
        "() => { const chart = document.querySelector('.js-plotly-plot');"
        " return chart && chart.textContent && !chart.textContent.includes('qkv_proj') }"
    )
    settled(page)
    assert page.locator("text=/2 × 512 × 4,096 × 4,096/").count()


# ------------------------------------------------------------------------------- links


def test_a_link_restores_the_scenario_and_the_view(open_page):
    page = open_page("breakdown", system="mi300x", tp=2, batch=8, weights="fp8", phase="prefill")
    drawn(page)
    assert page.locator('.st-key-system input[role="combobox"]').input_value() == "mi300x"
    assert page.get_by_label("Load", exact=True).input_value() == "batch 8"
    assert "Prefill step by cause" in page.locator(".gtitle").all_text_contents()
    assert query(page)["tp"] == ["2"]


def test_a_change_in_the_sidebar_is_in_the_address_and_survives_a_change_of_page(open_page):
    page = open_page()
    load = page.get_by_label("Load", exact=True)
    load.fill("23/s")
    load.press("Enter")
    page.wait_for_function("() => location.search.includes('rate=23')")
    settled(page)
    page.get_by_role("link", name="Explain").first.click()
    page.wait_for_url("**/explain*")
    settled(page)
    page.wait_for_function("() => location.search.includes('rate=23')")
    assert page.get_by_label("Load", exact=True).input_value() == "23/s"


def test_pins_travel_in_the_link(open_page):
    page = open_page("compare", pins=json.dumps([{}, {"tp": 2}]))
    drawn(page)
    bars = page.locator(".js-plotly-plot .ytick text").all_text_contents()
    named = sorted(bar[0] for bar in bars if bar[:2] in ("A ", "B "))
    assert named == ["A", "A", "B", "B"]
    page.get_by_role("button", name="Unpin all").click()
    page.wait_for_selector("text=Nothing is pinned yet")
    settled(page)
    assert "pins" not in query(page)


def test_what_cannot_be_split_is_said_and_the_page_goes_on_when_it_can(open_page):
    page = open_page("", tp=3)
    alert = page.wait_for_selector('[data-testid="stAlert"]').text_content()
    assert "tp 3 does not divide the 32 attention heads" in alert
    page.goto(page.url.replace("tp=3", "tp=4"))
    page.wait_for_selector('[data-testid="stMetricValue"]')
    assert not page.locator('[data-testid="stAlert"]').count()


# ------------------------------------------------------------------------------- downloads


def saved(page, label: str) -> str:
    with page.expect_download() as download:
        page.get_by_role("button", name=label).first.click()
    return download.value.path().read_text(encoding="utf-8")


@pytest.mark.slow
def test_tables_scenarios_and_pages_can_be_saved(open_page):
    page = open_page("explain", part="Breakdown", batch=4)
    drawn(page)
    page.get_by_role("button", name="Export").click()
    rows = list(csv.DictReader(saved(page, "Table (CSV)").splitlines()))
    assert len(rows) > 5
    assert {"name", "predicted [µs]", "bound [µs]"} <= set(rows[0])
    assert len(json.loads(saved(page, "Table (JSON)"))) == len(rows)
    assert json.loads(saved(page, "Question (JSON)"))["batch"] == 4
    assert "<title>Ridgeline: waterfall</title>" in saved(page, "waterfall (HTML)")


@pytest.mark.slow
def test_the_chart_of_memory_that_is_drawn_is_the_one_that_is_saved(open_page):
    page = open_page("explain", part="Memory")
    drawn(page)
    page.get_by_role("radio", name="input length").click()
    page.wait_for_selector("text=Input length [tokens]")
    settled(page)
    page.get_by_role("button", name="Export").click()
    page.get_by_role("button", name="memory over isl (HTML)").wait_for()
    assert not page.get_by_role("button", name="memory over batch (HTML)").count()


@pytest.mark.slow
def test_the_camera_saves_a_chart_as_svg_in_the_browser(open_page):
    page = open_page("explain")
    drawn(page)
    page.locator(".js-plotly-plot").first.hover()
    with page.expect_download() as download:
        page.locator('.modebar-btn[data-title*="Download"]').first.click()
    assert download.value.suggested_filename == "ridgeline-roofline.svg"
    assert "<svg" in download.value.path().read_text(encoding="utf-8")[:200]


# ------------------------------------------------------------------------------- looks


@pytest.mark.by_day(2)
@pytest.mark.parametrize("path", PATHS)
def test_a_page_fits_a_phone_and_asks_nobody_but_its_own_server(
    page, requested: list[str], app_url: str, path: str
):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{app_url}/{path}")
    page.wait_for_selector(SETTLED)
    if path in WITH_CHARTS:
        drawn(page)
    main = "document.querySelector('[data-testid=\"stMain\"]')"
    assert page.evaluate(f"{main}.scrollWidth <= {main}.clientWidth + 1")
    assert any(url.startswith(app_url) for url in requested)
    assert [url for url in requested if not re.match(rf"{app_url}|data:|blob:", url)] == []


def test_what_stands_on_a_card_is_wrapped_and_never_cut(open_page):
    page = open_page("answer", system="gaudi3", batch=16)
    page.get_by_text("set Rent of a device").wait_for()
    texts = '[data-testid="stMetricLabel"] *, [data-testid="stMetricDelta"] *'
    styles = f"[...document.querySelectorAll('{texts}')].map(one => getComputedStyle(one))"
    assert page.evaluate(f"{styles}.map(one => one.textOverflow + ' ' + one.whiteSpace)")
    cut = "one => one.textOverflow == 'ellipsis' || one.whiteSpace == 'nowrap'"
    assert page.evaluate(f"{styles}.filter({cut}).length") == 0


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("scheme", "paper"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(17, 22, 29)")]
)
def test_charts_take_the_paper_of_the_visitors_appearance(
    page, app_url: str, scheme: str, paper: str
):
    page.emulate_media(color_scheme=scheme)
    page.goto(f"{app_url}/explain")
    drawn(page)
    fill = page.eval_on_selector(
        ".js-plotly-plot .main-svg", "e => getComputedStyle(e).backgroundColor"
    )
    assert fill == paper
    body = "e => getComputedStyle(e).backgroundColor"
    assert page.eval_on_selector('[data-testid="stApp"]', body) == paper
