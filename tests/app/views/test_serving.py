"""Page Answer, part Load curves: the curves, and overload and waiting in words."""

import re

import pytest
import ridgeline
from streamlit.testing.v1 import AppTest

from app.dashboard import load_curves
from app.question.question import Question
from app.scenario.scenario import resolve
from app.scenario.setup import Setup
from app.wording import quantities
from hardware_db.tables import table
from tests.app.pages import cards, charts, opened, setup_of, shown

#: The page opened with the plain scenario and arrivals, shared with the test of overload.
ARRIVALS = {"rate": 5}


def captions(app: AppTest) -> str:
    return " ".join(caption.value for caption in app.caption)


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    "query",
    [
        {},
        ARRIVALS,
        {
            "model": "mistralai/Mixtral-8x7B-v0.1",
            "tp": 2,
            "ep": 2,
            "engine": "vllm",
            "concurrency": 64,
        },
        {"osl": 1},
        {"system": "xeon-6767p", "weights": "q4_k_m", "rate": 0.01},
        {"bandwidth": 2.0, "engine": "vllm"},
    ],
    ids=["default", "open", "experts", "one token", "cpu", "what if"],
)
def test_the_page_opens_on_scenarios_plain_and_awkward(query: dict):
    app = shown("serving", **query)
    assert not app.exception and not app.error
    assert len(charts(app)) == 3
    four = ["TTFT", "TPOT", "Output throughput", "Cost per 1M tokens"]
    assert list(cards(app)) == four
    one_token = query.get("osl") == 1  # no gap between tokens
    assert cards(app)["TPOT"] == "–" if one_token else cards(app)["TPOT"].endswith("s")
    assert cards(app)["Output throughput"] != "–"


def test_overload_is_a_sentence_and_a_shade_beyond_the_last_stable_rate():
    app = shown("serving", **ARRIVALS)
    assert any("the queue grows without bound" in text.value for text in app.warning)
    table = load_curves.curve(Setup(Question()), "rate")
    stable = table.loc[table["status"] == "ok", "rate"].max()
    shapes = charts(app)[1]["layout"]["shapes"]
    (shade,) = (shape for shape in shapes if shape["type"] == "rect")
    assert shade["x0"] == pytest.approx(stable) and shade["x1"] > table["rate"].max()


def test_a_load_whose_median_misses_a_percentile_target_is_beyond_the_most():
    setup = Setup(Question())
    median = load_curves.curve(setup, "concurrency").set_index("concurrency")["tpot_median_s"]
    said = captions(opened("answer", target=f"p99 tpot < {median[64]:.6f}s"))
    most = int(re.search(r"at most \*\*(\d+) users\*\* can meet", said, re.I).group(1))
    assert 32 < most <= 65
    assert "see part Simulate" in said
    assert "is the highest load that meets the targets" in captions(
        opened("answer", target="tpot < 20ms")
    )


def test_the_figure_that_misses_its_target_first_is_named():
    """Where the mean of TTFT did, the page once said that a median would."""
    query = {"rate": 1, "engine": "vllm", "prefill_workers": 1}
    said = captions(opened("answer", target="p99 tpot < 100ms, ttft < 120ms", **query))
    assert "beyond that the mean TTFT misses its target" in said
    said = captions(opened("answer", target="p99 tpot < 10ms, ttft < 100s", **query))
    assert "beyond that even the median TPOT misses its target" in said


def test_the_latency_of_an_endless_queue_is_unbounded_and_not_merely_unvalidated():
    card = {one.label: one for one in shown("answer", rate="1e9").metric}["TTFT"]
    assert (card.value, card.delta) == ("unbounded", "the queue grows")
    card = shown("answer", rate="1e9", model="BAAI/bge-m3", isl=512).metric[0]
    assert (card.value, card.delta) == ("unbounded", "median unbounded")


def test_a_median_that_is_taken_as_the_mean_has_no_line_of_its_own():
    named = [trace["name"] for trace in charts(shown("answer", concurrency=16))[0]["data"]]
    assert "TPOT mean and median" in named and "TPOT median" not in named
    named = [trace["name"] for trace in charts(shown("answer", rate=5, engine="vllm"))[0]["data"]]
    assert {"TTFT mean", "TTFT median", "TPOT mean and median"} <= set(named)


MEASURED = {
    "model": "meta-llama/Llama-3.1-70B", "system": "h100", "engine": "vllm", "weights": "fp8",
    "tp": 2, "concurrency": 16, "isl": 1024, "osl": 1024,
}  # fmt: skip


