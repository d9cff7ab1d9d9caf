"""Sweeps over any axes: every combination once, priced as if alone, resumed where they stopped."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import ridgeline
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from app.cli import cli
from app.planning import sweep_block, sweep_file
from app.planning.sweep_axes import KNOWN, sweep_axes
from app.scenario import points_file, points_row
from app.simulation.executor import Where
from genz_core.errors import InvalidValue

MODEL, LLAMA = "Qwen/Qwen3-32B", "meta-llama/Llama-3.1-8B"
STATIC = {"model": MODEL, "system": ["h100", "h200"], "engine": "vllm", "tp": [1, 2, 3],
          "batch": [1, 64], "isl": {"from": 500, "to": 1000, "step": 500}, "osl": 64}  # fmt: skip
SERVED = {"model": MODEL, "system": "h100", "engine": "vllm", "tp": [2, 4], "isl": 700, "osl": 90,
          "length_ratio": 0.8}  # fmt: skip


def text_of(row):
    return {
        name: str(int(value))
        if name in sweep_block.WHOLE
        else f"{value:.15g}"
        if isinstance(value, float)
        else str(value)
        for name, value in row.items()
        if not (isinstance(value, float) and np.isnan(value)) and value not in ("", False)
    }


@pytest.mark.parametrize(
    "asked",
    [
        STATIC,
        {**SERVED, "concurrency": [1, 16]},
        {**SERVED, "rate": [0.5, 3.0], "pp": [1, 2]},
        {"model": "Qwen/Qwen3-30B-A3B", "system": "h200", "engine": "vllm", "tp": 2, "dp": [1, 2],
         "ep": [1, 2], "concurrency": 32},
    ],
)  # fmt: skip
def test_every_row_is_that_of_a_points_file(asked):
    table = sweep_file.table(sweep_axes(asked))
    names = [name for name in points_row.KNOWN if name in table]
    count = len(table["status"])
    rows = [text_of({name: table[name][at] for name in names}) for at in range(count)]
    if "concurrency" not in asked and "rate" not in asked:
        priced = points_file.price(rows)
        for at, row in enumerate(priced):
            assert row["status"] == table["status"][at]
            for name in ("ttft_s", "tpot_s", "output_tokens_per_s", "ttft_low_s"):
                expected = float(row[name] or "nan")
                assert table[name][at] == pytest.approx(expected, rel=1e-6, nan_ok=True)
        return
    for at, row in enumerate(rows):
        load = {name: float(row.pop(name)) for name in ("concurrency", "rate") if name in row}
        keywords = {
            name: float(row[name]) if name == "length_ratio" else int(row[name])
            for name in ("tp", "pp", "dp", "ep", "isl", "osl", "length_ratio")
            if name in row
        }
        alone = ridgeline.serve(row["model"], system=row["system"], engine=row["engine"],
                                on_error="status", **keywords, **load)  # fmt: skip
        assert table["status"][at] == alone.status
        for name in ("ttft_s", "tpot_s", "ttft_low_s", "tpot_high_s", "output_tokens_per_s"):
            expected = getattr(alone, name)
            assert table[name][at] == pytest.approx(expected, rel=1e-9, nan_ok=True)


def test_every_combination_is_there_once_and_bad_ones_keep_their_reason():
    table = pd.DataFrame(sweep_file.table(sweep_axes(STATIC)))
    asked = set(table[["system", "tp", "batch", "isl"]].itertuples(index=False, name=None))
    assert asked == set(itertools.product(["h100", "h200"], [1, 2, 3], [1, 64], [500, 1000]))
    assert len(table) == len(asked)
    bad = table[table["tp"] == 3]
    assert set(bad["status"]) == {"invalid_parallelism"}
    assert bad["message"].str.contains("tp 3").all() and bad["tpot_s"].isna().all()
    assert not bad["fits"].any()


def test_what_one_system_cannot_run_does_not_stop_the_others():
    asked = {"model": MODEL, "system": ["a100-sxm4-80gb", "b200"], "weights": "nvfp4",
             "compute": "fp4", "batch": [1, 2]}  # fmt: skip
    table = sweep_file.table(sweep_axes(asked))
    assert len(table["status"]) == 4
    assert (table["status"][2:] == "ok").all()


@pytest.mark.parametrize(
    "asked",
    [
        {**STATIC, "pp": [1, 2]},
        {"model": LLAMA, "batch": [1, 4000]},
        {"model": LLAMA, "isl": [1024, 200_000], "batch": [1, 200]},
        {"model": "meta-llama/Llama-3.1-70B", "batch": [1, 2], "tp": [1, 2, 3]},
        {"model": "meta-llama/Llama-3.1-70B", "offload": ["", "weights"]},
        {"model": LLAMA, "speculation": "ngram", "acceptance": "0.7", "batch": [1, 8]},
        {"model": LLAMA, "memory_fraction": [0.2, 0.9], "batch": [1, 64], "length_ratio": 0.8},
        {"model": LLAMA, "concurrency": [1, 64], "shared_tokens": 512},
        {"model": LLAMA, "rate": [1, 1000]},
        {"model": "bert-base-uncased", "isl": [128, 1024]},
        {"model": "GSAI-ML/LLaDA-8B-Instruct", "batch": [1, 8]},
    ],
)
def test_bounds_alone_are_those_of_the_whole_with_the_reasons_of_what_cannot_run(asked):
    axes = sweep_axes({"system": "h100", "engine": "vllm", **asked})
    least, whole = (sweep_file.table(axes, bounds_only=alone) for alone in (True, False))
    for name in ("bound_prefill_s", "bound_decode_step_s"):
        assert least[name] == pytest.approx(whole[name], rel=1e-12, nan_ok=True)
    assert least["status"].tolist() == whole["status"].tolist()
    cannot = whole["status"] != "ok"
    assert all(map(str.__contains__, whole["message"][cannot], least["message"][cannot]))
    assert all(least["message"][cannot]) and "ttft_s" not in least


def test_bounds_alone_mark_what_does_not_fit_and_what_is_too_long():
    axes = sweep_axes({"model": LLAMA, "system": "h100", "isl": [1024, 200_000], "batch": [1, 99]})
    least = sweep_file.table(axes, bounds_only=True)
    assert set(least["status"]) == {"ok", "context_too_long"}
    axes = sweep_axes({"model": LLAMA, "system": "h100", "batch": [1, 4000]})
    assert sweep_file.table(axes, bounds_only=True)["status"].tolist() == ["ok", "out_of_memory"]


def test_rows_name_the_engine_that_is_priced_and_nothing_that_was_not_asked():
    for typed, name, version in (
        ("vLLM", "vllm", ""),
        ("", "vllm", ""),
        ("vllm 0.11.0", "vllm", "0.11.0"),
    ):
        table = sweep_file.table(sweep_axes({"model": LLAMA, "system": "h100", "engine": typed}))
        assert (table["engine"][0], table["engine_version"][0]) == (name, version)
        assert "memory_fraction" not in sweep_file.stated(table)
    asked = {"model": LLAMA, "system": "h100", "memory_fraction": [0.8, 0.9]}
    assert sweep_file.table(sweep_axes(asked))["memory_fraction"].tolist() == ["0.8", "0.9"]


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_written_table_is_the_priced_one(tmp_path, ending):
    axes = sweep_axes(STATIC)
    path = tmp_path / f"out.{ending}"
    swept = sweep_file.sweep(axes, path)
    frame = pd.read_parquet(path) if ending == "parquet" else pd.read_csv(path)
    whole = sweep_file.table(axes)
    assert list(frame.columns) == list(sweep_block.COLUMNS) and len(frame) == swept.rows == 24
    assert swept.good == int((whole["status"] == "ok").sum())
    got = frame["tpot_s"].to_numpy(float)
    assert got == pytest.approx(whole["tpot_s"], rel=1e-8, nan_ok=True)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_sweep_that_was_stopped_goes_on_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep_file, "ROWS_A_PART", 4)
    axes, path = sweep_axes(STATIC), tmp_path / "out.parquet"
    seen = []
    assert sweep_file.sweep(axes, path, cancelled=lambda: len(seen) >= 2 or seen.append(1)) is None
    assert not path.exists()
    swept = sweep_file.sweep(axes, path)
    assert swept.kept == 8 and len(pd.read_parquet(path)) == 24
    again = sweep_file.sweep(axes, path)
    assert again.kept == 0


def test_a_list_of_points_states_what_differs_from_the_rest():
    asked = {"model": MODEL, "system": "h100", "osl": 64,
             "points": [{"batch": [1, 2]}, {"concurrency": 8, "tp": 2},
                        {"rate": 1.5, "tp": 4}]}  # fmt: skip
    table = sweep_file.table(sweep_axes(asked))
    assert table["osl"].tolist() == [64] * 4
    assert np.nan_to_num(table["batch"]).tolist() == [1, 2, 0, 0]
    assert np.nan_to_num(table["rate"]).tolist() == [0, 0, 0, 1.5]
    assert (table["status"] == "ok").all()


@given(st.integers(1, 50), st.integers(0, 400), st.integers(1, 60))
def test_a_range_has_its_start_its_steps_and_nothing_beyond_its_end(start, more, step):
    span = {"from": start, "to": start + more, "step": step}
    block = sweep_axes({"model": "m", "system": "s", "batch": span}).blocks[0]
    assert list(block.axes["batch"]) == list(range(start, start + more + 1, step))


def test_a_doubling_range():
    block = sweep_axes({"model": "m", "system": "s",
                        "batch": {"from": 1, "to": 100, "step": "x2"}}).blocks[0]  # fmt: skip
    assert block.axes["batch"] == (1, 2, 4, 8, 16, 32, 64)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"tpp": 1}, "did you mean tp"),
        ({"tp": 0}, "whole number"),
        ({"tp": "many"}, "whole number"),
        ({"tp": []}, "one value or a list"),
        ({"batch": 1, "rate": 2}, "give one of batch, concurrency or rate"),
        ({"isl": {"from": 1, "to": 5, "step": 0}}, "not a range"),
        ({"isl": {"from": 1, "until": 5}}, "is not a range"),
        ({"isl": {"from": 1, "to": 10**7, "step": 1}}, "is not a range"),
        ({"length_ratio": 2}, "length_ratio"),
        ({"sequence_parallel": "maybe"}, "sequence_parallel"),
        ({"points": 5}, "list of rows"),
        ({"model": ""}, "needs a model"),
        ({"tp": list(range(1, 5000)), "isl": list(range(1, 9000)), "batch": [1, 2]}, "rows; sweep"),
    ],
)
def test_what_is_no_sweep_is_refused(wrong, said):
    with pytest.raises(InvalidValue, match=said):
        sweep_axes({"model": MODEL, "system": "h100", **wrong})


@pytest.mark.parametrize(
    "name", sorted(set(KNOWN) - {"points", "price"} - set(sweep_block.COLUMNS))
)
def test_what_is_no_column_of_the_table_takes_one_value(name):
    with pytest.raises(InvalidValue, match=name):
        sweep_axes({"model": MODEL, "concurrency": 8, name: [1, 2]})


def test_the_command_and_python_sweep_a_file_alike(tmp_path):
    file = tmp_path / "sweep.yaml"
    file.write_text(f"model: {MODEL}\nsystem: [h100, h200]\nengine: vllm\ntp: [1, 2]\nrate: 1\n")
    ran = CliRunner().invoke(cli, ["sweep", str(file), "--output", str(tmp_path / "o.parquet")])
    assert ran.exit_code == 0, ran.output
    assert "4 rows, 4 can run" in ran.stdout
    table = ridgeline.sweep(file)
    written = pd.read_parquet(tmp_path / "o.parquet")
    assert written["tpot_s"].tolist() == pytest.approx(table.columns["tpot_s"].tolist())
    same = ridgeline.sweep(MODEL, system=["h100", "h200"], engine="vllm", tp=[1, 2], rate=1)
    assert same.columns["ttft_s"].tolist() == pytest.approx(table.columns["ttft_s"].tolist())
    assert 0 < len(table.frontier()) <= 4
    wrong = CliRunner().invoke(cli, ["sweep", str(file), "--output", str(tmp_path / "o.txt")])
    assert wrong.exit_code != 0 and isinstance(wrong.exception, InvalidValue)


def swept(tmp_path, monkeypatch, name, **where):
    monkeypatch.setattr(sweep_file, "ROWS_A_PART", 4)
    target = tmp_path / name
    done = sweep_file.sweep(sweep_axes(STATIC), target, where=Where(**where))
    return done, pd.read_parquet(target)


def test_two_workers_of_a_cluster_price_as_this_machine_does(tmp_path, monkeypatch):
    import distributed

    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address
        done, there = swept(tmp_path, monkeypatch, "there.parquet", cluster=address)
    assert done.rows == 24 == len(there) and done.kept == 0
    pd.testing.assert_frame_equal(there, swept(tmp_path, monkeypatch, "here.parquet")[1])


@pytest.mark.slow
def test_a_sweep_that_was_left_goes_on_in_two_processes_that_price_as_one_does(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(sweep_file, "ROWS_A_PART", 4)
    target, calls = tmp_path / "there.parquet", itertools.count()
    axes = sweep_axes(STATIC)
    assert sweep_file.sweep(axes, target, cancelled=lambda: next(calls) > 2) is None
    done = sweep_file.sweep(axes, target, where=Where(workers=2))
    assert 0 < done.kept <= 12 < done.rows == 24
    there = pd.read_parquet(target)
    pd.testing.assert_frame_equal(there, swept(tmp_path, monkeypatch, "here.parquet")[1])


def test_a_cluster_needs_a_file_of_axes_and_of_answers(tmp_path):
    file = tmp_path / "sweep.yaml"
    file.write_text(f"model: {MODEL}\nsystem: h100\nrate: 1\n")
    for wrong in (["sweep", MODEL, "--cluster", "tcp://a:1"], ["sweep", str(file), "--workers=2"]):
        ran = CliRunner().invoke(cli, wrong)
        assert isinstance(ran.exception, InvalidValue)
