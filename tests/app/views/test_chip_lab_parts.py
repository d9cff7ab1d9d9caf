"""Page Chip lab: sliders as columns, studies on one chart, uneven experts from a file."""

from __future__ import annotations

from pathlib import Path

import pytest
import ridgeline

from app.answers.columns import COLUMNS
from tests.app.pages import ROOT, brought, charts, opened, path_of, shown

EXPERTS = ROOT / "app" / "samples" / "studies" / "experts.json"
QWEN = {"model": "Qwen/Qwen3-235B-A22B", "system": "h200-sxm-141gb", "tp": 8, "ep": 8, "batch": 256}


def test_it_opens_with_what_twice_of_each_resource_gives():
    app = shown("chip_lab", model="Qwen/Qwen3-8B")
    assert not app.exception and not app.error
    table = app.table[0].value.set_index("figure")
    assert next(iter(table)) == "now"
    assert "−" in table["twice the memory bandwidth"]["TPOT"]


def test_sliders_are_columns_and_all_of_them_one_more():
    app = opened("chip_lab", chip_bandwidth="2", chip_link="0.5")
    assert not app.exception and not app.error
    names = ["figure", "now", "twice the memory bandwidth", "half the links", "all of it"]
    assert list(app.table[0].value) == names


@pytest.mark.parametrize("said", ["none", "900"])
def test_a_link_that_no_slider_reaches_is_a_sentence(said: str):
    app = opened("chip_lab", chip_peak=said)
    assert not app.exception and "peak" in app.error[0].value


@pytest.mark.parametrize("name", ["What would HBM4 bring", "The form's scenario"])
def test_a_study_is_one_chart_and_a_row_a_combination(name: str):
    app = opened("chip_lab", part="Study", study=name)
    assert not app.exception and not app.error
    (chart,) = charts(app)
    bars = sum(len(trace["x"]) for trace in chart["data"])
    assert bars == len(app.dataframe[0].value) >= 6


def test_what_a_target_needs_is_a_factor_and_peaks_are_rated_ones():
    app = shown("chip_lab", part="Needed hardware", target="tpot < 5ms", batch=1, isl=4096)
    factors, least = (table.value for table in app.dataframe)
    assert list(factors) == ["resource", "needed"]
    told = ("× the present value", "is not enough", "the present value is enough")
    assert all(any(words in one for words in told) for one in factors["needed"])
    arithmetic = least.set_index("resource").loc["Arithmetic", "this system has"]
    assert arithmetic == "989 TFLOP/s"  # as on its datasheet, not the mean of several formats


def test_a_study_that_is_none_is_a_sentence():
    app = opened("chip_lab", part="Study")
    app = app.text_area[0].set_value("chips: []").run()
    assert not app.exception and "a study needs a question" in app.error[0].value


def test_counts_of_experts_are_priced_with_copies_and_without():
    app = brought(opened("chip_lab", part="Uneven experts", **QWEN), "routing_files", EXPERTS)
    assert not app.exception and not app.error
    table = app.dataframe[0].value
    assert len(charts(app)) == 1 and table["copies of experts"].is_monotonic_increasing
    assert len(table) == 4 and table["TPOT"].notna().all()


def test_uneven_experts_are_priced_under_the_load_of_the_question():
    load = {**QWEN, "concurrency": 64}
    del load["batch"]
    app = brought(opened("chip_lab", part="Uneven experts", **load), "routing_files", EXPERTS)
    table = app.dataframe[0].value
    busiest = float(table["busiest rank"][0].split()[0])
    served = ridgeline.serve(**load, expert_imbalance=busiest)
    assert table["TTFT"][0] == COLUMNS["ttft_s"].words(served.ttft_s)


def test_counts_that_are_none_are_a_sentence(tmp_path: Path):
    file = tmp_path / "counts.json"
    file.write_text('{"counts": [[1, "two"]]}')
    app = brought(opened("chip_lab", part="Uneven experts", **QWEN), "routing_files", file)
    assert not app.exception and "not lists of numbers" in app.error[0].value


def test_a_worked_study_needs_no_question_that_can_be_priced():
    worked, own = (
        opened("chip_lab", part="Study", model="BAAI/bge-m3", tp=3, study=study)
        for study in ("What would HBM4 bring", "The form's scenario")
    )
    assert not worked.exception and not worked.error and charts(worked)
    assert not own.exception and own.error


def test_counts_that_were_given_to_page_upload_are_read_here_too():
    app = brought(opened("upload", **QWEN), "upload_files", EXPERTS)
    assert not app.exception and not app.error
    upload = app.dataframe[0].value
    app = app.switch_page(path_of("chip_lab"))
    app.query_params["part"] = "Uneven experts"
    app = app.run()
    assert not app.exception and not app.error
    busiest = upload.set_index("expert parallel")["busiest rank over the mean"][8]
    assert app.dataframe[0].value["busiest rank"].iloc[0] == f"{busiest:.2f} × the mean"
