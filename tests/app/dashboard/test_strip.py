"""The question at the top of every page: a sentence, and the line that sets the form and
the page.
"""

from __future__ import annotations

import pytest
import ridgeline
from streamlit.testing.v1 import AppTest

from app.dashboard import strip
from app.line.line_answer import readable
from app.line.line_parser import read
from app.wording import quantities
from tests.app.pages import cards, opened, path_of, setup_of, shown


def sentence(app: AppTest) -> str:
    return next(str(text.value) for text in app.markdown if " on **" in str(text.value))


def asked(app: AppTest, line: str) -> AppTest:
    app.button("question_type").click().run()
    return app.text_input("question_line").set_value(line).run()


def test_the_first_screen_answers_a_served_load():
    app = shown()
    assert "Serve **Llama-3.1-8B** for **16 users**" in sentence(app)
    answer = ridgeline.serve("meta-llama/Llama-3.1-8B", concurrency=16)
    assert quantities.seconds(answer.ttft_s) in str(cards(app)["TTFT"])


@pytest.mark.by_day(2)
@pytest.mark.parametrize("page", ["roofline", "memory", "serving", "plan", "chip_lab"])
def test_every_page_of_the_question_says_it(page: str):
    app = shown(page)
    assert "Llama" in sentence(app) and app.button("question_type")


def test_a_page_greys_what_it_does_not_read():
    app = shown("roofline", prefix_hits="0.5")
    assert ":gray[" in sentence(app)
    assert ":gray[" not in sentence(shown("serving", prefix_hits="0.5"))


def test_a_line_sets_the_form_and_the_load_and_its_answer_is_that_of_ask():
    line = "qwen3 8b fp8 on 2 h200 vllm 37 users 900/110 max-num-seqs 64"
    app = asked(opened(isl=77, tp=4), line)
    assert not app.exception
    wanted = read(line).question
    assert setup_of(app).scenario == wanted
    answer = ridgeline.ask(line).answer
    assert quantities.seconds(answer.ttft_s) in str(cards(app)["TTFT"])
    assert quantities.seconds(answer.tpot_s) in str(cards(app)["TPOT"])
    app.button("question_type").click().run()
    assert read(app.text_input("question_line").value).question == wanted


def test_a_line_for_the_largest_number_of_users_is_the_plan_of_ask():
    line = "how many users can 2 h100 serve llama 8b with tpot < 12ms vllm tp1"
    app = asked(opened(), line)
    assert not app.exception
    users = readable(line).given["concurrency"]
    assert f"Plan **Llama-3.1-8B** for **{users:,} users**" in sentence(app)


@pytest.mark.parametrize(
    ("axis", "said"),
    [
        ("Systems", "h100-sxm5-80gb or h200-sxm-141gb"),
        ("Models", "Compare **Llama-3.1-8B or Qwen3-8B**"),
        ("Formats", "the checkpoint's format or fp8"),
        ("Use cases", "Chat or Summarisation"),
        ("Versions", "vllm 0."),
    ],
)
def test_the_strip_says_what_frontiers_compare(axis: str, said: str):
    app = opened("compare", compare_by=axis, engine="vllm", tp=4)
    assert not app.exception and not app.error
    assert sentence(app).startswith("Compare **") and said in sentence(app)
    assert ":gray[for 16 users]" in sentence(app) and "any layout" in sentence(app)
    assert "pools" not in sentence(app)
    app.button("question_type").click().run()
    assert read(app.text_input("question_line").value).understood()


def test_the_strip_of_a_comparison_names_what_is_compared():
    said = sentence(shown("compare", part="Figures"))
    assert said.startswith("Compare **Llama-3.1-8B** for **16 users**")
    assert "h100-sxm5-80gb or h200-sxm-141gb or b200-sxm-180gb" in said


def test_the_strip_says_an_account_and_nothing_of_a_worked_study():
    assert sentence(shown("plan", part="Economics")).startswith("Price **Llama-3.1-8B**")
    worked = shown("chip_lab", part="Study")
    assert not [text for text in worked.markdown if text.value.startswith("Vary")]
    own = shown("chip_lab", part="Study", study="The form's scenario")
    assert [text for text in own.markdown if text.value.startswith("Vary")]


def test_the_strip_says_tokens_only_where_they_are_read_or_made():
    reads = sentence(shown(model="google-bert/bert-base-uncased", system="t4", isl=256))
    assert "of **256 tokens** on" in reads
    hears = sentence(shown(model="openai/whisper-large-v3", system="a10", osl=200))
    assert "of **30 s of audio / 200 tokens** on" in hears


def test_the_strip_says_units_and_factors():
    said = sentence(shown(bandwidth=10, turns=3, think_s=30, rate=1, osl=1))
    assert "at **1 request/s** of **1,024 / 1 token**" in said
    assert "**memory bandwidth ×10**" in said and "**pause between turns 30 s**" in said


def test_a_plan_that_is_typed_beside_the_accounts_opens_the_plan():
    app = asked(opened("plan", part="Economics"), "qwen3 8b h200 vllm 20/s tpot<30ms")
    assert not app.exception and not app.error
    assert app.segmented_control(key="part").value == "Plan"
    assert sentence(app).startswith("Plan **Qwen3-8B** at **20 requests/s**")


def test_a_visitor_who_opens_another_page_before_the_answer_stays_there_with_the_question():
    app = opened()
    app.button("question_type").click().run()
    app.text_input("question_line").set_value("qwen3 8b on h200 or mi300x vllm 20/s tpot<30ms")
    app.switch_page(path_of("compare")).run()
    assert not app.exception
    assert sentence(app).startswith("Compare **Qwen3-8B** :gray[at 20 requests/s]")
    assert "h200-sxm-141gb or mi300x" in sentence(app)


@pytest.mark.parametrize("pools", ["aggregated", "disaggregated"])
def test_a_typed_list_is_in_its_box_as_a_list(pools: str):
    app = asked(opened("plan"), f"qwen3 8b on 2 mi300x vllm 1.8/s 2000/50 tpot<45ms {pools}")
    assert not app.exception and app.multiselect("pools").value == [pools]


def test_what_is_not_understood_is_named_and_a_click_replaces_it():
    app = asked(opened(), "qwen3 8b h200 37 usrs")
    assert "'usrs' is not understood" in app.error[0].value
    assert setup_of(app).changed() == {"concurrency": 16}, "nothing is taken by half"
    near = next(button for button in app.button if button.label == "users")
    app = near.click().run()
    assert not app.error and "37 users" in sentence(app)


def test_a_value_that_cannot_be_is_refused_in_its_sentence():
    app = asked(opened(), "tp 0")
    assert "tp = 0" in app.error[0].value


def test_the_pages_of_the_strip_are_pages():
    for page in filter(None, strip.VERBS):
        assert path_of(page)
    assert all(path_of(target.rpartition("/")[2]) for target in strip._PAGES.values())
