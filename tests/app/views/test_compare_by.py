"""Page Compare by models, systems, engines and use cases."""

from __future__ import annotations

import json

import pytest

from app.decide.comparison import AXES
from tests.app.pages import charts, opened, shown


@pytest.mark.by_day(3)
@pytest.mark.parametrize("words", AXES.values())
def test_every_axis_opens_with_figures_the_best_marked_and_a_verdict(words: str):
    app = shown(
        "compare",
        part="Figures",
        compare_by=words,
        engine="vllm",
        model="openai/gpt-oss-120b",
        tp=4,
    )
    assert not app.exception and not app.error
    assert len(charts(app)) == 5
    cells = " ".join(str(value) for value in app.dataframe[0].value.to_numpy().ravel())
    assert "★" in cells
    assert any("is best with" in text.value for text in app.markdown)
    for row in app.dataframe[0].value.to_dict("records")[:4]:  # what has an interval shows it
        assert all(" [" in str(value) for value in list(row.values())[1:] if "★" in str(value))


@pytest.mark.parametrize(("words", "given"), [("Systems", {"system": "h200"}),
                                              ("Models", {"model": "llama-3.1-8b"})])  # fmt: skip
def test_a_system_or_model_by_a_shorter_name_is_compared_once(words: str, given: dict[str, str]):
    app = shown("compare", part="Figures", compare_by=words, **given)
    (named,) = given.values()
    columns = list(app.dataframe[0].value.columns)
    assert named in columns
    assert len(columns) == {"Systems": 4, "Models": 3}[words], "the figure and one a name"


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("tab", "drawn"), [("Breakdown", 2), ("Memory", 1)])
def test_every_tab_has_its_charts(tab: str, drawn: int):
    app = opened("compare", compare_by="Engines", part=tab)
    assert not app.exception and not app.error
    assert len(charts(app)) == drawn


@pytest.mark.parametrize("tab", ["Breakdown", "Memory", "Pinned"])
def test_steps_and_memory_are_of_the_load_that_is_asked(tab: str):
    app, alone = (opened("compare", part=tab, **load) for load in ({"rate": 8}, {"batch": 1}))
    assert not app.exception and not app.error
    (said,) = (c.value for c in app.caption if c.value.startswith("For "))
    (one,) = (c.value for c in alone.caption if c.value.startswith("For "))
    assert "a static batch of 1," in one and "a static batch of 1," not in said
    drawn, of_one = ([c["data"] for c in charts(each)] for each in (app, alone))
    assert drawn and drawn != of_one


def test_pinned_loads_show_their_own_figures_beside_those_of_a_static_batch():
    pins = [{"concurrency": 64, "osl": 200}, {"batch": 64, "osl": 200}]
    app = opened("compare", part="Pinned", pins=json.dumps(pins))
    assert not app.exception and not app.error
    assert any("A: 64 users. B: batch 64." in one.value for one in app.caption)
    table = app.dataframe[0].value.set_index("figure")
    assert table["A"]["Running"] == "64" and not isinstance(table["B"]["Running"], str)
    assert table.loc["Devices"].tolist() == ["1", "1"]
    for name in ("TTFT", "TPOT", "$ per Mtok out"):
        both = [str(words).split(" [")[0] for words in table.loc[name]]
        assert len(set(both)) == 2


def test_a_pinned_load_that_does_not_fit_has_its_memory_and_the_reason():
    app = opened("compare", part="Pinned", model="meta-llama/Llama-3.1-70B", concurrency=4)
    assert not app.exception and not app.error
    shown = app.dataframe[0].value["figure"].tolist()
    assert shown == ["Devices", "Memory per device", "Weights per device"]
    assert "GB" in app.warning[0].value


@pytest.mark.parametrize(
    ("load", "verb"), [({"concurrency": 4}, "Serve"), ({"batch": 4}, "Estimate")]
)
def test_pinned_says_serve_where_its_figures_are_those_of_a_load(load, verb):
    app = opened("compare", part="Pinned", **load)
    said = [text.value for text in app.markdown if "Llama" in text.value]
    assert not app.exception and verb in said[0]


@pytest.mark.parametrize("tab", ["Frontier", "Figures"])
def test_an_engine_without_a_measured_version_is_a_sentence(tab: str):
    app = opened("compare", part=tab, compare_by="Versions", engine="fastertransformer")
    assert not app.exception
    assert "no version of fastertransformer was measured" in app.error[0].value


def test_a_name_that_is_unknown_is_a_sentence_where_versions_are_compared():
    app = opened("compare", part="Figures", compare_by="Versions", system="h1000000")
    assert not app.exception and "h1000000" in app.error[0].value


def test_one_that_cannot_be_priced_is_a_sentence_beside_the_others():
    app = opened(
        "compare",
        part="Figures",
        devices="1:8",
        compare_by="Models",
        model="openai/gpt-oss-20b",
        tp=8,
    )
    app = app.multiselect(key="models").set_value(
        ["openai/gpt-oss-20b", "Qwen/Qwen2.5-0.5B"]
    ).run()  # fmt: skip
    assert not app.exception
    assert "Qwen/Qwen2.5-0.5B" in app.error[0].value
    assert charts(app)


def test_versions_say_what_was_measured_of_each():
    app = opened(
        "compare",
        part="Figures",
        compare_by="Versions",
        engine="vllm",
        model="openai/gpt-oss-120b",
        tp=4,
    )
    assert not app.exception and not app.error
    table = app.dataframe[1].value
    assert (table["of this model"] > 0).all() and len(table) > 1


@pytest.mark.parametrize("tab", ["Figures", "Breakdown", "Pinned"])
def test_a_trace_is_compared_as_a_batch_of_one_and_that_is_said(tab: str):
    app = opened("compare", part=tab, trace="trace")
    assert not app.exception and not app.error
    assert charts(app)
    said = " ".join(caption.value for caption in app.caption)
    assert "batch of one" in said or "a static batch of 1," in said


def test_one_scenario_has_nothing_in_parentheses_and_says_nothing_of_them():
    pins = [{"batch": 4}]
    for several in (False, True):
        asked = json.dumps([*pins, {"batch": 8}] if several else pins)
        app = opened("compare", part="Pinned", pins=asked)
        said = " ".join(caption.value for caption in app.caption)
        assert "Square brackets" in said and ("Parentheses" in said) is several