def test_bound_predicted_and_measured_are_in_one_chart():
    app = opened("answer", **MEASURED)
    drawn = {trace["name"]: trace for trace in charts(app)[0]["data"]}
    ran = {**MEASURED, "system": "h100_sxm", "concurrency": None}
    rows = [
        row for row in table("measurements", "serving")
        if all(row[name] == str(value) for name, value in ran.items() if value)
    ]  # fmt: skip
    for name in ("TTFT", "TPOT"):
        column = f"measured_{name.casefold()}_s"
        truth = [(float(row["concurrency"]), float(row[column])) for row in rows]
        shown = drawn[f"{name} measured"]
        assert truth and list(zip(shown["x"], shown["y"], strict=True)) == truth
        bound, mean = drawn[f"{name} bound"], drawn[f"{name} mean and median"]
        assert all(low < y for low, y in zip(bound["y"], mean["y"], strict=True))
        reach = drawn[f"{name} predicted for the run"]["error_y"]
        assert len(reach["array"]) == len(rows) and min(reach["array"]) > 0
    assert f"Diamonds are {len(rows)} measured runs" in captions(app)
    assert all("Bound: " in one.help for one in app.metric if one.label in ("TTFT", "TPOT"))
    other = opened("answer", **{**MEASURED, "isl": 3000})
    assert "Diamonds are" not in captions(other)
    assert "TTFT measured" not in [trace["name"] for trace in charts(other)[0]["data"]]


def test_the_causes_say_what_prompts_of_others_add_to_tpot():
    app = opened("answer", concurrency=16, isl=8000, osl=100)
    said = next(text.value for text in app.markdown if "of waiting" in text.value)
    step, others = (
        float(re.search(words, said).group(1))
        for words in (r"% of ([\d.]+)\sms\)", r"prefills add ([\d.]+)\sms")
    )
    shown = float(cards(app)["TPOT"].removesuffix(" ms"))
    assert shown == pytest.approx(step + others, abs=0.15)  # each is rounded to a tenth
    alone = opened("answer", concurrency=1, isl=500, system="rtx-4090", engine="llama.cpp")
    said = next(text.value for text in alone.markdown if "TTFT is" in text.value)
    assert "for prefill, without waiting." in said and "0 s" not in said
    app = opened("answer", concurrency=16, isl=16, osl=512)
    assert not any("Other users' prefills" in text.value for text in app.markdown)


def test_a_link_that_states_a_rate_asks_about_arrivals():
    app = opened("serving", rate=2.0)
    assert setup_of(app).scenario.rate == 2.0 and not app.exception
    assert setup_of(opened("serving", concurrency=8)).scenario.concurrency == 8


def test_waiting_for_cache_is_a_sentence_with_the_number_that_runs():
    app = opened("serving", isl=8192, osl=1024)
    table = load_curves.curve(Setup(Question(isl=8192, osl=1024)), "concurrency")
    most = round(table["running"].max())
    said = app.warning[0].value
    assert f"At most {most} requests run at once, so from {most + 1} open requests on" in said


def test_what_does_not_fit_names_the_fewest_devices_which_serve_it():
    app = opened("serving", model="meta-llama/Llama-3.1-70B", system="l4")
    held = next(m.value for m in app.markdown if "Fewest" in m.value)
    assert "**8** (TP8)" in held
    app = app.button("take_devices").click().run()
    assert setup_of(app).scenario.tp == 8
    assert not app.error and len(charts(app)) == 3


def test_a_load_whose_requests_wait_is_served_though_its_batch_does_not_fit():
    app = opened("serving", system="l4", concurrency=512)
    assert not app.error and len(charts(app)) == 3
    assert opened(system="l4", batch=512).warning[0].value.startswith("Does not fit: ")


def test_drafts_of_the_sidebar_change_the_curves_and_have_no_interval():
    drafts = {"speculation": "ngram", "draft_tokens": 3, "acceptance": 0.6}
    app = opened("serving", concurrency=4, **drafts)
    (alone,) = ridgeline.serve(
        Question().model, system=Question().system, concurrency=4, **drafts
    ).rows
    assert cards(app)["TPOT"] == quantities.seconds(alone["tpot_s"])
    plain = opened("serving", concurrency=4)
    assert cards(app)["TPOT"] != cards(plain)["TPOT"]
    assert "its figures have no ranges" in captions(app)
    assert "All ranges are 80 % intervals" in captions(plain)


@pytest.mark.parametrize("users", [96, 100])
def test_the_number_of_users_that_is_typed_is_the_number_that_is_priced(users: int):
    app = opened("serving", engine="vllm", concurrency=users)
    (alone,) = ridgeline.serve(
        Question().model, system=Question().system, engine="vllm", concurrency=users
    ).rows
    assert any(f"for **{users} users**" in text.value for text in app.markdown)
    assert cards(app)["TTFT"] == quantities.seconds(alone["ttft_s"])
    assert cards(app)["TPOT"] == quantities.seconds(alone["tpot_s"])


def test_a_rate_that_is_typed_is_priced():
    app = opened("serving", rate=2)
    (alone,) = ridgeline.serve(Question().model, system=Question().system, rate=2).rows
    assert cards(app)["TTFT"] == quantities.seconds(alone["ttft_s"])


