"""ridgeline tune: the documented example, its report, and refusals."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from genz_core.errors import InvalidValue

DOCUMENT = Path(__file__).parents[3] / "docs" / "tune.md"


def test_the_documented_dry_run_finds_a_setting_within_its_target(answer, tmp_path: Path):
    [line] = re.findall(r"^ridgeline tune .*--dry-run$", DOCUMENT.read_text(), re.MULTILINE)
    words = shlex.split(line)[1:]
    told = answer(*words, "--folder", tmp_path / "search")
    assert told["settings"] == 24 and told["best"]["figures"]["tpot"] < 0.020
    assert len(told["runs"]) <= 8 and "better than run" in told["stop"]
    assert "## Runs" in (tmp_path / "search" / "report.md").read_text()
    again = answer(*words, "--folder", tmp_path / "search")
    assert again["runs"] == told["runs"]


def test_a_program_is_told_what_to_run_next(answer):
    told = answer(
        "tune", "meta-llama/Llama-3.1-8B", "--system", "h100", "--concurrency", 16,
        "--max-num-seqs", "4,8,16",
    )  # fmt: skip
    assert told["next"]["setting"] == {"max_num_seqs": 16} and told["runs"] == []


def test_a_dry_run_starts_no_server(ridgeline):
    refused = ridgeline(
        "tune", "meta-llama/Llama-3.1-8B", "--system", "h100", "--concurrency", 16,
        "--max-num-seqs", "4,8", "--dry-run", "--server", "python3 --port {port}",
    ).exception  # fmt: skip
    assert isinstance(refused, InvalidValue) and "starts no server" in str(refused)
