"""A server is measured, and its result imported, compared, used for calibration and guarded."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from profilers.collect.serving import own_server
from profilers.collect.serving.own_server import ServerSettings
from tests.app.benchmarks.conftest import slower
from tests.profilers.collect.serving.sse_server import serving

LOAD = ("--isl", 64, "--osl", 8, "--client", "own", "--no-keep")
HERE = ("--system", "epyc-9654", "--engine", "hf", "--tp", 1, "--weights", "bf16")


def error(document) -> float:
    """Mean absolute logarithm of measured over predicted TTFT and TPOT."""
    rows = [row for run in document["runs"] for row in run["figures"]]
    ratios = [row["ratio"] for row in rows if row["figure"] in ("ttft_mean_s", "tpot_mean_s")]
    assert len(ratios) == 2 * len(document["runs"])
    return sum(abs(math.log(one)) for one in ratios) / len(ratios)


def measured(answer, address: str, folder: Path, users=(1, 2, 4), model: str = "") -> list[Path]:
    """A result file per closed loop."""
    files = []
    for number in users:
        files.append(folder / f"users-{number}.json")
        answer(
            "measure", "endpoint", address, "--concurrency", number, "--requests", 6 * number,
            "--output", files[-1], *LOAD, *(("--model", model) if model else ()),
        )  # fmt: skip
    return files


def the_whole_way(answer, ridgeline, files: list[Path], model: str) -> None:
    """Import, compare, replay, calibrate, compare again, guard, delete."""
    who = ("--model", model, *HERE)
    rows = answer("import", *files)
    assert [row["concurrency"] for row in rows] == [1, 2, 4]
    before = answer("compare", *files, *who, "--simulate", "--replay")
    assert [one["requests"] for one in before["replays"]] == [6, 12, 24]
    assert all(one["arrivals"] == "of the file" for one in before["replays"])
    answer("calibrate", "runs", *files, *who)
    after = answer("compare", *files, *who)
    assert error(after) < max(error(before), 0.1)
    assert ridgeline("guard", files[1], "--baseline", *files[1:2]).exit_code == 0
    late = files[1].with_name("late.json")
    record = json.loads(files[1].read_text(encoding="utf-8"))
    late.write_text(json.dumps(slower(record, 1.2)), encoding="utf-8")
    refused = ridgeline("guard", late, "--baseline", files[1], "--tolerance", 5)
    assert refused.exit_code == 1 and "worse: late.json" in refused.stdout
    assert "forgotten" in ridgeline("calibrate", "runs", *files, *who, "--forget").stdout
    assert answer("compare", *files, *who)["runs"][0]["figures"] == before_without(before)


def before_without(document) -> list[dict]:
    """The first run's figures without the simulation, as they were printed before it existed."""
    return [{**row, "simulated": None} for row in document["runs"][0]["figures"]]


@pytest.mark.slow
def test_a_served_load_goes_the_whole_way(answer, ridgeline, own_data, tmp_path: Path):
    with serving(first_s=0.03, gap_s=0.01) as server:
        files = measured(answer, server.address, tmp_path)
    the_whole_way(answer, ridgeline, files, "Qwen/Qwen3-0.6B")


@pytest.mark.slow
def test_a_real_server_of_this_machine_goes_the_whole_way(
    answer, ridgeline, own_data, tmp_path: Path
):
    for name in ("torch", "transformers", "fastapi", "uvicorn", "openai", "accelerate"):
        pytest.importorskip(name)
    model = tmp_path / "model"
    own_server.write_model(model, {**own_server.CONFIG, "num_hidden_layers": 4})
    with own_server.running(model, ServerSettings(), tmp_path / "log") as running:
        address, name = running.server.address, running.server.model
        files = measured(answer, address, tmp_path, model=name)
    the_whole_way(answer, ridgeline, files, str(model / "config.json"))
