"""Every page opens, on the default scenario and on awkward ones, without an exception."""

import json
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from app.dashboard import phrases
from app.question.question import Question
from app.scenario import scenario
from app.scenario.fewest_devices import fewest_devices
from app.scenario.scenario import estimate_resolved, resolve
from app.scenario.setup import Setup
from app.wording import quantities
from tests.app.pages import MAIN, ROOT, cards, charts, opened, path_of, setup_of, shown
from tests.rules import for_every

PAGES = sorted(path.stem for path in (ROOT / "app" / "views").glob("**/[a-z]*.py"))
#: Pages that price the sidebar's scenario.
PRICED = ("answer", "roofline", "breakdown", "memory", "inside")
#: The part of a page that prices the sidebar's own degrees.
PART = {"compare": {"part": "Pinned"}}
TITLES = {
    "answer": "meta-llama/Llama-3.1-8B on NVIDIA H100 SXM5 80GB",
    **dict.fromkeys(("explain", *PRICED[1:]), "Explain"),
    "compare": "Compare",
    **dict.fromkeys(("hardware", "models", "library"), "Library"),
    "measure": "Measure",
    "upload": "Upload",
}
#: Invalid queries, with words of the error of each.
REFUSED = {
    "unknown model": ({"model": "meta-llama/Lama-3.1-8B-x"}, "unknown model"),
    "unknown system": ({"system": "h1000"}, "unknown system"),
    "unknown precision": ({"weights": "fp7"}, "unknown precision"),
    "indivisible": ({"tp": 3}, "tp 3 does not divide the 32 attention heads"),
    "no number": ({"tp": "many"}, "tp = 'many': give a whole number"),
    "zero": ({"tp": 0}, "tp = 0: give a whole number"),
    "model path": ({"model": "../../../../etc/passwd"}, "unknown model"),
    "system path": ({"system": "/etc/hosts.yaml"}, "unknown system"),
}
#: One error of each origin: the sidebar, a name, the price.
KINDS = ("no number", "unknown model", "indivisible")
#: Lists of models and systems need no scenario; a model's facts only need the model.
STANDS = (
    ("hardware", "unknown model"), ("hardware", "indivisible"), ("hardware", "system path"),
    ("models", "indivisible"),
)  # fmt: skip
ENDS = [
    *product(("answer",), REFUSED),
    *product(PRICED[1:], KINDS),
    *product(("compare",), (*KINDS, "system path")),
    *(("hardware", "no number"), ("models", "no number")),
    *(("models", "unknown model"), ("models", "model path")),
]


def test_every_page_has_its_tests_here_or_in_a_file_of_its_own():
    files = {path.stem.removeprefix("test_") for path in Path(__file__).parent.glob("test_*.py")}
    without = sorted(set(PAGES) - {*TITLES, *files})
    assert not without, f"add to TITLES of this file, or test in a file test_<page>.py: {without}"


@pytest.mark.parametrize("page", TITLES)
def test_a_page_opens_without_an_exception_under_its_title(page: str):
    app = shown(page)
    assert not app.exception and not app.error
    assert app.title[0].value == TITLES[page], "has the page a line in app/main.py?"


@pytest.mark.by_day(5)
@pytest.mark.parametrize("page", TITLES)
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
    app = opened(page, **query, **PART.get(page, {}))
    assert not app.exception and not app.error
    assert phrases.off_default(setup_of(app)) == Setup(Question(**query)).changed()


@pytest.mark.by_day(6)
@pytest.mark.parametrize(("page", "kind"), ENDS)
def test_a_scenario_that_cannot_run_shows_a_sentence_instead_of_figures(page: str, kind: str):
    query, words = REFUSED[kind]
    app = opened(page, **query, **PART.get(page, {}))
    assert not app.exception
    sentences = [error.value for error in app.error]
    assert sentences and all(words in sentence for sentence in sentences)
    assert all("\n" not in sentence for sentence in sentences)
    assert not app.get("plotly_chart") and not app.metric


@pytest.mark.by_day(2)
@pytest.mark.parametrize(("page", "kind"), STANDS)
def test_a_list_stands_beside_a_scenario_that_cannot_be(page: str, kind: str):
    app = opened(page, **REFUSED[kind][0])
    assert not app.exception and not app.error
    assert len(app.dataframe[0].value) > 100 and len(app.dataframe[1].value) > 5


