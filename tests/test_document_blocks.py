"""Every code block of the documents runs, in a folder with the files that it names.

A block that cannot run here has a comment above it, `<!-- not run: why -->`.  Those
of the tutorials are run by `test_documentation_site`, examples with prompts by `test_documents`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.app.api.services import service
from tests.profilers.collect.serving.sse_server import serving
from tests.profilers.serving_results.test_server_log import LOGS
from tests.rules import for_every
from tests.test_documentation_site import DOCUMENTS, PACKAGES, ROOT, TUTORIALS, name

_BLOCK = re.compile(
    r"(?P<kept><!-- not run: .+? -->\n\s*)?"
    r"(?:^ *```(?P<kind>\w*)\n(?P<code>.*?)^ *```"
    r"|(?P<lines>(?:^    ridgeline [^\n]*\n(?:^     +\S[^\n]*\n)*)+))",
    re.DOTALL | re.MULTILINE,
)
RESULTS = ROOT / "tests" / "fixtures" / "results"
MODEL, LLAMA = "Qwen/Qwen3-8B", "meta-llama/Llama-3.1-70B"
#: The start of blocks that install and start: run by `.ci/run` and by `.ci/docker_dry_run.py`.
_INSTALLS = ("python3 -m venv",)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a document.  kind: of its fence, "bash" for indented commands.  line: of it."""

    document: Path
    line: int
    kind: str
    code: str

    def __str__(self) -> str:
        return f"{name(self.document)}:{self.line}"


def found(document: Path) -> Iterator[Block]:
    """The blocks of a document without a comment that excludes them."""
    text = document.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        code = match["code"] or match["lines"] or ""
        if not match["kept"] and not code.startswith(_INSTALLS):
            code = textwrap.dedent(code)
            kind = "bash" if match["lines"] else match["kind"]
            yield Block(document, text[: match.start()].count("\n") + 1, kind, code)


BLOCKS = [block for document in DOCUMENTS if document not in TUTORIALS for block in found(document)]
SHELL = [block for block in BLOCKS if block.kind == "bash"]
SCRIPTS = [block for block in BLOCKS if block.kind == "python" and ">>>" not in block.code]


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with the files that documents name."""
    samples = ROOT / "app" / "samples"
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "samples").symlink_to(samples)
    text = (RESULTS / "vllm" / "llama405b_16qps_first40.json").read_text(encoding="utf-8")
    for target in ("result.json", "result-2.json", "run-1.json", "main.json", "vllm-16qps.json"):
        (tmp_path / target).write_text(re.sub(r"[\w./-]*405B[\w-]*", LLAMA, text))
    for target in ("trace.json.gz", "report.json.gz"):
        shutil.copy(samples / "h100_qwen1.5-0.5b.json.gz", tmp_path / target)
    for made in ("traces", "data"):
        (tmp_path / made).mkdir()
    shutil.copy(samples / "h100_qwen1.5-0.5b.json.gz", tmp_path / "traces")
    shutil.copy(ROOT / "model_registry/configs/Qwen--Qwen3-8B.json", tmp_path / "config.json")
    (tmp_path / "server.log").write_text(LOGS["vllm"])
    (tmp_path / "in.csv").write_text("id,model,system,concurrency\na,Qwen/Qwen3-8B,h100,2\n")
    measuring = (ROOT / "docs" / "measuring.md").read_text(encoding="utf-8")
    (rows,) = re.findall(r"^```\n(model,system,.*?)^```", measuring, re.DOTALL | re.MULTILINE)
    (tmp_path / "runs.csv").write_text(rows)
    return tmp_path


def done(command: list[str], folder: Path) -> None:
    own = {
        **os.environ,
        "PYTHONPATH": PACKAGES,
        "RIDGELINE_DATA": str(folder / "data"),
        "RIDGELINE_API_TOKEN": "none-is-asked",
    }
    run = subprocess.run(
        command, cwd=folder, env=own, check=False, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, f"{command[-1]}\n{run.stdout[-500:]}\n{run.stderr[-2000:]}"


@pytest.mark.slow
@pytest.mark.parametrize("block", SHELL, ids=str)
def test_the_commands_of_a_block_run(block: Block, desk: Path, tmp_path_factory):
    program = f"{shlex.quote(sys.executable)} -m ridgeline"
    code = re.sub(r"(^|\| |&& |=\S* )\s*ridgeline ", rf"\1{program} ", block.code, flags=re.M)
    code = re.sub(r"\bMODEL\b", MODEL, code)
    # 1 is the verdict of guard, because the results are of another model.
    code = re.sub(r"^(.* guard [^#\n]*)", r"\1 || [ $? = 1 ] ", code, flags=re.M)
    if "localhost:8600" in code:
        with service(tmp_path_factory.mktemp("api"), "api") as url:
            done(["bash", "-euc", code.replace("localhost:8600", url).replace("-s ", "-sf ")], desk)
    elif "http://localhost:8000" in code:
        with serving(first_s=0.001, gap_s=0.0002) as server:
            done(["bash", "-euc", code.replace("http://localhost:8000", server.address)], desk)
    else:
        done(["bash", "-euc", code], desk)


@pytest.mark.slow
@pytest.mark.parametrize("block", SCRIPTS, ids=str)
def test_the_python_of_a_block_runs(block: Block, desk: Path):
    done([sys.executable, "-c", block.code], desk)


@pytest.mark.slow
def test_the_axes_of_a_sweep_are_priced(desk: Path):
    (axes,) = [block for block in BLOCKS if block.kind == "yaml" and "step: x2" in block.code]
    (desk / "sweep.yaml").write_text(axes.code)
    done([sys.executable, "-m", "ridgeline", "sweep", "sweep.yaml", "--output", "out.csv"], desk)


@for_every(BLOCKS)
def test_every_block_of_data_can_be_read(block: Block):
    read = {"json": json.loads, "yaml": yaml.safe_load, "toml": tomllib.loads}
    if block.kind in read:
        assert read[block.kind](block.code), block
    else:
        assert block.kind in ("bash", "python", "text", "nginx", ""), block
