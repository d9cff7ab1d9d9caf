"""Page Answer, part Simulate: a load or a trace is simulated when a button is pressed."""

from __future__ import annotations

import re

import pytest
from streamlit.testing.v1 import AppTest

from app.calibration import from_one_run
from app.dashboard.panels import simulation as panel
from app.question.query import ask
from app.scenario.scenario import resolve
from app.simulation.result import simulate
from app.wording import quantities
from tests.app.pages import cards, charts, finished, opened, pressed, setup_of

TRACE = "arrival_s,input_tokens,output_tokens\n" + "".join(f"{i / 4},200,20\n" for i in range(40))
LLAMA = "meta-llama/Llama-3.1-8B"
SMALL = {
    "part": "Simulate", "model": LLAMA, "engine": "vllm", "isl": 256, "osl": 32, "concurrency": 32,
}  # fmt: skip
ALONE = {name: value for name, value in SMALL.items() if name != "concurrency"}


@pytest.fixture(autouse=True)
def data(own_data):
    """The user's data folder is that of the test."""


def uploaded(app: AppTest, content: str | bytes) -> AppTest:
    app = app.text_input("load_box").set_value("trace").run()
    raw = content.encode() if isinstance(content, str) else content
    app.file_uploader("sim_trace").upload("trace.csv", raw)
    return pressed(app, "Simulate")


def words(app: AppTest) -> str:
    return " ".join(caption.value for caption in app.caption)


def test_nothing_runs_before_the_button_is_pressed():
    app = opened("answer", **SMALL)
    assert not app.exception and len(charts(app)) == 1
    assert "Nothing has been simulated" in app.info[0].value


def test_the_button_shows_what_python_answers():
    app = pressed(opened("answer", **SMALL, ttft_target_s=0.04), "Simulate")
    assert not app.exception and len(charts(app)) == 1 + 6
    answer = simulate(ask("simulate", {
        "model": LLAMA, "concurrency": 32, "isl": 256, "osl": 32, "engine": "vllm",
        "ttft_target_s": 0.04,
    }))  # fmt: skip
    shown = cards(app)
    assert shown["TTFT, median"] == quantities.seconds(answer.ttft_p50_s)
    assert shown["Goodput"] == quantities.percent(answer.good_share)
    table = app.dataframe[0].value.set_index("Latency")
    assert table.loc["TPOT", "p99"] == quantities.seconds(answer.tpot_p99_s)
    assert re.search(r"320 requests in [^·]+, start and end left out", words(app))
    assert "have no interval" in words(app)


POOL = {"speculation": "eagle", "acceptance": "0.8", "prefill_workers": 2,
        "prefill_system": "b200-sxm-180gb"}  # fmt: skip


@pytest.mark.by_day(1)
@pytest.mark.parametrize("before", ["", "sim_"], ids=["today", "earlier"])
def test_drafts_and_a_prefill_pool_come_from_the_address(before: str):
    address = {f"{before}{name}": value for name, value in POOL.items()}
    app = pressed(opened("answer", **SMALL, **address), "Simulate")
    assert not app.exception and not app.error
    for sentence in (
        "drafts 3 tokens per step, which yield 2.95 tokens",
        "prefill on 2 x 1 NVIDIA B200",
        "prefill workers match one decode worker",
    ):
        assert sentence in words(app)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"prefill_workers": 1, "prefill_system": "rtx-4090"},
            "has no known link that reaches another system",
        ),
        ({"prefill_workers": 1, "prefill_tp": 64}, "prefill pool: tp 64"),
        ({"prefill_tp": 2}, "prefill_tp without a prefill pool"),
        ({"prefill_workers": "many"}, "prefill_workers = 'many': give a whole number"),
    ],
)
def test_pools_that_cannot_be_are_one_sentence(fields, sentence):
    app = opened("answer", **SMALL, **fields)
    if not app.error:  # refused by the simulation only
        app = pressed(app, "Simulate")
    assert not app.exception and sentence in app.error[0].value.replace("\\", "")


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"speculation": "ngram"}, "no acceptance rate of ngram drafts is known"),
        ({"speculation": "mtp"}, "has no multi-token-prediction layers"),
        ({"speculation": "eagle", "acceptance": "80"}, "give a rate above 0"),
    ],
)
def test_drafts_that_cannot_be_are_refused_before_the_form(fields, sentence):
    app = opened("answer", **SMALL, **fields)
    assert not app.exception and sentence in app.error[0].value


