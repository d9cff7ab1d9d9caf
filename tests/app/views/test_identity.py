"""The facts about what ran, and its sum checks, on page Upload."""

import json

import pytest

from tests.app.benchmarks.conftest import RUN, halved_gaps
from tests.app.pages import QWEN, brought, opened
from tests.profilers.serving_results.test_server_log import LOGS


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path / "data"))


def labels(app):
    return [box.label for box in app.expander]


def test_a_report_says_what_ran_and_a_candidate_goes_into_the_sidebar():
    app = brought(opened("upload"), "upload_files", QWEN)
    assert not app.exception
    assert any(label.startswith("What ran: ") and "unknown" in label for label in labels(app))
    assert "Consistency checks: 9 pass, 0 fail, 3 cannot be made" in labels(app)
    app.button("report_identity_tp_4").click().run()
    assert app.session_state["tp"] == "4"


def test_a_benchmark_is_priced_with_the_candidate_that_is_clicked(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps({**RUN, "gpu": "H100"}))
    app = brought(opened("upload"), "upload_files", path)
    assert not app.exception
    app.button("benchmark_identity_system_h100-nvl-94gb").click().run()
    assert not app.exception and app.session_state["benchmark_given"] == {"system": "h100-nvl-94gb"}
    assert any(label.startswith("Consistency checks: ") for label in labels(app))


def test_a_sum_that_fails_is_said_before_the_findings(tmp_path):
    path = tmp_path / "halved.json"
    path.write_text(json.dumps({**halved_gaps(RUN), "gpu": "h100-sxm5-80gb"}))
    app = brought(opened("upload"), "upload_files", path)
    assert any("OSL - 1" in text.value for text in app.markdown)
    assert any(
        label.startswith("Consistency checks: ") and "0 fail" not in label for label in labels(app)
    )


def test_the_log_of_a_server_beside_its_result_says_the_limits(tmp_path):
    path, log = tmp_path / "run.json", tmp_path / "server.log"
    path.write_text(json.dumps({**RUN, "gpu": "h100-sxm5-80gb"}))
    log.write_text(LOGS["vllm"])
    app = brought(opened("upload"), "upload_files", path, log)
    assert not app.exception and not app.error
    assert any("A log of vllm" in text.value for text in app.caption)
    told = " ".join(text.value for text in app.markdown)
    assert "seqs **64**" in told and "the server's log" in told
