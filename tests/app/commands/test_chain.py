"""The four commands read each other's JSON and end at the figures of `ridgeline estimate`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import cli
from genz_core.errors import InvalidValue, RidgelineError
from model_registry.modules.polynomial import Polynomial
from model_registry.reports import step_documents, symbolic

ROOT = Path(__file__).resolve().parents[3]
#: A dense model, one with windows, 4-bit experts, latent attention, recurrent layers.
MODELS = ("Qwen/Qwen3-8B", "google/gemma-3-12b-pt", "openai/gpt-oss-20b",
          "deepseek-ai/DeepSeek-V2-Lite", "Qwen/Qwen3-Next-80B-A3B-Instruct")  # fmt: skip


def run(*words: str, given: object = None):
    text = None if given is None else json.dumps(given)
    answer = CliRunner().invoke(cli, list(words), input=text)
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


def chained(model: str, *step: str, price: tuple[str, ...] = ()):
    arch = run("arch", model, "--json")
    modules = run("modules", "populate", "-", given=arch)
    ops = run("ops", "-", *step, "--json", given=modules)
    return arch, modules, ops, run("estimate", "-", *price, "--json", given=ops)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("model", MODELS)
def test_a_decode_step_through_the_pipe_is_that_of_estimate(model: str):
    step = ("--batch-size", "4", "--cached-tokens", "9000")
    price = ("--system", "h200", "--engine", "vllm")
    *_, piped = chained(model, *step, price=price)
    mixed = run("estimate", model, *price, "--decode", "4x9000", "--json")
    assert piped["step_s"] == pytest.approx(mixed["step_s"], rel=1e-9)
    assert piped["bound_step_s"] == pytest.approx(mixed["bound_step_s"], rel=1e-9)
    whole = run("estimate", model, *price, "--batch", "4", "--isl", "9000", "--osl", "2", "--json")
    assert piped["step_s"] == pytest.approx(whole["tpot_s"], rel=1e-9)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("model", MODELS[:3])
def test_a_prompt_through_the_pipe_is_the_first_token_of_estimate(model: str):
    *_, piped = chained(model, "--batch-size", "2", "--input-tokens", "3000")
    whole = run("estimate", model, "--batch", "2", "--isl", "3000", "--osl", "1", "--json")
    assert piped["step_s"] == pytest.approx(whole["ttft_s"], rel=1e-9)
    assert piped["bound_step_s"] == pytest.approx(whole["bound_ttft_s"], rel=1e-9)


def test_several_devices_and_formats_go_through_the_pipe():
    formats = ("--weights", "fp8", "--kv", "fp8", "--activations", "fp8")
    step = ("--tp", "4", "--batch-size", "16", "--cached-tokens", "2048", *formats)
    *_, ops, piped = chained("Qwen/Qwen3-32B", *step)
    named = run("estimate", "Qwen/Qwen3-32B", "--tp", "4", *formats, "--decode", "16x2048",
                "--json")  # fmt: skip
    assert piped["step_s"] == pytest.approx(named["step_s"], rel=1e-9)
    assert ops["formats"] == {"weights": "fp8", "kv": "fp8", "activations": "fp8"}
    assert any(op["compute"] == "fp8" for op in ops["operators"] if op["kind"] == "gemm")


@pytest.mark.slow
def test_processes_chain_by_pipes():
    """ridgeline arch | ridgeline modules | ridgeline ops | ridgeline estimate."""
    words = ("arch qwen3-8b --json", "modules populate -", "ops - --cached-tokens 1024 --json",
             "estimate - --system h100 --json")  # fmt: skip
    running: list[subprocess.Popen[bytes]] = []
    for command in words:
        running.append(
            subprocess.Popen(
                [sys.executable, "-m", "app.cli", *command.split()],
                stdin=running[-1].stdout if running else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                cwd=ROOT,
            )
        )
    piped = json.loads(running[-1].communicate()[0])
    assert [process.wait() for process in running] == [0] * 4
    mixed = run("estimate", "qwen3-8b", "--system", "h100", "--decode", "1x1024", "--json")
    assert piped["step_s"] == pytest.approx(mixed["step_s"])


def test_what_is_changed_between_two_steps_changes_the_number():
    arch, modules, ops, before = chained("Qwen/Qwen3-8B", "--cached-tokens", "1024")
    wider = {**arch, "config": {**arch["config"], "num_hidden_layers": 72}}
    layers = run("ops", "-", "--json", given=run("modules", "populate", "-", given=wider))
    assert layers["layer_count"] == 72
    row = next(op for op in modules["operators"] if op["name"] == "qkv_proj")
    row["formulas"]["weight_bytes"] = "1e9".replace("e9", "000000000")
    heavier = run("ops", "-", "--cached-tokens", "1024", "--json", given=modules)
    after = run("estimate", "-", "--json", given=heavier)
    assert after["bound_step_s"] > before["bound_step_s"]
    assert ops["schema"] == step_documents.SCHEMAS["ops"]


@pytest.mark.parametrize(
    ("words", "given", "sentence"),
    [
        (("ops", "-"), "{}", "modules populate"),
        (("ops", "-"), "no json", "is not valid JSON"),
        (("ops", "-"), "", "modules populate"),
        (("modules", "populate", "-"), '{"schema": "ridgeline/ops/1"}', "ridgeline arch MODEL"),
        (("estimate", "-"), '{"schema": "ridgeline/arch/1", "config": {}}', "ridgeline ops -"),
        (("estimate", "-"), '{"schema": "ridgeline/ops/1"}', "has no config"),
        (("ops", "-"), '{"schema": "ridgeline/modules/1", "config": {}, "formats": 3}', "formats"),
    ],
)
def test_what_no_step_wrote_is_refused_in_a_sentence(words, given: str, sentence: str):
    answer = CliRunner().invoke(cli, [*words], input=given)
    assert answer.exit_code != 0
    said = answer.output + str(answer.exception or "")
    assert sentence in said and "Traceback" not in said


@pytest.mark.by_day(8)
@pytest.mark.parametrize("key", ["flops", "layers", "dims", "forced", "group"])
@pytest.mark.parametrize("value", [None, "x", -1, [], {"a": "b"}, float("nan")])
def test_damaged_operators_are_read_or_refused(key: str, value: object):
    ops = run("ops", "Qwen/Qwen3-0.6B", "--cached-tokens", "64", "--json")
    ops["operators"][3][key] = value
    try:
        step_documents.stated_model(ops)
    except RidgelineError as error:
        assert len(str(error)) < 400


@pytest.mark.parametrize("model", MODELS[:3])
def test_formulas_read_back_what_they_wrote(model: str):
    for op in symbolic.populated(model)["operators"]:
        for text in op["formulas"].values():
            if text is not None:
                assert symbolic.parsed(text).text() == text


@pytest.mark.parametrize("text", ["", "{batch", "{batch}**x", "__import__('os')", "2**2**2",
                                  "{other}", "1/0", "2*{batch}**99"])  # fmt: skip
def test_what_is_no_formula_is_refused(text: str):
    with pytest.raises(InvalidValue):
        Polynomial.parse(("batch",), text)


def test_every_key_of_the_documents_is_described():
    page = (ROOT / "docs" / "json-steps.md").read_text(encoding="utf-8")
    for written in chained("Qwen/Qwen3-8B", "--cached-tokens", "64"):
        for key in written:
            assert f"`{key}`" in page, key
        if written["schema"] in (step_documents.SCHEMAS["modules"], step_documents.SCHEMAS["ops"]):
            assert all(f"`{key}`" in page for key in written["operators"][0])