def test_a_measured_recipe_is_named_with_its_points():
    measured = Question(model="openai/gpt-oss-120b", engine="vllm")
    recipe = resolve(measured).engine.recipe
    assert recipe is not None
    basis = f"corrected by {recipe.points} measured runs of this model here"
    assert load_curves.basis(Setup(measured)) == basis
    app = opened("serving", model="openai/gpt-oss-120b", engine="vllm")
    assert basis in captions(app)


def test_degrees_that_do_not_divide_are_one_sentence():
    app = opened("serving", tp=3)
    assert not app.exception
    assert "tp 3" in app.error[0].value


@pytest.mark.parametrize("query", [{}, ARRIVALS], ids=["closed", "open"])
def test_a_model_that_reads_has_latency_and_sequences_and_no_time_between_tokens(query: dict):
    app = shown("serving", model="BAAI/bge-m3", isl=512, **query)
    assert not app.exception and not app.error
    assert list(cards(app)) == ["Latency", "Throughput", "Tokens read", "Running"]
    assert len(charts(app)) == 2 and "seq/s" in str(cards(app)["Throughput"])
    (table,) = (frame.value for frame in app.dataframe)
    assert not any("tpot" in name or "ttft" in name for name in table)
    assert {"latency_s", "sequences_per_s"} <= set(table)


def test_the_causes_of_an_endless_queue_are_not_split():
    app = shown("answer", rate="1e9")
    said = next(text.value for text in app.markdown if "is limited by" in text.value)
    assert "–" not in said and said.startswith("Other users' prefills add")


def test_a_range_of_throughput_has_no_exponent():
    query = {"model": "moonshotai/Kimi-K2-Instruct", "system": "gb200-nvl72", "dp": 32, "ep": 32,
             "concurrency": 4096, "isl": 8192, "osl": 1024}  # fmt: skip
    (card,) = (one for one in shown("answer", **query).metric if one.label == "Output throughput")
    assert " to " in card.delta and card.delta.endswith(" tok/s") and "e+" not in card.delta


def test_the_curve_of_one_output_token_has_no_time_of_a_second():
    curves = {osl: charts(shown("answer", osl=osl))[0]["data"] for osl in (1, 64)}
    latencies = {osl: {trace["name"].split()[0] for trace in data} for osl, data in curves.items()}
    assert latencies == {1: {"TTFT"}, 64: {"TTFT", "TPOT"}}


def test_where_a_single_token_is_made_the_prefill_is_explained_and_no_decode_step():
    said = " ".join(text.value for text in shown("answer", osl=1).markdown)
    assert "The prefill of a prompt is limited by" in said and "A decode step" not in said


def test_a_static_batch_of_a_single_token_has_neither_a_tpot_nor_a_decode_step():
    cards = {one.label: one for one in shown("answer", osl=1, batch=4).metric}
    assert (cards["TPOT"].value, cards["TPOT"].delta) == ("–", "only one output token")
    (phase,) = (one for one in shown("explain", osl=1, batch=4).segmented_control
                if one.label == "Phase")  # fmt: skip
    assert phase.options == ["prefill"]


def test_users_of_a_prefill_pool_wait_only_where_more_of_them_do_not_run():
    setup = Setup(Question(prefill_workers=2, replicas=2, concurrency=64))
    table = load_curves.curve(setup, "concurrency")
    (said,) = load_curves.load_warnings(table, "concurrency")
    first = int(re.search(r"from about ([0-9,]+) open", said)[1].replace(",", ""))
    share, users = table["running"] / table["concurrency"], table["concurrency"]
    at = len(load_curves.without_waiting(table, "concurrency"))
    assert first > 16 and (share[:at] > 0.7).all() and (share[at + 1 :] < 0.5).all()
    assert users[at - 2] < first <= users[at]
    assert share[users < first].min() > 0.9 and table["running"].max() < 0.95 * first


def test_what_prompts_of_others_add_is_not_the_longer_context_of_later_turns():
    query = {"concurrency": 64, "turns": 10, "turn_isl": 500}
    said = " ".join(text.value for text in shown("answer", **query).markdown)
    added = float(re.search(r"prefills add ([0-9.]+) ms to TPOT", said)[1])
    (row,) = ridgeline.serve(Question().model, system=Question().system, **query).rows
    assert added == pytest.approx(1e3 * row["prompt_share"] * row["tpot_s"], rel=0.01)


def test_a_measured_run_behind_a_figure_is_named_by_what_ran_before_its_figures():
    app = shown("answer", engine="vllm", part="Load curves")
    (runs,) = (one for one in app.dataframe if "of_physics_tpot_s" in one.value)
    order = list(runs.proto.column_order)
    assert order[:4] == ["run", "model", "system", "weights"]
    assert {"isl", "concurrency"} <= set(order[: order.index("measured_tpot_s")])
    assert runs.value["model"].str.contains("/").all()
    assert "measured / uncorrected" in str(runs.proto.columns)
