"""ridgeline measure endpoint: a measurement is stored as a run and read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.measuring import endpoint_run
from app.measuring.run_store import store
from genz_core.errors import MeasurementError
from profilers.collect.serving import own_server
from profilers.collect.serving.own_server import ServerSettings
from profilers.serving_results import read_results
from tests.profilers.collect.serving.sse_server import serving

SMALL = ("--requests", 6, "--isl", 64, "--osl", 4, "--client", "own")


def test_a_measured_endpoint_is_kept_like_any_run(answer, printed, own_data, tmp_path: Path):
    copy = tmp_path / "copy.json"
    with serving(first_s=0.02, gap_s=0.01) as server:
        told = answer(
            "measure", "endpoint", server.address, "--concurrency", 2, *SMALL,
            "--label", "evening", "--tag", "nightly", "--output", copy,
        )  # fmt: skip
    assert told["concurrency"] == 2 and told["requests"] == 6 and told["client"] == "own"
    [run] = answer("runs", "list")
    assert run["id"] == told["id"] and run["label"] == "evening" and run["tags"] == ["nightly"]
    assert run["ttft_s"] == pytest.approx(told["ttft_p50_s"])
    folder = store().path(told["id"])
    [kept] = endpoint_run.results_of(folder, store().load(told["id"]))
    assert kept.tpot_s == read_results(copy)[0].tpot_s
    assert "client: own" in printed("runs", "show", told["id"])


def test_nothing_is_kept_where_that_is_asked(answer, own_data):
    with serving() as server:
        told = answer("measure", "endpoint", server.address, "--rate", 30, *SMALL, "--no-keep")
    assert told["id"] is None and told["rate"] == 30
    assert answer("runs", "list") == []


def test_a_server_elsewhere_is_not_loaded(ridgeline, own_data):
    refused = ridgeline("measure", "endpoint", "http://192.0.2.1:8000", *SMALL).exception
    assert isinstance(refused, MeasurementError) and "--allow-remote" in str(refused)
    refused = ridgeline("measure", "metrics", "http://192.0.2.1:8000").exception
    assert isinstance(refused, MeasurementError) and "--allow-remote" in str(refused)


@pytest.mark.slow
def test_a_real_server_of_this_machine_is_measured_and_imported(answer, own_data, tmp_path: Path):
    for name in ("fastapi", "uvicorn", "openai", "accelerate"):
        pytest.importorskip(name)
    model, result = tmp_path / "model", tmp_path / "result.json"
    own_server.write_model(model, {**own_server.CONFIG, "num_hidden_layers": 2})
    with own_server.running(model, ServerSettings(), tmp_path / "log") as running:
        told = answer(
            "measure", "endpoint", running.server.address, "--model", running.server.model,
            "--concurrency", 2, "--output", result, *SMALL,
        )  # fmt: skip
    [row] = answer("import", result)
    assert row["ttft_p50_s"] == told["ttft_p50_s"] and row["osl"] == 4
    assert answer("runs", "list")[0]["id"] == told["id"]
