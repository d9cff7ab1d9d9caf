"""Launch lines: every option is known to its program, by the table and by its parser."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from app.cli import cli
from app.decide.report import KINDS
from app.planning.launch import checkpoint_id, engine_flags
from app.planning.launch_options import filled
from genz_core.errors import InvalidValue
from model_registry.finding.catalog import shipped_model
from tests.app.planning.asking import asked, plan
from tests.app.planning.engine_parsers import of_sglang, of_vllm
from tests.app.planning.launch_faults import faults, known_options, program_of

DENSE, EXPERTS, MTP = "Qwen/Qwen3-32B", "Qwen/Qwen3-235B-A22B", "deepseek-ai/DeepSeek-V3"
ENGINES = ("vllm", "sglang", "trtllm")
ASKED: Mapping[str, dict[str, Any]] = {
    "degrees": dict(model=DENSE, devices=8, tp=4, pp=2, rate=4),
    "replicas": dict(model=DENSE, devices=8, tp=2, pp=1, rate=10, kind="aggregated", rank="tpot"),
    "experts": dict(model=EXPERTS, devices=8, tp=1, dp=8, ep=8, rate=4),
    "formats": dict(model=DENSE, devices=2, tp=2, rate=1, weights="fp8", kv="fp8"),
    "nodes": dict(model=DENSE, devices=16, tp=8, pp=2, rate=1),
    "pools": dict(model=DENSE, devices=8, rate=4, kind="disaggregated", tp=2, pp=1),
    "tiers": dict(model=DENSE, devices=4, tp=4, rate=0.5, isl=4000, turns=4, think_s=30.0,
                  kind="aggregated", host_cache_gib=100.0, disk_cache_gib=1000.0),
    "lengths": dict(model=DENSE, devices=2, tp=2, concurrency=8, length_ratio=0.5),
    "ngram": dict(model=DENSE, devices=4, tp=4, concurrency=2, speculation="ngram",
                  kind="aggregated", draft_tokens=3, acceptance="0.9", rank="tpot"),
    "draft": dict(model=DENSE, devices=4, tp=4, concurrency=2, speculation="draft_model",
                  draft_model="Qwen/Qwen3-0.6B", kind="aggregated", draft_tokens=3,
                  acceptance="0.9", rank="tpot"),
    "eagle": dict(model=DENSE, devices=4, tp=4, concurrency=2, speculation="eagle",
                  kind="aggregated", draft_tokens=3, acceptance="0.9", rank="tpot"),
    "cut": dict(model=DENSE, devices=2, tp=2, rate=1, chunked_prefill="yes"),
    "whole": dict(model=DENSE, devices=2, tp=2, rate=1, chunked_prefill="no"),
    "long": dict(model=DENSE, devices=2, tp=2, rate=1, isl=8800, osl=256, length_ratio=0.9),
    "mtp": dict(model=MTP, systems="h200", devices=8, tp=8, concurrency=2, speculation="mtp",
                kind="aggregated", draft_tokens=1, acceptance="0.9", rank="tpot"),
}  # fmt: skip
CASES = [(engine, case) for engine in ENGINES for case in ASKED]


@cache
def best(engine: str, case: str) -> dict[str, Any]:
    given = {"systems": "h100", "simulate": False, **ASKED[case], "engine": engine, "top": 1}
    found = plan(given.pop("model"), **given).best
    if found is None:
        pytest.skip("nothing runs so")
    return found


def lines(engine: str, case: str) -> list[str]:
    found = best(engine, case)
    return [*found["launch"].splitlines(), found["benchmark"]]


@cache
def parser(program: str) -> Any:
    made: Mapping[str, Callable[[], Any]] = {
        "vllm serve": lambda: of_vllm("serve"),
        "vllm bench serve": lambda: of_vllm("bench"),
        "python3 -m sglang.launch_server": lambda: of_sglang("server"),
        "python3 -m sglang_router.launch_router": lambda: of_sglang("router"),
    }
    if program not in made:
        return None
    try:
        return made[program]()
    except ImportError:
        return None


@pytest.mark.by_day(9)
@pytest.mark.parametrize(("engine", "case"), CASES)
def test_a_launch_line_says_what_its_program_knows(engine, case):
    for line in lines(engine, case):
        assert faults(line) == [], line


@pytest.mark.by_day(12)
@pytest.mark.parametrize(("engine", "case"), CASES)
def test_the_engines_own_parser_reads_a_launch_line(engine, case):
    read = 0
    for line in lines(engine, case):
        own = parser(program_of(line))
        if own is not None:
            own.parse_args(shlex.split(line.removeprefix(program_of(line))))
            read += 1
    if not read:
        pytest.skip("no engine's package is installed")


@pytest.mark.parametrize("engine", ENGINES)
def test_every_option_of_an_engine_stands_in_the_table(engine):
    flags = engine_flags()[engine]
    known = known_options()[flags["command"].format(model="").strip().removesuffix(
        " --model-path")]  # fmt: skip
    words = [word for option in flags["options"].values() for word in option.split()]
    assert {word for word in words if word.startswith("--")} <= set(known)
    assert all(option.version in str(flags["version"]) for option in known.values())
    assert all(option.source.startswith("https://") for option in known.values())


@pytest.mark.parametrize(
    "line",
    [
        "vllm serve M --tensor-parallel 2",
        "vllm serve M --tensor-parallel-size two",
        "vllm serve M --speculative-config {method:ngram}",
        "python3 -m sglang.launch_server --model-path M --disaggregation-mode both",
        "trtllm-serve M --port",
        "abacus M",
    ],
)
def test_a_line_with_a_fault_is_told_apart(line):
    assert len(faults(line)) == 1


def test_drafts_are_counted_as_each_engine_counts_them():
    """vLLM counts the drafted tokens, SGLang the verified ones, which are one more."""
    line = lines("vllm", "ngram")[0]
    config = shlex.split(line)[shlex.split(line).index("--speculative-config") + 1]
    assert json.loads(config)["num_speculative_tokens"] == 3
    assert "--speculative-num-draft-tokens 4" in lines("sglang", "ngram")[0]
    settings = yaml.safe_load(best("trtllm", "ngram")["launch_files"]["serve.yaml"])
    assert settings["speculative_config"]["max_draft_len"] == 3


def test_a_cache_on_the_host_is_stated_as_each_engine_counts_it():
    """vLLM takes GiB of all ranks of an engine, SGLang whole GB of each rank."""
    assert "--kv-offloading-size 100 " in lines("vllm", "tiers")[0]
    assert "--hicache-size 26 " in lines("sglang", "tiers")[0]  # 100 GiB are 107.4 GB for four


def test_a_cache_on_disk_lies_behind_the_one_on_the_host():
    line = shlex.split(lines("vllm", "tiers")[0])
    config = json.loads(line[line.index("--kv-transfer-config") + 1])
    assert config["kv_connector_extra_config"]["secondary_tiers"][0]["type"] == "fs"
    assert "--hicache-storage-backend file" in lines("sglang", "tiers")[0]
    for engine in ("vllm", "sglang"):
        assert any("1000 GiB" in note for note in best(engine, "tiers")["launch_notes"])
    alone = {**ASKED["tiers"], "host_cache_gib": 0.0, "systems": "h100", "simulate": False}
    model = alone.pop("model")
    found = plan(model, **alone, engine="sglang", top=1).best
    assert "--hicache-host-memory-mode buffer_only" in found["launch"]
    found = plan(model, **alone, engine="vllm", top=1).best
    assert "--kv" not in found["launch"]
    assert any("state host_cache_gib" in note for note in found["launch_notes"])


def test_trtllm_is_started_with_room_for_prompts_that_it_would_refuse():
    found = best("trtllm", "long")
    assert "--max_num_tokens 9216" in found["launch"]
    refused = "trtllm refuses prompts above max_num_batched_tokens (8,192)"
    assert any(refused in note for note in found["launch_notes"])
    assert "--max_num_tokens 8192" in best("trtllm", "degrees")["launch"]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_draft_model_is_named(engine):
    found = best(engine, "draft")
    assert "Qwen/Qwen3-0.6B" in found["launch"] + str(found["launch_files"])


@pytest.mark.parametrize(
    ("typed", "loaded"),
    [
        ("llama-3.1-8b", "meta-llama/Llama-3.1-8B"),
        ("llama3.1:8b", "meta-llama/Llama-3.1-8B"),
        ("deepseek-v3.1", "deepseek-ai/DeepSeek-V3.1"),
        ("qwen/qwen3-32b", "Qwen/Qwen3-32B"),
        ("https://huggingface.co/Qwen/Qwen3-32B", "Qwen/Qwen3-32B"),
        ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
    ],
)
def test_a_model_is_loaded_by_its_id_on_the_hub(typed, loaded):
    assert checkpoint_id(asked(typed, rate=1.0)) == loaded


def test_every_command_of_a_plan_names_the_models_id():
    planned = plan("llama-3.1-8b", systems="h100", engine="vllm", concurrency=4, devices=1,
                   kind="aggregated", simulate=False)  # fmt: skip
    for name in ("launch", "benchmark", "guard"):
        words = shlex.split(planned.best[name])
        assert "meta-llama/Llama-3.1-8B" in words and "llama-3.1-8b" not in words
    files = planned.deployment("kubernetes").files.values()
    assert not any("llama-3.1-8b" in text.split() for text in files)


def test_a_model_of_the_users_own_is_loaded_from_where_it_is(tmp_path):
    folder = tmp_path / "llama-3.1-8b"
    folder.mkdir()
    config = {"_id": "mine", **shipped_model("Qwen/Qwen3-32B").config()}
    (folder / "config.json").write_text(json.dumps(config))
    assert checkpoint_id(asked(str(folder), rate=1.0)) == str(folder)


def test_pools_of_tensorrt_llm_name_every_server_once():
    found = best("trtllm", "pools")
    front = yaml.safe_load(found["launch_files"]["disagg.yaml"])
    urls = front["context_servers"]["urls"] + front["generation_servers"]["urls"]
    servers = found["launch"].splitlines()[:-1]
    assert [f"localhost:{line.split()[-1]}" for line in servers] == urls
    assert front["port"] == 8000 and "localhost:8000" in found["benchmark"]


def test_settings_are_filled_in_at_any_depth():
    assert filled({"a": {"b": "{value}", "c": "x"}}, {"value": 3}) == {"a": {"b": 3, "c": "x"}}


@pytest.mark.by_day(2)
@pytest.mark.parametrize("end", KINDS)
def test_a_plan_is_taken_along_as_a_file(end, tmp_path):
    path = tmp_path / f"plan{end}"
    ran = CliRunner().invoke(cli, [
        "plan", DENSE, "--systems", "h100", "--devices", "1:4", "--engine", "vllm", "--rate", "2",
        "--target", "tpot < 60ms", "--top", "2", "--report", str(path),
    ])  # fmt: skip
    assert ran.exit_code == 0, ran.output
    text = path.read_text(encoding="utf-8")
    assert "vllm serve" in text and "vllm bench serve" in text
    if end in (".html", ".md"):
        assert all(word in text for word in ("TTFT [80 %]", "Margins", "Start it", "Check it"))
        assert ("<svg" if end == ".html" else "mermaid") in text


def test_a_report_of_another_kind_is_refused_before_anything_is_priced(tmp_path):
    ran = CliRunner().invoke(cli, ["plan", DENSE, "--rate", "2", "--report",
                                   str(tmp_path / "plan.pdf")])  # fmt: skip
    assert isinstance(ran.exception, InvalidValue) and "plan.pdf" in str(ran.exception)
