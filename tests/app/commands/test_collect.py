"""`collect`: the program and arguments that run inside Nsight."""

from __future__ import annotations

import shlex
from pathlib import Path

from tests.app.pages import DECODE


def test_commands_for_nsight_can_be_printed_where_it_is_missing(ridgeline, tiny: str) -> None:
    result = ridgeline("collect", "nsys", "--print", tiny, "--isl", "8")
    assert result.exit_code == 0
    argv = shlex.split(result.stdout)
    work = argv.index("ridgeline")
    assert argv[:2] == ["nsys", "profile"] and "--cuda-graph-trace=node" in argv[:work]
    assert argv[work:] == [
        "ridgeline", "measure", "run", tiny, "--isl", "8", "--no-profile", "--no-keep", "--nvtx",
    ]  # fmt: skip
    result = ridgeline("collect", "ncu", "--print", "--program", "--", "python", "x.py", "--isl")
    assert shlex.split(result.stdout)[-3:] == ["python", "x.py", "--isl"]


def test_top_kernels_become_a_yaml_and_that_a_run_each(ridgeline, tmp_path: Path) -> None:
    top = str(tmp_path / "top.yaml")
    chosen = ridgeline("collect", "top-kernels", str(DECODE), "--topk", "3", "--output", top)
    assert chosen.exit_code == 0
    printed = ridgeline("collect", "ncu", "--print", "--kernels", top, "--program", "work")
    assert printed.stdout.count("--kernel-name=regex:^") == 3