#: Pages whose figures need a runnable scenario, and the parts that draw them.
GATED = (
    ("answer", {}), ("answer", {"batch": 1}), ("roofline", {}), ("breakdown", {}),
    ("serving", {}), ("chip_lab", {"part": "Sensitivity"}),
    ("chip_lab", {"part": "Sensitivity", "load": "Users"}),
)  # fmt: skip
LARGE = {"model": "deepseek-ai/DeepSeek-V3"}  # on one H100
LONG = {"model": "meta-llama/Llama-2-7b-hf", "isl": 8192}


def commands(app) -> list[str]:
    """The commands shown on a page."""
    return [code.value for code in app.code if code.language == "bash"]


def money(app) -> str:
    """All prices printed on a page."""
    texts = [text.value for kind in (app.markdown, app.caption) for text in kind]
    metrics = [f"{metric.label} {metric.value} {metric.delta}" for metric in app.metric]
    return " ".join(text for text in [*texts, *metrics] if "$" in text or "Cost" in text)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(("page", "more"), [*GATED, ("plan", {"part": "Economics"})])
def test_what_does_not_fit_has_a_reason_the_fewest_devices_and_no_figure(page: str, more: dict):
    app = opened(page, **LARGE, **more)
    assert not app.exception and not app.error
    assert app.warning[0].value.startswith("Does not fit: ")
    assert "weights" in app.warning[0].value
    assert any("devices of this kind on which it fits: **" in text.value for text in app.markdown)
    assert not charts(app) and not app.metric and not commands(app) and not money(app)
    app = app.button("take_devices").click().run()
    assert not app.error and charts(app)
    assert not any(text.value.startswith("Does not") for text in app.warning)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(("page", "more"), [*GATED, ("plan", {"part": "Economics"})])
def test_a_context_beyond_the_models_positions_has_a_reason_and_the_longest_that_runs(
    page: str, more: dict
):
    app = opened(page, **LONG, **more)
    assert app.warning[0].value.startswith("Does not run: meta-llama/Llama-2-7b-hf has positions")
    assert not charts(app) and not app.metric and not commands(app)
    app = app.button("take_lengths").click().run()
    assert (setup_of(app).scenario.isl, setup_of(app).scenario.osl) == (3840, 256)
    assert not any(text.value.startswith("Does not") for text in app.warning)
    assert not app.error and charts(app)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("query", [LARGE, LONG], ids=["memory", "context"])
@pytest.mark.parametrize(("page", "more"), GATED)
def test_if_it_fitted_every_chart_is_marked_and_nothing_has_a_price(
    page: str, more: dict, query: dict
):
    app = opened(page, **query, **more, if_fitted="true")
    assert not app.exception and not app.error
    assert app.toggle("if_fitted").value and app.warning
    assert charts(app)
    for chart in charts(app):
        assert chart["layout"]["title"]["text"].endswith("if it fitted")
        assert all(trace["opacity"] < 0.5 for trace in chart["data"])
    assert not money(app) and not commands(app)


def test_the_memory_in_a_formula_is_that_of_the_device_as_it_is():
    app = shown(batch=4, **LARGE, if_fitted="true")
    assert any("may use 92 % of 85.9 GB" in text.value for text in app.markdown)


def test_a_page_of_prices_has_no_figure_even_if_it_fitted():
    app = opened("plan", part="Economics", **LARGE, if_fitted="true")
    assert app.warning and not charts(app) and not app.metric
    assert "if_fitted" not in {toggle.key for toggle in app.toggle}


def test_the_switch_changes_nothing_of_what_runs():
    assert cards(opened(if_fitted="true")) == cards(shown())


def test_what_cannot_run_is_said_once_on_a_page_that_draws_it_twice():
    app = opened(model="meta-llama/Llama-2-7b", isl=8000, if_fitted="true", part="Static batch")
    assert not app.exception and not app.error
    assert len(app.warning) == 1 and "4,096" in app.warning[0].value


def test_the_memory_of_what_does_not_fit_is_drawn_as_it_is():
    app = opened("memory", **LARGE)
    assert app.warning and charts(app) and "Missing" in cards(app)


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("query", "devices"),
    [
        ({"model": "meta-llama/Llama-3.1-70B", "system": "l4"}, 8),
        ({"model": "deepseek-ai/DeepSeek-V3", "system": "h100"}, None),
        ({"model": "meta-llama/Llama-3.1-405B", "system": "h100", "batch": 64}, None),
    ],
    ids=["dense", "experts", "large"],
)
def test_no_fewer_devices_than_those_named_hold_the_scenario(query: dict, devices: int | None):
    asked = resolve(Question(**query))
    held = fewest_devices(asked, asked.scenario.batch)
    assert held is not None
    count = int(held.tp * held.pp)
    assert devices in (None, count)
    for tp, pp in product((1, 2, 4, 8, 16, 32), repeat=2):
        if tp * pp < count:
            tried = estimate_resolved(asked, tp=np.array([tp, tp]), pp=np.array([pp, pp]))
            assert "ok" not in tried.status