@pytest.mark.parametrize("load", [{"concurrency": 32}, {"rate": 2}], ids=["users", "rate"])
def test_a_load_and_its_sessions_are_simulated(load: dict):
    app = opened("answer", **ALONE, **load, turns=3, think_s=1, shared_tokens=128, requests=60)
    app = pressed(app, "Simulate")
    assert not app.exception and not app.error
    assert "60 requests in" in words(app) and "of the prompts from the cache" in words(app)


def test_a_result_stays_when_the_scenario_changes_and_says_so():
    app = pressed(opened("answer", **SMALL), "Simulate")
    before = cards(app)
    app = app.text_input("lengths_box").set_value("256 / 64").run()
    assert {name: cards(app)[name] for name in before if "median" in name} == {
        name: value for name, value in before.items() if "median" in name
    }
    assert "belongs to an earlier scenario" in app.info[0].value


def test_an_uploaded_trace_is_served():
    app = uploaded(opened("answer", **SMALL), TRACE)
    assert not app.exception and re.search(r"trace.csv · 40 requests in [\d.]+ s ·", words(app))


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a,b\n1,2\n", "no column arrival_s"),
        (b"\xff\xfe\x00" * 50, "is not a text file"),
        ("arrival_s,input_tokens,output_tokens\n", "has no requests"),
    ],
)
def test_an_upload_that_is_no_trace_is_one_sentence(content, sentence):
    app = uploaded(opened("answer", **SMALL), content)
    assert not app.exception and sentence in app.error[0].value


def test_users_that_start_together_wait_longer():
    steady, burst = (
        pressed(opened("answer", **SMALL, burst_start=start), "Simulate")
        for start in ("false", "true")
    )
    assert "320 requests in" in words(burst)
    assert cards(burst)["TTFT, median"] != cards(steady)["TTFT, median"]


def test_a_simulation_says_whether_it_meets_the_targets():
    targets = "p99 tpot < 1ms, ttft < 10s, usd_per_mtok < 5"
    app = pressed(opened("answer", **SMALL, target=targets), "Simulate")
    said = " ".join(text.value for text in app.markdown)
    assert re.search(r"TPOT p99 is [\d.]+ ms and misses its target \(.?< 1.00 ms\)", said)
    assert re.search(r"Mean TTFT is [\d.]+ ms and meets its target \(.?< 10.0 s\)", said)
    assert "Not simulated" not in words(app) and "$ per Mtok out is" not in said


def test_what_is_not_simulated_is_named():
    app = opened("answer", **SMALL, cp=2, price="2", prefix_hits="0.5")
    assert "Not simulated: cp, prefix_hits." in words(app)
    assert not pressed(app, "Simulate").error


def test_no_upload_is_one_sentence():
    app = opened("answer", **ALONE, trace="trace")
    assert "upload a trace first" in pressed(app, "Simulate").error[0].value


def test_what_cannot_be_simulated_is_one_sentence():
    app = opened("answer", **{**SMALL, "model": "meta-llama/Llama-3.1-70B"}, system="l4")
    assert not app.exception and "GB" in app.warning[0].value and not charts(app)


@pytest.mark.slow
def test_many_requests_run_in_a_process_of_their_own():
    app = opened("answer", **ALONE, rate=2, requests=6000)
    app = pressed(app, "Simulate")
    assert panel.JOB in app.session_state
    app = finished(app, panel.JOB)
    assert "6,000 requests in" in words(app) and panel.JOB not in app.session_state


@pytest.mark.slow
def test_a_kept_calibration_is_named_and_can_be_forgotten():
    asked = {"model": LLAMA, "engine": "vllm", "concurrency": 4, "isl": 256, "osl": 32}
    resolved = resolve(ask("simulate", asked).question)
    from_one_run.keep(from_one_run.fit(resolved, 0.02))
    app = pressed(opened("answer", **SMALL), "Simulate")
    assert "your measured TPOT of 20 ms" in words(app)
    app = pressed(app, "Forget the calibration")
    assert "Forgotten" in " ".join(info.value for info in app.info)
    assert "your measured TPOT" not in words(pressed(app, "Simulate"))
    assert setup_of(app).scenario.osl == 32
