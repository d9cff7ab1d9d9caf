"""The command line as scripts and people use it."""

from __future__ import annotations

import csv
import gc
import io
import json
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from app.cli import cli, main
from app.commands.library.servers import collect_garbage

runner = CliRunner()


def run(*arguments: str) -> str:
    result = runner.invoke(cli, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def fail(monkeypatch, capsys, *arguments: str) -> str:
    """Run through `main`, as the console command does; returns the sentence of the error."""
    monkeypatch.setattr(sys, "argv", ["ridgeline", *arguments])
    with pytest.raises(SystemExit) as exit_:
        main()
    assert exit_.value.code == 2
    return capsys.readouterr().err


def test_systems_as_json_hold_what_a_script_needs():
    systems = json.loads(run("systems", "--json"))
    assert len(systems) >= 90
    h100 = next(entry for entry in systems if entry["slug"] == "h100-sxm5-80gb")
    assert {"name", "vendor", "memory_bytes", "memory_bytes_per_s"} <= set(h100)
    assert h100["peak_flops_per_s"]["bf16"] == pytest.approx(989.4e12, rel=1e-3)


def test_one_system_shows_the_source_of_every_figure():
    figures = json.loads(run("systems", "h200", "--json"))["figures"]
    assert len(figures) > 10
    assert all(figure["source"] for figure in figures)
    assert {figure["kind"] for figure in figures} <= {"datasheet", "derived", "measured", "assumed"}
    lines = [line.split() for line in run("systems", "h200").splitlines()]
    assert ["memory_gb_per_s", "4800", "GB/s", "datasheet"] in [line[:4] for line in lines]


def test_a_system_says_which_clock_its_bounds_take_and_whose_constants_price_its_kernels():
    assert "Peaks are rated" in run("systems", "b200")
    assert "Bounds use 1.119 times the rated peaks" in run("systems", "rtx-4090")
    assert "inherited from tpu-v7" in run("systems", "tpu-v6e")
    assert "One of the four GPUs of a card" in run("systems", "a16")
    [chip] = json.loads(run("systems", "--find", "tpu-v6e", "--json"))
    assert chip["boost_factor"] == 1.0 and "inherited from" in chip["latency_constants"]


def test_systems_are_filtered_by_vendor_and_kind():
    rows = json.loads(run("systems", "--json"))
    amd = json.loads(run("systems", "--vendor", "amd", "--kind", "gpu", "--json"))
    assert amd == [r for r in rows if "amd" in r["vendor"].casefold() and "gpu" in r["kind"]]
    assert {"mi300x"} <= {row["slug"] for row in amd} and len(amd) < len(rows) / 2


def test_models_as_json_hold_name_type_and_parameters():
    models = json.loads(run("models", "--json"))
    assert len(models) >= 120
    llama = next(entry for entry in models if entry["name"] == "meta-llama/Llama-3.1-8B")
    assert llama["model_type"] == "llama" and llama["parameters"] == 8_030_261_248
    assert llama["active_parameters"] <= llama["parameters"] and llama["source"]


def test_an_estimate_as_json_holds_bound_and_prediction():
    named = ("estimate", "meta-llama/Llama-3.1-8B", "--system", "h100", "--engine", "generic")
    facts = json.loads(run(*named, "--json"))
    assert facts["bound_tpot_s"] == pytest.approx(4.5e-3, rel=0.02)
    assert facts["tpot_s"] > facts["bound_tpot_s"]
    decode = facts["operators"]["decode"]
    total = sum(row["predicted_s"] for row in decode)
    assert total == pytest.approx(facts["tpot_s"], rel=0.2) and total < facts["tpot_s"]


def test_the_model_may_be_given_as_an_option_too():
    plain = run("serve", "gpt2", "--concurrency", "2", "--isl", "100", "--json")
    assert run("serve", "--concurrency", "2", "--isl", "100", "--model", "gpt2", "--json") == plain
    assert run("serve", "--model=gpt2", "--concurrency", "2", "--isl", "100", "--json") == plain


def test_an_estimate_prints_tables_in_every_form():
    arguments = ("estimate", "gpt2", "--isl", "512", "--system", "a100", "--format")
    assert "| figure | value |" in run(*arguments, "markdown")
    rows = list(csv.DictReader(io.StringIO(run(*arguments, "csv"))))
    assert {row["phase"] for row in rows} == {"prefill", "decode"}


def test_degrees_can_be_given_in_one_string():
    facts = json.loads(
        run("estimate", "mistralai/Mixtral-8x7B-v0.1", "--parallel", "TP{4}_EP{2}_PP{1}", "--json")
    )
    assert facts["devices"] == 4


def test_the_rows_of_an_estimate_are_written(tmp_path):
    run("estimate", "gpt2", "--batch", "1,2", "--output", str(tmp_path / "x.csv"))
    rows = csv.DictReader((tmp_path / "x.csv").open())
    assert [row["batch"] for row in rows] == ["1", "2"]


def test_a_points_file_is_priced(tmp_path):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("id,model,system,batch,isl,osl\na,gpt2,a100,1,10,5\nb,gpt3000,a100,1,10,5\n")
    text = run("estimate", "--points", str(source), "--output", str(target))
    assert "2 rows priced, 1 ok" in text
    rows = list(csv.DictReader(target.open()))
    assert [row["status"] for row in rows] == ["ok", "unknown_model"]


def test_a_sweep_prices_every_combination_and_its_frontier_is_a_part():
    arguments = (
        "sweep",
        "meta-llama/Llama-3.1-8B",
        "--batch",
        "1:64:x2",
        "--tp",
        "1,2,4",
        "--json",
    )
    rows, best = (json.loads(run(*arguments, *extra)) for extra in ((), ("--frontier",)))
    assert len(rows) == 21 and 0 < len(best) < 21
    per_device = "output_tokens_per_s_per_device"
    for row in rows:
        beaten = [
            b for b in best if b["tpot_s"] <= row["tpot_s"] and b[per_device] >= row[per_device]
        ]
        assert beaten and (row in best) == (beaten == [row])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("estimate", "no-such-model"), "unknown model"),
        (("estimate", "gpt2", "--system", "h1000"), "unknown system"),
        (("estimate", "gpt2", "--tp", "5"), "tp 5"),
        (("estimate", "gpt2", "--isl", "0"), "isl = 0"),
        (("estimate", "gpt2", "--batch", "-4"), "batch = -4"),
        (("estimate", "gpt2", "--weights", "fp7"), "unknown precision"),
        (("estimate",), "name a model"),
        (("estimate", "--points", "absent.csv"), "absent.csv: no such file"),
        (("sweep", "gpt2", "--batch", "8:1:x2"), "batch '8:1:x2': give"),
        (("sweep", "gpt2", "--batch", "nan"), "batch = nan: give"),
        (("sweep", "gpt2", "--isl", "8:inf:x2"), "isl '8:inf:x2': give"),
        (("validate", "weather"), "cannot validate"),
    ],
)
def test_an_invalid_command_prints_one_sentence_and_exits_with_two(
    monkeypatch, capsys, arguments, sentence
):
    error = fail(monkeypatch, capsys, *arguments)
    assert sentence in error
    assert error.count("\n") == 1 and "Traceback" not in error