def test_the_overview_names_what_limits_each_phase_and_what_would_help():
    prefill, decode = (t.value for t in shown(batch=1).markdown if "limited by" in t.value)
    assert prefill.startswith("Prefill is limited by **arithmetic**")
    assert "would cut TTFT by **" in prefill and "twice the peak arithmetic" in prefill
    assert decode.startswith("Decode is limited by **memory traffic**")
    assert "twice the memory bandwidth would cut TPOT by **" in decode


def test_the_roofline_has_a_point_for_every_operator_that_computes():
    points = {
        row[0]
        for phase in ("prefill", "decode")
        for trace in charts(shown("explain", phase=phase, batch=1))[0]["data"]
        for row in trace.get("customdata") or []
    }
    estimate = scenario.estimate(Question())
    computing = {
        f"{phase}:{row}"
        for phase, step in (("prefill", estimate.prefill), ("decode", estimate.decode))
        for row in range(len(step.graph.ops))
        if step.flops[row, 0] and step.bytes[row, 0] and step.operators_s[row, 0]
    }
    assert points == computing and len(points) > 10


def test_moving_the_slider_moves_points_and_not_the_axes():
    app = opened("roofline")
    (first,) = charts(app)
    (second,) = charts(app.select_slider("roofline_batch").set_value(64).run())
    assert first["layout"]["xaxis"]["range"] == second["layout"]["xaxis"]["range"]
    assert first["layout"]["yaxis"]["range"] == second["layout"]["yaxis"]["range"]
    assert first["data"] != second["data"]


def test_breakdown_parts_sum_to_the_latency_on_the_overview():
    bars = charts(shown("explain", part="Breakdown", batch=1))[0]["data"][0]
    assert bars["y"][-1].startswith(f"Total <b>{cards(shown(batch=1))['TPOT']}</b>")
    assert len(bars["text"]) == len(bars["y"]) > 3


@pytest.mark.slow
def test_pinned_scenarios_of_a_link_stand_side_by_side():
    pins = [{}, {"tp": 2}, {"weights": "fp8"}, {"bandwidth": 2.0}]
    app = opened("compare", pins=json.dumps(pins))
    assert not app.exception
    table = app.dataframe[0].value
    assert list(table.columns) == ["figure", "A", "B", "C", "D"]
    assert "−" in table.set_index("figure").loc["TPOT", "C"]


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    "pins", ["[", "7", '["x"]', '[{"tp": "x"}]', '[{"nonsense": 1}]', "[" * 9999]
)
def test_unreadable_pins_are_no_pins(pins: str):
    app = opened("compare", part="Pinned", pins=pins)
    assert not app.exception
    assert "Nothing is pinned" in app.info[0].value


def test_pinning_twice_keeps_one():
    app = opened("compare", part="Pinned", batch=1)
    app.button("pin_here").click().run()
    app.button("pin_here").click().run()
    assert not app.exception
    assert json.loads(app.text_input("pins").value) == [{}]


