"""Every page opens, on the default scenario and on awkward ones, without an exception."""

import json
import subprocess
import sys

import pytest
from streamlit.testing.v1 import AppTest

from app.scenario import scenario
from app.wording import quantities
from tests.app.pages import MAIN, ROOT, opened, path_of

PAGES = sorted(path.stem for path in (ROOT / "app" / "views").glob("*/[a-z]*.py"))
PRICED = ["overview", "roofline", "breakdown", "memory", "inside"]
MINE = [*PRICED, "compare", "hardware", "models"]


def sentences(app: AppTest) -> str:
    return " ".join(error.value for error in app.error)


def test_every_page_that_is_promised_is_there():
    assert set(MINE) <= set(PAGES)


@pytest.mark.parametrize("page", MINE)
def test_a_page_opens_without_an_exception_and_says_its_title(page: str):
    app = opened(page)
    assert not app.exception
    assert not app.error
    assert app.title[0].value


@pytest.mark.parametrize("page", MINE)
@pytest.mark.parametrize(
    "query",
    [
        {"model": "mistralai/Mixtral-8x7B-v0.1", "tp": 2, "ep": 2, "batch": 64},
        {"model": "meta-llama/Llama-3.1-70B", "system": "h100", "tp": 4, "pp": 2, "weights": "fp8"},
        {"model": "meta-llama/Llama-3.1-70B", "system": "l4"},
        {"system": "xeon-6767p", "weights": "q4_k_m"},
        {"isl": 10_000_000, "osl": 1},
    ],
    ids=["experts", "pipeline", "does not fit", "cpu", "ten million tokens"],
)
def test_a_page_opens_on_scenarios_that_are_not_plain(page: str, query: dict):
    app = opened(page, **query)
    assert not app.exception
    assert not app.error


@pytest.mark.parametrize("page", MINE)
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"model": "meta-llama/Lama-3.1-8B-x"}, "unknown model"),
        ({"system": "h1000"}, "unknown system"),
        ({"tp": 3}, "tp"),
        ({"tp": "many"}, "whole number"),
        ({"tp": 0}, "whole number"),
        ({"weights": "fp7"}, "unknown precision"),
        ({"model": "../../../../etc/passwd"}, "path"),
        ({"system": "/etc/hosts.yaml"}, "path"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_is_said_in_one_sentence(page: str, query: dict, said: str):
    app = opened(page, **query)
    assert not app.exception
    if page in PRICED:  # the others stand without an estimate of the sidebar's scenario
        assert said in sentences(app).casefold()


def test_sizes_out_of_range_in_a_link_fall_back_to_ones_that_can_be():
    app = opened(batch=-4, isl=0, osl="x")
    assert not app.exception
    assert (app.number_input("batch").value, app.number_input("isl").value) == (1, 1024)


def test_a_model_that_does_not_fit_is_priced_and_said_not_to_fit():
    app = opened(model="meta-llama/Llama-3.1-70B", system="l4")
    assert "Does not fit" in app.warning[0].value
    assert app.metric[0].value.endswith("s")


def test_the_overview_names_what_limits_each_phase_and_what_would_help():
    said = [text.value for text in opened().markdown]
    assert any(s.startswith("Prefill is limited by **arithmetic**") for s in said)
    assert any(s.startswith("Decode is limited by **memory traffic**") for s in said)
    assert all("would cut" in s for s in said if "limited by" in s)


def test_the_roofline_has_a_point_for_every_operator_that_computes():
    app = opened("roofline")
    traces = json.loads(app.get("plotly_chart")[0].proto.spec)["data"]
    points = [row[0] for trace in traces for row in trace.get("customdata") or []]
    assert len(points) == len(set(points))
    assert {point.partition(":")[0] for point in points} == {"prefill", "decode"}


def test_moving_the_slider_moves_points_and_not_the_axes():
    app = opened("roofline")
    first = json.loads(app.get("plotly_chart")[0].proto.spec)
    app.select_slider("roofline_batch").set_value(64).run()
    second = json.loads(app.get("plotly_chart")[0].proto.spec)
    assert first["layout"]["xaxis"]["range"] == second["layout"]["xaxis"]["range"]
    assert first["layout"]["yaxis"]["range"] == second["layout"]["yaxis"]["range"]
    assert first["data"] != second["data"]


def test_breakdown_parts_sum_to_the_latency_on_the_overview():
    overview, breakdown = opened(), opened("breakdown")
    fall = json.loads(breakdown.get("plotly_chart")[1].proto.spec)["data"][0]
    assert overview.metric[1].value == fall["text"][-1]


def test_pinned_scenarios_of_a_link_stand_side_by_side():
    pins = [{}, {"tp": 2}, {"weights": "fp8"}, {"bandwidth": 2.0}]
    app = opened("compare", pins=json.dumps(pins))
    assert not app.exception
    table = app.dataframe[0].value
    assert list(table.columns) == ["figure", "A", "B", "C", "D"]
    assert "−" in table.set_index("figure").loc["TPOT", "C"]


@pytest.mark.parametrize(
    "pins", ["[", "7", '["x"]', '[{"tp": "x"}]', '[{"nonsense": 1}]', "[" * 9999]
)
def test_unreadable_pins_are_no_pins(pins: str):
    app = opened("compare", pins=pins)
    assert not app.exception
    assert "Nothing is pinned" in app.info[0].value


def test_pinning_twice_keeps_one():
    app = opened("compare")
    app.button("pin_here").click().run()
    app.button("pin_here").click().run()
    assert not app.exception
    assert json.loads(app.text_input("pins").value) == [{}]


def test_opening_every_page_loads_neither_torch_nor_transformers():
    code = f"""
import sys
from streamlit.testing.v1 import AppTest

app = AppTest.from_file({str(MAIN)!r}, default_timeout=60).run()
for page in {[path_of(page) for page in PAGES]!r}:
    app.switch_page(page).run()
    assert not app.exception, page
assert not {{"torch", "transformers", "pynvml", "nvtx"}} & set(sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_short(page: str):
    lines = (ROOT / "app" / path_of(page)).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150


def test_the_overview_shows_what_python_and_the_command_line_compute():
    estimate = scenario.estimate(scenario.Scenario())
    shown = {metric.label: metric.value for metric in opened().metric}
    assert shown["TTFT"] == quantities.seconds(float(estimate.ttft_s[0]))
    assert shown["TPOT"] == quantities.seconds(float(estimate.tpot_s[0]))
    rate = float(estimate.output_tokens_per_s[0])
    assert shown["Output throughput"] == quantities.tokens_rate(rate)


def test_the_command_shown_on_the_overview_names_what_differs_from_the_default():
    app = opened(model="mistralai/Mixtral-8x7B-v0.1", tp=2, moe_weights="fp8")
    assert app.code[0].value == (
        "ridgeline estimate mistralai/Mixtral-8x7B-v0.1 --moe-weights fp8 --tp 2"
    )
