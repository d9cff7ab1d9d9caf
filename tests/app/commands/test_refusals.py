"""In every command a wrong value gives one sentence with the possible values, and no traceback."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli import main
from tests.app.pages import DECODE

#: Labels of progress bars that were printed before the error.
PROGRESS = ("measuring", "calibrating", "simulating")
Refused = Callable[[str], str]
#: Invalid command lines, with words of the error of each.
WRONG = {
    "estimate gpt2 --batch 1e23": "batch = 1e23: give a whole number from 1",
    "estimate gpt2 --batch 100000000000000000000000": "batch = 1000000000000",
    "estimate gpt2 --batch 1 --batch 2": "--batch is typed 2 times",
    "estimate gpt2 --turns 3": "turns does not apply to a static batch",
    "estimate gpt2 --rank tpot": "rank does not apply to estimate: leave it out",
    "serve gpt2 --rate 1 --cp 2": "cp does not apply to serve: leave it out",
    "sensitivity gpt2 --rent 2": "price does not apply to sensitivity: leave it out",
    "economics gpt2 --host-cache-gib 9": "host_cache_gib is not modelled by economics",
    "estimate gpt2 --max-num-batched-tokens 64 --token-budget 32": "is typed 2 times (64, 32)",
    "estimate gpt2 --batch 0": "batch = 0: give a whole number from 1 to 100,000,000",
    "estimate gpt2 --isl -3": "isl = -3: give a whole number",
    "estimate gpt2 --osl 999999999999": "osl = 999999999999: give a whole number",
    "estimate gpt2 --tp 0": "tp = 0: give a whole number from 1 to 65,536",
    "estimate gpt2 --cp 70000": "cp = 70000: give a whole number",
    "estimate gpt2 --moe-tp -1": "moe_tp = -1: give a whole number",
    "estimate gpt2 --tp five": "tp = 'five': give a whole number",
    "estimate gpt2 --expert-imbalance nan": "expert_imbalance",
    "estimate gpt2 --expert-imbalance inf": "expert_imbalance",
    "estimate gpt2 --parallel TP{x}": "TP{x}",
    "estimate gpt2 --offload disk": "choose weights, kv, experts, levels",
    "estimate gpt2 --engine x --weights fp7": "unknown precision 'fp7'",
    "estimate gpt2 --system /nowhere/x.yaml": "/nowhere/x.yaml: no such file",
    "estimate /nowhere/config.json": "unknown model file '/nowhere/config.json'",
    "estimate hf:/tmp/x": "'hf:/tmp/x' is not a hub address; write hf:owner/name",
    "estimate hf:a/../b": "is not a hub address",
    "estimate gpt2 --format pdf": "'text', 'markdown', 'csv'",
    "estimate gpt2 --colour red": "No such option: --colour",
    "estimate --points HERE": ": Is a directory",
    "estimate --points POINTS --output HERE": "folder",
    "estimate --points BINARY": "is not a text file: a points file is a CSV",
    "estimate --points SEMICOLONS": "separates its columns with ';': write commas",
    "estimate gpt2 --points POINTS": "the model gpt2 has no effect with --points",
    "estimate --points POINTS --isl 8192": "--isl has no effect with --points, whose rows state",
    "estimate gpt2 --parallel TP{4} --tp 2": "--tp has no effect with --parallel",
    "estimate gpt2 --prefill 1x512 --isl 8": "--isl has no effect with a mixed step",
    "estimate gpt2 --decode 64x512 --output x.csv": "--output has no effect with a mixed step",
    "estimate": "name a model",
    "simulate gpt2 --points POINTS --output x.csv": "the model gpt2 has no effect with --points",
    "simulate --points HERE/none.csv --output HERE/x.csv": "none.csv: no such file",
    "simulate --points POINTS": "name the file for the results with --output",
    "simulate gpt2 --trace HERE/none.csv": "none.csv: no such file",
    "simulate gpt2 --rate 1 --output x.csv": "--output has no effect with a single simulation",
    "serve": "Missing argument 'model'; see `ridgeline serve --help`",
    "serve gpt2 --concurrency 0": "concurrency = 0: give a whole number from 1",
    "serve gpt2 --concurrency 1.5": "concurrency = 1.5: give a whole number",
    "serve gpt2 --concurrency 1:inf:x2": "concurrency '1:inf:x2': give",
    "serve gpt2 --concurrency 1:99999:1": "more than 10,000 values",
    "serve gpt2 --rate 0": "rate = 0: give a number above 0",
    "serve gpt2 --rate nan": "rate = nan: give a number",
    "serve gpt2 --rate 1e300": "rate = 1e300: give a number",
    "serve gpt2 --rate 1 --concurrency 1": "give one of",
    "serve gpt2 --rate 1 --trace t.csv": "give one of",
    "serve gpt2 --trace t.csv --burst-start": "burst_start applies only to a closed loop",
    "serve gpt2 --rate 1 --stream-interval 0": "stream_interval = 0: give a whole number from 1",
    "serve gpt2 --rate 1 --recv-interval -3": "recv_interval = -3: give a whole number from 1",
    "serve gpt2 --rate 1 --length-ratio 0": "length_ratio = 0: give a number above 0 to 1",
    "serve gpt2 --rate 1 --length-ratio nan": "length_ratio = nan: give a number above 0 to 1",
    "serve gpt2 --rate 1 --activations fp7": "unknown precision 'fp7'",
    "serve gpt2 --rate 1 --compute fp7": "unknown precision 'fp7'",
    "sweep gpt2 --batch 1:9999:1 --isl 1:9999:1": "rows; sweep at most 50,000,000",
    "sweep gpt2 --tp 99999999": "tp = 99999999: give a whole number",
    "sweep gpt2 --isl ''": "isl = '': give",
    "ops gpt2 --cached-tokens -1": "cached_tokens = -1: give a whole number from 0",
    "ops gpt2 --input-tokens 0": "input_tokens = 0: give a whole number from 1",
    "ops gpt2 --batch-size -2": "batch_size = -2: give a whole number",
    "ops gpt2 --tp 0": "tp = 0: give a whole number",
    "ops gpt2 --without scans": "scans",
    "arch gpt2 --at batch=1e99": "--at batch = 1e99: give a whole number",
    "arch gpt2 --at length=1": "give whole numbers for batch, new_tokens, context",
    "modules show ../../../etc/passwd": "unknown module",
    "modules derive no.such.Class": "no.such",
    "models gpt3000": "unknown model 'gpt3000'",
    "systems h1000": "unknown system 'h1000'",
    "systems --kind zzz": "there are cpu, gpu, igpu, npu, tpu",
    "systems --vendor zzz": "there are",
    "validate --worst -5": "--worst = -5: give a whole number from 0",
    "validate --worst 99999999": "--worst = 99999999: give a whole number",
    "validate serving --by colour": "no column 'colour'; there are",
    "import HERE/no-report": "no-report",
    "import POINTS --kernels -1": "--kernels = -1: give a whole number",
    "import POINTS --phase decode=(": "'(' is not a regular expression",
    "compare POINTS --model gpt2 --steps decode=0": "points.csv",
    "compare REPORT --system h100 --model gpt2 --steps decode=0": "--steps decode = 0: give",
    "runs start model=gpt2 repeats=100000000": "repeats = 100000000: give a whole number",
    "runs start model=gpt2 ranks.tp=65": "tp = 65: give a whole number from 0 to 64",
    "runs start model=gpt2 timeout_s=.nan": "timeout_s = nan: give seconds above 0",
    "runs start model=gpt2 colour=red": "no field 'colour'",
    "runs start model=gpt2 predict.system=/any.yaml": "unknown system '/any.yaml'",
    "runs start model=gpt2 attention=owner/kernel": "choose sdpa, eager",
    "runs start path=/nowhere": "/nowhere",
    "runs start --file HERE/none.yaml": "none.yaml: no such file",
    "runs show ../..": "unknown run '../..'",
    "runs delete zzz": "unknown run 'zzz'",
    "runs export zzz HERE/x.zip": "unknown run 'zzz'",
    "runs import HERE/none.zip": "none.zip",
    "measure gpt2 --device abacus": "there is no device 'abacus'",
    "measure gpt2 --device cpu:x": "write cuda or cuda:1",
    "measure gpt2 --batch 0": "batch = 0: give a whole number",
    "measure gpt2 --warmup -1": "warmup = -1: give a whole number",
    "measure gpt2 --threads -1": "threads = -1: give a whole number",
    "measure gpt2 --system h1000": "unknown system 'h1000'",
    "measure sweep gpt2 --rounds 0": "rounds = 0: give a whole number",
    "measure sweep gpt2 --batches 0": "batches = 0: give a whole number",
    "measure sweep gpt2 --phases zzz": "unknown phase 'zzz'",
    "measure ranks gpt2 --timeout-s nan": "timeout_s = nan",
    "measure infer HERE PROMPTS --temperature nan": "temperature = nan: give 0 to 100",
    "measure infer HERE PROMPTS --epochs 0": "--epochs = 0: give a whole number",
    "measure infer HERE HERE/none.txt": "none.txt",
    "collect nsys gpt2 --capture all": "give none, nvtx or cudaProfilerApi",
    "collect ncu gpt2 --launch-skip -1": "--launch-skip = -1: give a whole number",
    "collect top-kernels REPORT --topk -1": "--topk = -1: give a whole number",
    "collect microbench --budget-s nan": "--budget-s = nan: give seconds",
    "collect microbench --threads -1": "--threads = -1: give a whole number",
    "calibrate machine --rounds 0": "--rounds = 0: give a whole number",
    "calibrate machine --model gpt3000": "unknown model 'gpt3000'",
    "calibrate machine --device abacus": "there is no device 'abacus'",
    "calibrate report HERE/none.json": "none.json",
    "calibrate runs HERE/none.csv": "none.csv: no such file",
    "app --port 99999": "'--port': Input should be less than or equal to 65535",
    "zzz": "No such command 'zzz'",
}


@pytest.fixture
def refused(
    tmp_path: Path,
    own_data: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Refused:
    """The error of an invalid command line.

    HERE: a folder.  POINTS, PROMPTS, REPORT: a file of each kind.  SEMICOLONS, BINARY: no points
    files.
    """
    files = {
        name: tmp_path / f"{name.lower()}.csv"
        for name in ("POINTS", "REPORT", "SEMICOLONS", "BINARY")
    }
    files |= {"PROMPTS": tmp_path / "prompts.txt", "HERE": tmp_path}
    files["POINTS"].write_text("model,system,batch,isl,osl\ngpt2,a100,1,10,5\n")
    files["SEMICOLONS"].write_text("model;system;batch\ngpt2;a100;1\n")
    files["BINARY"].write_bytes(b"\x7fELF\x84\xff")
    files["PROMPTS"].write_text("Hello\n")
    files["REPORT"].write_bytes(DECODE.read_bytes())

    def call(line: str) -> str:
        for name, path in files.items():
            line = line.replace(name, str(path))
        monkeypatch.setattr(sys, "argv", ["ridgeline", *shlex.split(line)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code in (1, 2)
        return capsys.readouterr().err.replace(str(files["POINTS"]), "POINTS")

    return call


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_value_is_one_sentence_that_says_what_can_be(refused: Refused, line: str) -> None:
    if "--device" in line:  # PyTorch lists the devices
        pytest.importorskip("torch")
    error = refused(line)
    (sentence,) = [text for text in error.splitlines() if text not in PROGRESS]
    assert sentence.startswith("ridgeline: ") and WRONG[line] in sentence


def test_a_command_that_is_given_nothing_shows_its_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["ridgeline", "runs"])
    with pytest.raises(SystemExit):
        main()
    assert "ridgeline runs" in capsys.readouterr().out


def test_the_version_is_printed(printed: Callable[..., str]) -> None:
    name, version = printed("--version").split()
    assert name == "ridgeline" and version[0].isdigit()
