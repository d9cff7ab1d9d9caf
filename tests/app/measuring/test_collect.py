"""`collect`: what would run inside Nsight."""

from __future__ import annotations

from pathlib import Path

from tests.app.pages import DECODE


def test_commands_for_nsight_can_be_printed_where_it_is_missing(ridgeline, tiny: str) -> None:
    result = ridgeline("collect", "nsys", "--print", tiny, "--isl", "8")
    assert result.exit_code == 0
    assert "--cuda-graph-trace=node" in result.stdout and "--no-profile" in result.stdout
    assert "--isl 8" in result.stdout
    result = ridgeline("collect", "ncu", "--print", "--program", "--", "python", "x.py", "--isl")
    assert result.stdout.strip().endswith("python x.py --isl")


def test_top_kernels_become_a_yaml_and_that_a_run_each(ridgeline, tmp_path: Path) -> None:
    top = str(tmp_path / "top.yaml")
    chosen = ridgeline("collect", "top-kernels", str(DECODE), "--topk", "3", "--output", top)
    assert chosen.exit_code == 0
    printed = ridgeline("collect", "ncu", "--print", "--kernels", top, "--program", "work")
    assert printed.stdout.count("--kernel-name=regex:^") == 3
