"""ridgeline simulate: the same answer as Python, the same bytes for a seed, no partial files."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import ridgeline

from app.answers.table import to_json
from tests.app.benchmarks.test_benchmark_result import VLLM

LLAMA = "meta-llama/Llama-3.1-8B"
SMALL = ("simulate", LLAMA, "--system", "h100", "--isl", 256, "--osl", 32, "--length-ratio", 0.8)
TRACE = "arrival_s,input_tokens,output_tokens\n" + "".join(f"{i / 4},200,20\n" for i in range(40))


def test_the_command_and_python_give_one_answer(answer):
    given = answer(*SMALL, "--rate", 5, "--requests", 200, "--seed", 3, "--ttft-target", 0.05)
    module = ridgeline.simulate(
        LLAMA, system="h100", isl=256, osl=32, length_ratio=0.8, rate=5, requests=200, seed=3,
        ttft_target_s=0.05,
    )  # fmt: skip
    assert given == json.loads(to_json(module.to_dict()))


def test_drafts_and_a_prefill_pool_are_one_answer_with_python(answer):
    given = answer(
        *SMALL, "--concurrency", 8, "--speculation", "eagle", "--draft-tokens", 2, "--acceptance",
        "0.9,0.6", "--prefill-system", "b200", "--prefill-workers", 2, "--transfer-latency-us", 9,
        "--layer-wise",
    )  # fmt: skip
    module = ridgeline.simulate(
        LLAMA, system="h100", isl=256, osl=32, length_ratio=0.8, concurrency=8,
        speculation="eagle", acceptance=(0.9, 0.6), prefill_system="b200", prefill_workers=2,
        transfer_latency_us=9, layer_wise=True,
    )  # fmt: skip
    assert given == json.loads(to_json(module.to_dict()))
    assert given["speculation"]["acceptance"] == [0.9, 0.6]
    assert given["prefill"]["transfer_latency_s"] == 9e-6


def test_the_same_seed_prints_the_same_bytes(printed):
    first, again, other = (
        printed(*SMALL, "--concurrency", 8, "--seed", seed, "--json") for seed in (3, 3, 4)
    )
    assert first == again != other


def test_a_table_of_latencies_and_figures_is_printed(printed):
    text = printed(*SMALL, "--concurrency", 8)
    for words in ("latency", "p99_s", "TTFT", "TPOT", "ITL", "E2E", "preemptions", "note: "):
        assert words in text
    rows = printed(*SMALL, "--concurrency", 8, "--format", "csv").splitlines()
    assert rows[0] == "latency,mean_s,p50_s,p90_s,p95_s,p99_s" and len(rows) == 6


@pytest.mark.parametrize("command", ["simulate", "serve"])
def test_a_trace_is_simulated_by_either_command(answer, tmp_path, command):
    trace = tmp_path / "trace.csv"
    trace.write_text(TRACE)
    named = answer(command, LLAMA, "--system", "h100", "--trace", trace)
    assert named["load"] == {"trace": "trace.csv", "requests": 40} and named["ended"] == 40


def test_a_trace_that_cannot_be_served_at_all_fails(ridgeline, tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,input_tokens,output_tokens\n0,900000,5\n")
    result = ridgeline("simulate", LLAMA, "--system", "h100", "--trace", trace)
    assert result.exit_code == 1
    assert "no request can be served: 1 of 1 requests do not fit" in result.stderr


@pytest.mark.parametrize(("name", "read"), [("r.csv", pd.read_csv), ("r.parquet", pd.read_parquet)])
def test_requests_are_written_a_row_each(ridgeline, tmp_path, name, read):
    result = ridgeline(*SMALL, "--concurrency", 4, "--requests-file", tmp_path / name)
    assert result.exit_code == 0 and f"40 requests -> {tmp_path / name}" in result.stderr
    table = read(tmp_path / name)
    assert len(table) == 40 and {"arrival_s", "ttft_s", "e2e_s", "rank"} <= set(table)
    assert list(tmp_path.iterdir()) == [tmp_path / name]


def test_options_reach_the_engine(answer):
    options = ("--max-sequences", 2, "--token-budget", 512, "--router", "prefix", "--replicas", 2)
    named = answer(*SMALL, "--concurrency", 16, *options)
    assert named["devices"] == 2 and named["router"] == "prefix"
    assert named["ttft_mean_s"] > 2 * answer(*SMALL, "--concurrency", 16)["ttft_mean_s"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "no load is given"),
        (("--concurrency", 4, "--rate", 2), "not concurrency and rate"),
        (("--concurrency", 4, "--router", "nearest"), "choose least_loaded, round_robin"),
        (("--concurrency", 4, "--requests-file", "r.xlsx"), "ends in .csv or .parquet"),
        (("--concurrency", 4, "--requests-file", "nowhere/r.csv"), "nowhere is not a folder"),
        (("--concurrency", 4, "--measured-tpot", 99), "no scale of the step"),
        (
            ("--concurrency", 4, "--measured-tpot", 0.01, "--prefill-workers", 1),
            "without speculation and without a prefill pool",
        ),
        (("--concurrency", 4, "--speculation", "mtp"), "no multi-token-prediction layers"),
        (("--concurrency", 4, "--prefill-tp", 2), "prefill_tp without a prefill pool"),
        (("--concurrency", 4, "--measured", "absent.json"), "absent.json: no such file"),
    ],
)
def test_invalid_simulations_are_refused_in_one_sentence(ridgeline, arguments, words):
    result = ridgeline("simulate", LLAMA, "--isl", 64, "--osl", 8, *arguments)
    assert result.exit_code != 0 and words in str(result.exception)


def test_serve_takes_one_load(ridgeline):
    result = ridgeline("serve", LLAMA, "--trace", "t.csv", "--rate", 2)
    assert "give one of concurrency, rate or trace" in str(result.exception)


# ------------------------------------------------------------------------------- calibration


def test_a_measured_tpot_is_met_kept_and_forgotten(own_data, printed, answer):
    load = ("--concurrency", 8)
    before = answer(*SMALL, *load)["step_scale"]
    fitted = answer(*SMALL, *load, "--measured-tpot", 0.02)
    assert fitted["tpot_mean_s"] == pytest.approx(0.02, rel=1e-3)
    later = answer(*SMALL, "--rate", 2, "--requests", 50)
    assert later["step_scale"] == pytest.approx(fitted["step_scale"])
    assert "your measured TPOT of 20 ms" in later["message"]
    assert printed(*SMALL, "--forget").strip() == "forgotten"
    assert answer(*SMALL, *load)["step_scale"] == before


def test_a_fit_that_is_not_kept_leaves_no_file(own_data, printed):
    text = printed(*SMALL, "--concurrency", 8, "--measured-tpot", 0.02, "--no-save")
    assert "(not kept)" in text and not own_data.exists()


def test_a_result_file_names_load_and_figures(own_data, answer, printed, tmp_path):
    file = tmp_path / "result.json"
    smaller = {
        "max_concurrency": 8,
        "num_prompts": 80,
        "completed": 80,
        "duration": 13.0,
        "mean_e2el_ms": 1290.0,
    }
    totals = {"total_input_tokens": 8000, "total_output_tokens": 4000}
    file.write_text(json.dumps({**VLLM, **smaller, **totals}))
    named = answer("simulate", LLAMA, "--measured", file)
    assert named["load"]["concurrency"] == 8 and named["load"]["isl"] == 100
    assert named["tpot_mean_s"] == pytest.approx(0.0213, rel=1e-3)
    assert named["measured"]["ttft_p99_s"] == pytest.approx(0.9)
    text = printed("simulate", LLAMA, "--measured", file, "--no-save")
    assert "measured" in text and "ttft_p99_s" in text


# ------------------------------------------------------------------------------- fleets


def test_a_file_of_simulations_names_columns_that_it_does_not_know(ridgeline, tmp_path):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text(f"model,system,concurency,concurrency,isl,osl\n{LLAMA},h100,,4,64,8\n")
    arguments = ("simulate", "--points", source, "--output", target, "--workers", 1)
    result = ridgeline(*arguments)
    assert result.exit_code == 0
    assert "column 'concurency' is unknown and was ignored: did you mean" in result.stderr
    assert "1 rows simulated, 1 ok" in result.stdout
    assert "1 of them from before" in ridgeline(*arguments).stdout


# ------------------------------------------------------------------------------- Ctrl-C


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_is_one_sentence_and_leaves_no_file(tmp_path: Path):
    table = tmp_path / "requests.csv"
    command = [sys.executable, "-c", "from app.cli import main; main()", *map(str, SMALL)]
    command += ["--rate", "1e3", "--requests", "500000", "--requests-file", str(table)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline().strip() == "simulating"
    time.sleep(2.0)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "cancelled at" in err and "nothing was complete" in err and "Traceback" not in err
    assert out == "" and list(tmp_path.iterdir()) == []
