"""Page Chip lab, part Sensitivity: every tab opens by itself, and names what is impossible."""

from __future__ import annotations

import pytest

from tests.app.pages import charts, opened, shown


def test_three_tornados_and_their_elasticities_open_first():
    app = shown("chip_lab", part="Sensitivity")
    assert not app.exception and not app.error
    assert len(charts(app)) == 3
    assert any("adds up" in c.value or "add up" in c.value.replace("\n", " ") for c in app.caption)


def test_a_figure_that_the_load_does_not_have_has_no_chart():
    app = shown("chip_lab", part="Sensitivity", osl=1)
    assert len(charts(app)) == 2 and "TPOT" not in app.dataframe[0].value


@pytest.mark.by_day(2)
@pytest.mark.parametrize("tab", ["Ridge", "Another chip", "Needed hardware"])
@pytest.mark.parametrize("load", [{"batch": 32}, {"concurrency": 32}, {"trace": "trace"}], ids=str)
def test_every_tab_opens_under_either_load(tab: str, load: dict):
    app = opened("chip_lab", part=tab, target="tpot < 20ms", **load)
    assert not app.exception and not app.error
    assert app.dataframe or app.table or charts(app)
    said = any("figures are for a batch of one" in caption.value for caption in app.caption)
    assert said == ("trace" in load)


def test_ridges_say_the_batch_that_they_mark():
    app = opened("chip_lab", part="Ridge", concurrency=512)
    assert not app.exception and not app.error
    assert charts(app) and not any("512 users" in c.value for c in app.caption)


def test_a_chip_of_faster_memory_is_faster():
    app = opened("chip_lab", part="Another chip", chip_memory="HBM4")
    assert not app.exception and not app.error
    table = app.table[0].value.set_index("figure")
    assert "(−" in table.loc["TPOT", "all of it"]


def test_targets_that_cannot_be_read_are_a_sentence():
    query = {"part": "Needed hardware", "target": "cost < 1"}
    app = opened("chip_lab", **query)
    assert not app.exception and "mean latencies" in app.error[0].value


def test_a_chip_is_asked_as_the_sidebar_asks():
    app = opened("chip_lab", part="Another chip", chip_peak="2", chip_weights="fp8")
    assert not app.exception and not app.error
    assert any("peak ×2" in m.value and "weights fp8" in m.value for m in app.markdown)
    app = opened("chip_lab", part="Another chip", chip_peak="none")
    assert not app.exception and "peak" in app.error[0].value
