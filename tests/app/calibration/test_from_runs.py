"""Calibrating with runs of one's own: from a CSV to what later predictions say."""

import json

import pytest
from typer.testing import CliRunner

import hardware_db
from app.calibration import from_runs
from app.cli import cli
from app.scenario import points_file
from app.scenario.scenario import Scenario, basis, resolve
from genz_core.errors import InvalidValue

SCENARIO = Scenario(model="Qwen/Qwen3-8B", system="h100", engine="vllm", isl=1024, osl=1024)
FACTS = {"model": SCENARIO.model, "system": "h100", "engine": "vllm", "isl": "1024", "osl": "1024"}
LOADS = ("4", "32", "128")


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path / "data"))


def runs(tpot=1.25, ttft=1.5, loads=LOADS):
    """Rows that measured these multiples of the prediction."""
    rows = [{**FACTS, "id": f"at {load}", "concurrency": load} for load in loads]
    return [
        {
            **row,
            "measured_tpot_s": str(float(found["tpot_s"]) * tpot),
            "measured_ttft_s": str(float(found["ttft_s"]) * ttft),
        }
        for row, found in zip(rows, points_file.price(rows), strict=True)
    ]


def written(rows, path):
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [",".join(names), *(",".join(row.get(name, "") for name in names) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_three_runs_bring_other_loads_of_the_recipe_nearer():
    unseen = runs(loads=("16", "64"))
    (found,) = from_runs.calibrate(runs())
    assert found.fit.after.mape < 0.5 * found.fit.before.mape
    from_runs.keep(found)
    for row, again in zip(unseen, points_file.price(unseen), strict=True):
        for name in ("tpot_s", "ttft_s"):
            measured = float(row[f"measured_{name}"])
            before = measured / (1.25 if name == "tpot_s" else 1.5)
            assert abs(float(again[name]) - measured) < 0.5 * abs(before - measured)


def test_what_was_kept_is_said_and_other_models_are_left_alone():
    other = Scenario(model="Qwen/Qwen3-14B", system="h100", engine="vllm")
    before = resolve(other).engine
    from_runs.keep(from_runs.calibrate(runs())[0])
    assert basis(resolve(SCENARIO)) == "calibrated with your own runs (3 under load)"
    assert resolve(other).engine == before


def test_calibrating_again_starts_from_what_ships():
    first = from_runs.calibrate(runs())[0]
    rows = runs()
    from_runs.keep(first)
    again = from_runs.calibrate(rows)[0]
    assert again.fit.factors == pytest.approx(first.fit.factors, rel=1e-6)


def test_static_batches_count_too():
    row = {**FACTS, "batch": "8", "id": "one batch"}
    (priced,) = points_file.price([row])
    row["measured_decode_step_s"] = str(1.3 * float(priced["decode_step_s"]))
    (found,) = from_runs.calibrate([row])
    (shown,) = from_runs.figure_rows(found)
    assert shown["error_before"] == pytest.approx(1 / 1.3 - 1, abs=1e-6)
    assert abs(shown["error_after"]) < abs(shown["error_before"])


def test_each_recipe_of_a_file_is_calibrated_apart():
    fp8 = [{**row, "weights": "fp8"} for row in runs()]
    assert {found.key.weights for found in from_runs.calibrate([*runs(), *fp8])} == {"bf16", "fp8"}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"measured_tpot_s": "", "measured_ttft_s": ""}, "at 4 measures nothing"),
        ({"measured_tpot_s": "fast"}, "'fast'"),
        ({"measured_tpot_s": "-1"}, "'-1'"),
        ({"measured_tpot_s": "nan"}, "'nan'"),
        ({"measured_tpot_s": "1e-9"}, "the least this device needs"),
        ({"measured_prefill_s": "1.0"}, "with a concurrency"),
        ({"concurrency": ""}, "batch or concurrency"),
        ({"model": "Qwen/Qwen3-9B"}, "Qwen3-8B"),
        ({"tp": "3"}, "tp"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(change, named):
    with pytest.raises(Exception, match=named) as error:
        from_runs.calibrate([{**runs(loads=("4",))[0], **change}])
    assert hasattr(error.value, "code")


def test_a_file_without_rows_is_refused(tmp_path):
    file = tmp_path / "empty.csv"
    file.write_text("model,system\n")
    with pytest.raises(InvalidValue, match="no runs"):
        from_runs.calibrate_file(file)


# ------------------------------------------------------------------------------- the command


def command(*words):
    return CliRunner().invoke(cli, ["calibrate", "runs", *map(str, words)])


def test_the_command_prints_keeps_and_forgets(tmp_path):
    file = written(runs(), tmp_path / "runs.csv")
    done = command(file)
    assert done.exit_code == 0, done.output
    assert "memory_efficiency" in done.output and "kept in" in done.output
    assert hardware_db.load_recipe(from_runs.calibrate(runs())[0].key).own
    assert "forgotten" in command(file, "--forget").output
    assert "nothing was kept" in command(file, "--forget").output


def test_the_command_keeps_every_recipe_of_a_file(tmp_path):
    rows = [*runs(), *({**row, "weights": "fp8"} for row in runs())]
    done = command(written(rows, tmp_path / "runs.csv"))
    assert done.exit_code == 0, done.output
    assert all(hardware_db.load_recipe(found.key).own for found in from_runs.calibrate(rows))


def test_the_command_as_json_without_keeping(tmp_path):
    done = command(written(runs(), tmp_path / "runs.csv"), "--json", "--no-save")
    (found,) = json.loads(done.stdout)
    assert len(found["runs"]) == 6 and found["file"] == ""
    assert found["recipe"] == "vllm on h100-sxm5-80gb, bf16 weights"
    assert not (tmp_path / "data").exists()
