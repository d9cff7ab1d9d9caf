"""Page Upload, profiles: cards, the timeline, tables, the trace for other tools, the roofline."""

import gzip
from pathlib import Path

import pytest

import profilers
from app.dashboard import uploads
from app.dashboard.panels import profile, timeline
from app.wording import quantities
from profilers.operators import activity_bars
from tests.app.pages import DECODE, PREFILL, QWEN, ROOT, brought, cards, charts, opened


def test_the_reports_page_invites_before_anything_is_uploaded():
    app = opened("upload")
    assert not app.exception
    assert "try a sample" in app.info[0].value


@pytest.mark.by_day(2)
@pytest.mark.parametrize("sample", list(uploads.REPORT_SAMPLES))
def test_every_sample_opens(sample: str):
    app = opened("upload")
    app.pills("upload_samples").set_value([sample]).run()
    assert not app.exception and not app.error
    report = profilers.read_report(ROOT / "app" / "samples" / uploads.REPORT_SAMPLES[sample])
    assert cards(app)["Kernel launches"] == f"{int(report.kernels['count'].sum()):,}"


def test_cards_show_what_the_summary_says():
    app = opened("upload")
    app.pills("upload_samples").set_value([next(iter(uploads.REPORT_SAMPLES))]).run()
    assert cards(app)["Kernel launches"] == "1,465"
    assert cards(app)["Kernel time"] == "45.4 ms"


def test_another_question_does_not_read_the_report_again(monkeypatch: pytest.MonkeyPatch):
    app = opened("upload")
    app.pills("upload_samples").set_value([next(iter(uploads.REPORT_SAMPLES))]).run()
    drawn = cards(app)
    for module, name in (
        (profile, "summarise"), (timeline, "window_statistics"), (activity_bars, "activity_bars"),
    ):  # fmt: skip
        monkeypatch.delattr(module, name)
    app.selectbox("engine").set_value("sglang").run()
    assert not app.exception and not app.error
    assert cards(app) == drawn


def class_times(app) -> dict[str, float]:
    """Milliseconds of each operator class in the chart of page Upload."""
    [chart] = [one for one in charts(app) if "by operator class" in str(one["layout"])]
    return {bar["name"]: sum(bar["x"]) for bar in chart["data"]}


def test_the_chart_of_classes_counts_the_step_as_the_findings_do():
    """Eight elementwise kernels are one norm of a model that nothing fused."""
    app = brought(opened("upload"), "upload_files", QWEN)
    said = " ".join(text.value for text in app.markdown)
    drawn = class_times(app)
    assert {"Norms", "Pointwise"} <= set(drawn)
    for name, words in (("Norms", "norms"), ("Pointwise", "pointwise operators")):
        assert f"{words} in prefill: {quantities.seconds(drawn[name] / 1e3)}" in said


def test_kernels_that_are_matched_with_nothing_are_classed_by_their_names():
    other = class_times(brought(opened("upload", model="Qwen/Qwen3-8B"), "upload_files", QWEN))
    report = profilers.read_report(QWEN)
    assert sum(other.values()) == pytest.approx(report.kernels["duration_s"].sum() * 1e3)


def test_an_uploaded_report_is_drawn_and_two_are_compared():
    app = brought(opened("upload"), "upload_files", PREFILL, DECODE)
    assert not app.exception and not app.error
    assert cards(app)["Kernel launches"] == "6,660"
    app.segmented_control("part").set_value("Difference").run()
    assert any("Kernel time changes by **113 ms** less" in text.value for text in app.markdown)
    table = app.dataframe[-1].value
    assert table["change [µs]"].sum() == pytest.approx(-113e3, rel=0.01)


