"""What `ridgeline serve` can be told about requests, as Python, REST and the planner."""

from __future__ import annotations

import json

import pytest
import ridgeline
from typer.testing import CliRunner

from app.cli import cli
from app.question.query import ask
from genz_core.errors import InvalidValue

LOAD = ("serve", "meta-llama/Llama-3.1-8B", "--concurrency", "16", "--isl", "2000", "--osl", "200")
ASKED = {
    "prefix_hits": (0.5, ("--prefix-hits", "0.5")),
    "turns": (4, ("--turns", "4")),
    "shared_tokens": (3000, ("--shared-prompt", "3000")),
    "samples": (4, ("--samples", "4")),
    "beams": (4, ("--beams", "4")),
    "lora_rank": (64, ("--lora-rank", "64")),
    "max_num_seqs": (4, ("--max-num-seqs", "4")),
    "max_num_batched_tokens": (512, ("--max-num-batched-tokens", "512")),
}


@pytest.mark.parametrize("name", ASKED)
def test_an_option_is_the_keyword_of_its_name(name):
    value, typed = ASKED[name]
    printed = CliRunner().invoke(cli, [*LOAD, *typed, "--json"], catch_exceptions=False)
    row = json.loads(printed.stdout)[0]
    found = ridgeline.serve(
        "meta-llama/Llama-3.1-8B", concurrency=16, isl=2000, osl=200, **{name: value}
    )
    plain = ridgeline.serve("meta-llama/Llama-3.1-8B", concurrency=16, isl=2000, osl=200)
    assert row["ttft_s"] == found.ttft_s and row["tpot_s"] == found.tpot_s
    assert (found.ttft_s, found.tpot_s) != (plain.ttft_s, plain.tpot_s)


def test_found_prefixes_save_reading_and_what_nobody_measured_has_no_interval():
    load = {"concurrency": 16, "isl": 4000, "osl": 100}
    plain = ridgeline.serve("meta-llama/Llama-3.1-8B", **load)
    found = ridgeline.serve("meta-llama/Llama-3.1-8B", prefix_hits=0.9, **load)
    assert found.ttft_s < plain.ttft_s / 2
    assert "ttft_s" in found.rows[0]["not_validated"]
    said = "not validated: no measured run had 90% of each prompt in the cache under load"
    assert said in found.rows[0]["message"]


def test_the_host_holds_what_a_device_cannot():
    load = {"system": "l4", "concurrency": 4, "isl": 500, "osl": 50, "on_error": "status"}
    assert ridgeline.serve("Qwen/Qwen3-32B", **load).status == "out_of_memory"
    moved = ridgeline.serve("Qwen/Qwen3-32B", offload="weights", **load)
    assert moved.status == "ok" and moved.tpot_s > 1.0  # over PCIe, 40 GB a step


def test_what_a_trace_cannot_have_is_refused():
    asked = {"model": "gpt2", "trace": "requests.csv"}
    with pytest.raises(InvalidValue, match="a trace has lengths and sessions of its own"):
        ask("simulate", {**asked, "turns": 3})
    with pytest.raises(InvalidValue, match="offload is not modelled by simulate"):
        ask("simulate", {**asked, "offload": "kv"})
    assert ask("simulate", {**asked, "max_num_seqs": 8}).question.max_num_seqs == 8