def test_opening_every_page_loads_neither_torch_nor_transformers():
    code = f"""
import sys
from streamlit.testing.v1 import AppTest

app = AppTest.from_file({str(MAIN)!r}, default_timeout=60)
app.query_params["accuracy_area"] = "Operators"  # no page prices every measured run here
app.run()
for page in {[path_of(page) for page in PAGES]!r}:
    app.switch_page(page).run()
    assert not app.exception, page
assert not {{"torch", "transformers", "pynvml", "nvtx"}} & set(sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


@for_every(PAGES)
def test_a_page_is_short(page: str):
    lines = (ROOT / "app" / path_of(page)).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150


def test_the_overview_shows_what_python_and_the_command_line_compute():
    estimate, figures = (
        scenario.estimate(Question(engine="vllm")),
        cards(shown(batch=1)),
    )
    assert figures["TTFT"] == quantities.seconds(float(estimate.ttft_s[0]))
    assert figures["TPOT"] == quantities.seconds(float(estimate.tpot_s[0]))
    rate = float(estimate.output_tokens_per_s[0])
    assert figures["Output throughput"] == quantities.tokens_rate(rate)


def test_memory_is_said_in_the_bytes_of_the_page_and_in_those_of_the_devices_name():
    card = next(m for m in opened(system="h200", batch=1).metric if m.label == "Memory per device")
    assert card.delta == "fits in 139 GB of 151 GB"
    assert "often count GiB: 151 GB are 140 GiB." in card.help


def test_the_box_of_the_rent_is_empty_and_shows_the_public_price():
    app = opened(batch=1)
    box = opened(peak=1).text_input("price")
    assert box.value == "" and box.placeholder == "3.99, as published"
    rent = {metric.label: metric.delta for metric in app.metric}["Cost per 1M tokens"]
    assert rent == "$3.99 a device-hour"
    app = opened(price=2)
    rent = {metric.label: metric.delta for metric in app.metric}["Cost per 1M tokens"]
    assert rent == "$2.00 a device-hour"


def test_the_command_shown_on_the_overview_names_what_differs_from_the_default():
    app = opened(model="mistralai/Mixtral-8x7B-v0.1", tp=2, moe_weights="fp8", batch=1)
    assert app.code[0].value == (
        "ridgeline estimate mistralai/Mixtral-8x7B-v0.1 --moe-weights fp8 --tp 2"
    )


def test_a_link_with_several_wrong_values_says_all():
    app = shown("answer", isl=0, tp="many", memory_fraction=7)
    (said,) = {error.value for error in app.error}
    for words in ("isl = 0: give", "tp = 'many': give", "memory\\_fraction = 7: give"):
        assert words.replace("\\_", "_") in said.replace("\\_", "_")


def test_a_missed_target_is_said_at_the_figures_and_a_met_one_is_not():
    app = shown("answer", target="tpot < 5ms, ttft < 10s")
    (said,) = (one.value for one in app.warning)
    assert said.startswith("Mean TPOT is") and "misses its target" in said


def test_a_pin_says_that_it_worked():
    app = opened("answer").button(key="pin_answer").click().run()
    (toast,) = app.toast
    assert "1 of 4" in toast.value


def test_findings_of_a_report_have_a_heading_only_where_there_is_a_prediction():
    app = shown("upload", upload_samples="One kernel of it (ncu)")
    assert any("Not compared with a prediction" in one.value for one in app.caption)
    assert any("`ridgeline import`" in one.value for one in app.caption)
    assert "Findings" not in [one.value for one in app.subheader]


def test_operators_are_not_said_to_take_more_than_their_step():
    """Where measured runs correct a step to less than its operators add up to."""
    app = opened("roofline", model="deepseek-ai/DeepSeek-V3", system="h200", tp=8, ep=8,
                 engine="sglang", overlap="two_batch", weights="fp8")  # fmt: skip
    (said,) = (text.value for text in app.markdown if "step takes" in text.value)
    assert "of which" not in said and "the correction by measured runs subtracts" in said
    (usual,) = (text.value for text in shown("roofline").markdown if "step takes" in text.value)
    assert "of which the operators take" in usual


def test_memory_that_does_not_grow_with_the_context_limits_none():
    mamba = shown("explain", part="Memory", model="mistralai/Mamba-Codestral-7B-v0.1")
    assert cards(mamba)["Longest context that fits"] == "any"
    assert 1 < int(cards(mamba)["Most users that fit"]) < 1000
    encoder = shown("explain", part="Memory", model="BAAI/bge-m3")
    assert cards(encoder)["Most users that fit"] == "any"
    assert "Memory does not limit the number of sequences" in " ".join(
        caption.value for caption in encoder.caption
    )
    assert not any("256 out" in str(card.delta) for card in encoder.metric)


def test_what_is_offloaded_is_not_held_by_the_device_and_raises_no_alarm():
    query = {"model": "meta-llama/Llama-3.1-70B", "system": "rtx-4090", "offload": "weights",
             "batch": 1}  # fmt: skip
    (held,) = (one for one in shown(**query).metric if one.label == "Memory per device")
    assert held.delta == "120 GB offloaded"
    said = " ".join(text.value for text in shown(**query).markdown).replace("\xa0", " ")
    assert "Decode is limited by **offloaded data** (96 %" in said
    told = cards(shown("explain", part="Memory", **query))
    assert told["In use"] == held.value and "Missing" not in told


def test_a_model_that_reads_makes_a_pass_and_no_prefill_step():
    query = {"model": "google-bert/bert-base-uncased", "system": "t4", "isl": 256}
    said = " ".join(text.value for text in shown("explain", **query).markdown)
    assert "The forward pass takes **" in said and "prefill step takes" not in said
