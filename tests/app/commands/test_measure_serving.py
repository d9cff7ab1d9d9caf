"""ridgeline measure serving: result files of a server's loops, and what cannot be measured."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
from typer.testing import Result

from genz_core.errors import RidgelineError
from tests.profilers.collect.serving.sse_server import serving

SMALL = ("--requests", 6, "--isl", 64, "--osl", 4)


def refusal(result: Result) -> str:
    """The sentence of the error that ended a command."""
    assert isinstance(result.exception, RidgelineError)
    return str(result.exception)


def test_every_loop_gives_a_row_and_a_file_that_simulate_reads(
    answer, ridgeline, tmp_path, own_data
):
    with serving(first_s=0.02, gap_s=0.01) as server:
        rows = answer(
            "measure", "serving", server.address, "--concurrency", "1,3", *SMALL,
            "--output", tmp_path / "out",
        )  # fmt: skip
    assert [(row["concurrency"], row["requests"]) for row in rows] == [(1, 6), (3, 6)]
    assert all(row["ttft_mean_s"] >= 0.02 and row["tpot_mean_s"] >= 0.01 for row in rows)
    document = json.loads((tmp_path / "out" / "concurrency-3.json").read_text())
    assert document["max_concurrency"] == 3 and document["completed"] == 6
    assert document["mean_tpot_ms"] == pytest.approx(rows[1]["tpot_mean_s"] * 1e3)
    measured = rows[1]["file"]
    told = ridgeline(
        "simulate", "meta-llama/Llama-3.1-8B", "--system", "h100", "--measured", measured
    )
    assert told.exit_code == 0, told.output
    assert "give the measured TPOT" in told.output and "output_tokens_per_s" in told.output


def test_a_server_that_counts_nothing_is_noted(printed, tmp_path):
    with serving(usage=False, unknown=("ignore_eos",)) as server:
        text = printed(
            "measure", "serving", server.address, "--concurrency", 1, *SMALL,
            "--output", tmp_path,
        )  # fmt: skip
    assert "the server does not count tokens" in text and "not support ignore_eos" in text
    assert "ridgeline simulate MODEL --measured" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("http://127.0.0.1:9", "--concurrency", "1"), "cannot be reached"),
        (("nowhere",), "is not the address of a server"),
        (("http://h", "--concurrency", "0"), "concurrency = 0"),
        (("http://h", "--concurrency", "1:40:1"), "give 32 at most"),
        (("http://h", "--concurrency", "many"), "concurrency = 'many'"),
        (("http://h", "--timeout", "0"), "timeout = 0 s"),
    ],
)
def test_what_cannot_be_measured_is_one_sentence(ridgeline, arguments, words):
    assert words in refusal(ridgeline("measure", "serving", *arguments))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--calibrate-at", 3), "3 is not one of the measured loads: 1, 2, 4, 8"),
        (("--rounds", 0), "rounds = 0"),
        (("--concurrency", "1,1000"), "do not fit the server's cache of 4,096 tokens"),
    ],
)
def test_an_own_server_is_refused_before_minutes_of_work(ridgeline, arguments, words):
    assert words in refusal(ridgeline("measure", "own-server", *arguments))


@pytest.mark.slow
def test_ctrl_c_ends_a_loop_with_a_sentence_and_130(tmp_path):
    with serving(first_s=0.2) as server:
        child = subprocess.Popen(
            [sys.executable, "-m", "app.cli", "measure", "serving", server.address,
             "--concurrency", "1", "--requests", "1000", "--osl", "2", "--output", str(tmp_path)],
            stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            while len(server.bodies) < 4:
                assert child.poll() is None, child.stderr.read()
            child.send_signal(signal.SIGINT)
            _, said = child.communicate(timeout=30)
        finally:
            child.kill()
    assert child.returncode == 130 and "cancelled at" in said and "Traceback" not in said