def test_help_loads_nothing_heavy():
    script = (
        "import sys; from app.cli import cli;"
        "print(*{'pandas', 'scipy', 'streamlit', 'torch', 'plotly', 'pydantic'} & set(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == ""


def test_a_plan_loads_no_package_that_it_does_not_need():
    script = (
        "import sys, ridgeline;"
        "ridgeline.plan('gpt2', systems='l4', devices='1:2', rate=1.0, isl=128);"
        "print(*{'pandas', 'scipy', 'pyarrow', 'profilers', 'torch'} & set(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == ""


def test_a_first_answer_searches_for_no_garbage():
    script = (
        "import gc, sys; from ridgeline import main; searched = [];"
        "gc.callbacks.append(lambda phase, _: searched.append(phase));"
        "sys.argv = 'ridgeline estimate llama-3.1-8b --system h100'.split()\n"
        "try: main()\nexcept SystemExit: print(len(searched))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "ttft_s" in result.stdout
    assert result.stdout.split()[-1] == "0"


def test_a_server_searches_for_garbage_before_it_has_made_much():
    before = gc.get_threshold()
    try:
        gc.set_threshold(500_000)
        collect_garbage()
        assert gc.get_threshold()[0] == 50_000
    finally:
        gc.set_threshold(*before)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_sweep_into_a_file_loads_no_pandas(ending, tmp_path):
    target = tmp_path / f"swept.{ending}"
    script = (
        "import sys; from app.cli import main;"
        f"sys.argv = 'ridgeline sweep gpt2 --system l4 --batch 1,2 --output {target}'.split();"
        "code = 0\ntry: main()\nexcept SystemExit as end: code = end.code\n"
        "print(code, *{'pandas', 'scipy', 'pyarrow.compute'} & set(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] in ("0", "None") and target.stat().st_size


def test_two_processes_write_the_table_that_one_writes(tmp_path):
    start = "from app.cli import main; main()"
    asked = (
        "sweep",
        "gpt2",
        "--system",
        "l4",
        "--batch",
        "1:250:1",
        "--isl",
        "1:250:1",
        "--bounds-only",
    )
    written = []
    for workers in ("1", "2"):
        target = tmp_path / f"{workers}.parquet"
        command = [sys.executable, "-c", start, *asked, "--output", target, "--workers", workers]
        ended = subprocess.run(command, capture_output=True, text=True, check=True)
        assert ended.stdout.startswith("62,500 rows")
        written.append(target.read_bytes())
    assert written[0] == written[1]


def test_a_table_of_several_loads_shows_what_they_differ_in():
    lines = run("serve", "gpt2", "--concurrency", "2", "--isl", "64,128").splitlines()
    names = lines[0].split()
    assert names[:3] == ["concurrency", "isl", "status"]
    assert [line.split()[1] for line in lines[1:3]] == ["64", "128"]


def test_rows_of_several_loads_name_what_they_differ_in():
    rows = json.loads(run("serve", "gpt2", "--concurrency", "2", "--isl", "64,128", "--json"))
    assert [row["isl"] for row in rows] == [64, 128]
    assert {row["concurrency"] for row in rows} == {2.0}


def test_two_values_that_look_like_one_number_are_noted_on_standard_error():
    ran = runner.invoke(cli, ["serve", "gpt2", "--concurrency", "2", "--isl", "1,100"])
    assert ran.stderr.startswith("ridgeline: note: isl = 1,100 is two values, 1 and 100; ")
    quiet = runner.invoke(cli, ["serve", "gpt2", "--concurrency", "2", "--isl", "1, 100"])
    assert not quiet.stderr and quiet.stdout == ran.stdout


def test_serving_more_users_takes_longer_a_token():
    arguments = ("serve", "meta-llama/Llama-3.1-8B", "--concurrency", "1:64:x4", "--json")
    rows = json.loads(run(*arguments))
    assert [row["concurrency"] for row in rows] == [1, 4, 16, 64]
    assert sorted(row["tpot_s"] for row in rows) == [row["tpot_s"] for row in rows]


def test_a_rate_beyond_what_is_sustained_is_said_to_be():
    rows = json.loads(
        run(
            "serve",
            "gpt2",
            "--system",
            "a100",
            "--rate",
            "1,1000000",
            "--isl",
            "100",
            "--osl",
            "50",
            "--json",
        )
    )
    assert [row["status"] for row in rows] == ["ok", "overloaded"]
    assert rows[1]["ttft_s"] is None and "sustains" in rows[1]["message"]


def test_a_load_needs_a_concurrency_or_a_rate(monkeypatch, capsys):
    assert "give one of" in fail(monkeypatch, capsys, "serve", "gpt2")


def test_static_tables_take_queries_of_their_own():
    arguments = ("ops", "meta-llama/Llama-3.1-8B", "--cached-tokens", "1048576,1024")
    text = run(*arguments, "--input-tokens", "1,1", "--batch-size", "2")
    assert "Minimum storage" in text and "32 / 32" in text
    table = json.loads(run(*arguments, "--input-tokens", "1,1", "--batch-size", "2", "--json"))
    attention = next(row for row in table["rows"] if row["node"] == "attention")
    assert attention["flops"] == 2 * (1048577 + 1025) * 32 * 256


@pytest.mark.slow
def test_modules_are_derived_of_a_class_or_of_a_model():
    pytest.importorskip("transformers", minversion="5.0")
    silu = json.loads(run("modules", "derive", "torch.nn.modules.activation.SiLU", "--json"))
    assert silu["formulas"]["flops"] == "4*{batch}*{new_tokens}*{features}"
    names = run("modules", "derive", "--model", "gpt2").split()
    assert "transformers.models.gpt2.modeling_gpt2.GPT2MLP" in names
    shown = run("modules", "show", "GPT2MLP", "--model", "gpt2")
    # c_fc and c_proj: two products of 768 x 3072, their biases, and the activation between.
    assert "child c_fc (transformers.pytorch_utils.Conv1D) x 1" in shown
    assert f"{2 * 768 * 3072 + 768 + 3072:,}" in shown


def test_a_structure_says_where_it_is_from():
    structure = json.loads(run("arch", "deepseek-ai/DeepSeek-V3", "--json"))
    assert structure["source"] == "builder" and structure["layer_count"] == 61
    assert structure["active_parameters"] < 0.06 * structure["parameters"]
    symbols = json.loads(run("arch", "gpt2", "--symbols", "--json"))
    gemm = next(op for op in symbols["operators"] if op["name"] == "qkv_proj")
    assert "{batch}*{new_tokens}" in gemm["formulas"]["flops"]
    values = json.loads(run("arch", "gpt2", "--at", "batch=2,new_tokens=1,context=10", "--json"))
    # two FLOPs per parameter and token without positions; little attention at this context
    linear = 2 * 2 * (124_439_808 - 1024 * 768)
    assert values["total"]["flops"] == pytest.approx(linear, rel=0.02)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("ops", "gpt2", "--cached-tokens", "a"), "whole number"),
        (("ops", "gpt2", "--tp", "5"), "tp 5"),
        (("arch", "gpt2", "--at", "batch"), "whole number"),
        (("modules", "show", "NoSuchModule"), "unknown module"),
        (("modules", "derive"), "name either a class"),
        (("modules", "derive", "SiLU", "--model", "gpt2"), "name either a class"),
        (("modules", "derive", "gpt2"), "or a model with --model"),
    ],
)
def test_bad_static_questions_are_one_sentence(monkeypatch, capsys, arguments, sentence):
    assert sentence in fail(monkeypatch, capsys, *arguments)


def test_the_time_of_a_step_is_the_sum_that_stands_above_its_operators():
    """Measured runs of this model shorten the prefill by 14 ms: without the sum, operators take
    longer than their step.
    """
    asked = "estimate llama-3.1-70b --system h100 --weights fp8 --tp 4 --isl 2048"
    printed = run(*asked.split())
    (said,) = [line for line in printed.splitlines() if line.startswith("prefill: ")]
    terms, whole = said.removeprefix("prefill: ").split(" = ")
    found = re.findall(r"([+-]?) ?([0-9.,]+) (us|µs|ms|s) (?:of|by)", terms)
    scale = {"µs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1.0}
    summed = sum((-1 if sign == "-" else 1) * float(n) * scale[unit] for sign, n, unit in found)
    number, unit = whole.split()
    assert len(found) == 3
    assert summed == pytest.approx(float(number) * scale[unit], rel=0.01)
    (first,) = [line for line in printed.splitlines() if line.startswith("ttft_s ")]
    assert float(first.split()[1]) == pytest.approx(float(number) * scale[unit], rel=1e-3)