def test_half_an_upload_is_read_up_to_its_end_and_says_so(tmp_path: Path):
    half = tmp_path / "half.json"
    whole = gzip.decompress(QWEN.read_bytes())
    half.write_bytes(whole[: len(whole) * 3 // 4])
    app = brought(opened("upload"), "upload_files", half)
    assert not app.exception and not app.error
    assert any("is cut off after event" in caption.value for caption in app.caption)


def test_what_is_no_report_is_a_sentence_beside_what_could_be_read(tmp_path: Path):
    broken = tmp_path / "half.json"
    broken.write_bytes(gzip.decompress(QWEN.read_bytes())[:40])
    app = brought(opened("upload"), "upload_files", broken, DECODE)
    assert not app.exception
    assert app.error[0].value.startswith("half.json")
    assert cards(app)["Kernel launches"] == "78,016"


def test_operators_of_a_trace_with_shapes_are_drawn_under_the_roof_of_their_device():
    app = opened("upload")
    app.pills("upload_samples").set_value([next(iter(uploads.REPORT_SAMPLES))]).run()
    app.segmented_control("part").set_value("Operators").run()
    assert not app.exception
    table = next(frame.value for frame in app.dataframe if "TFLOP/s" in frame.value)
    assert table["TFLOP/s"].max() == pytest.approx(682, rel=0.01)
    assert any("of kernel time" in caption.value for caption in app.caption)


@pytest.mark.slow
def test_ranks_of_one_run_are_drawn_beside_each_other(tmp_path: Path):
    ranks = [tmp_path / f"run_rank{number}.json.gz" for number in (0, 1)]
    for path in ranks:
        path.write_bytes(QWEN.read_bytes())
    app = brought(opened("upload"), "upload_files", *ranks)
    assert not app.exception and not app.error
    assert any(header.value == "2 ranks" for header in app.subheader)


def test_the_roofline_of_a_report_is_drawn_under_the_roofs_it_states():
    app = opened("upload")
    app.pills("upload_samples").set_value(["The roofline of that kernel (ncu)"]).run()
    assert not app.get("plotly_chart")  # none of times, which this report does not have
    app.segmented_control("part").set_value("Roofline").run()
    assert not app.exception
    assert any("CUDA cores only" in caption.value for caption in app.caption)
    assert len(app.get("plotly_chart")) == 1


def test_where_the_time_of_a_trace_goes_is_said_once_it_is_there_and_a_finding_moves_the_timeline():
    app = brought(opened("upload"), "upload_files", QWEN)
    assert not app.exception and not app.error
    found = [button for button in app.button if str(button.key).startswith("finding_")]
    gains = [float(button.label.strip("*").removesuffix(" ms")) for button in found]
    assert gains == sorted(gains, reverse=True) and gains[0] > 1.0, "in ms, the largest first"
    found[0].click().run()
    assert not app.exception
    start_s, end_s = app.session_state["timeline_span"]
    assert 0.0 < end_s - start_s < 0.01, "of a report of 59 ms"


@pytest.mark.slow
def test_a_search_in_the_timeline_says_how_many_kernels_it_found():
    app = opened("upload")
    app.pills("upload_samples").set_value([next(iter(uploads.REPORT_SAMPLES))]).run()
    app.text_input("timeline_search").set_value("gemm").run()
    assert not app.exception
    names = profilers.read_report(QWEN).kernels["name"].astype(object)
    found = int(names.str.contains("gemm", case=False).sum())
    assert any(caption.value.startswith(f"{found} found among") for caption in app.caption)
    app.text_input("timeline_search").set_value("no such kernel").run()
    assert any("No kernel or copy name contains" in caption.value for caption in app.caption)


@pytest.mark.slow
def test_a_span_is_looked_at_moved_and_left_again():
    app = opened("upload")
    app.pills("upload_samples").set_value([next(iter(uploads.REPORT_SAMPLES))]).run()
    app.session_state["timeline_span"] = (0.010, 0.012)
    app.run()
    assert cards(app)["Span"] == "2.00 ms"
    app.button("timeline_chevron_right").click().run()
    assert app.session_state["timeline_span"] == pytest.approx((0.011, 0.013))
    app.button("timeline_zoom_out").click().run()
    assert cards(app)["Span"] == "6.00 ms"
    app.button("timeline_fit_width").click().run()
    assert cards(app)["Launches"] == "1,465"
