"""Uploads are recognised by content, whatever their name; readers report damage."""

import gzip
import json
from pathlib import Path

import pytest

from app.benchmarks.sent_files import SentFile, Unread, kind_of, read_sent
from app.watching.pages import Look
from genz_core.errors import ReportError
from profilers import Report
from tests.app.dashboard.test_own_definitions import SHEET, TINY
from tests.app.pages import DECODE, QWEN, REPORTS, ROOT
from tests.profilers.serving_results.test_server_log import LOGS

GGUF = ROOT / "tests" / "fixtures" / "gguf" / "tiny-llama.gguf"
SAMPLES = ROOT / "app" / "samples"
RESULTS = ROOT / "tests" / "fixtures" / "results"
KINDS = {
    "trace": (QWEN.read_bytes(), "report"),
    "summary": (DECODE.read_bytes(), "report"),
    "ncu": ((REPORTS / "ncu" / "a100_pcie_extrap.ncu-rep").read_bytes(), "report"),
    "result": ((SAMPLES / "sglang_llama-3.1-405b.jsonl").read_bytes(), "result"),
    "records": ((SAMPLES / "aiperf_qwen3-0.6b_concurrency1.jsonl").read_bytes(), "result"),
    "log": (LOGS["vllm"].encode(), "log"),
    "config": (json.dumps(TINY).encode(), "model"),
    "gguf": (GGUF.read_bytes(), "model"),
    "sheet": (SHEET.encode(), "system"),
    "recording": (Look(1.0, "vllm:num_requests_running 1").line().encode(), "recording"),
    "recording of none": (Look(1.0, why="away").line().encode(), "recording"),
    "counts": (b'{"logical_count": [[1, 2], [3, 4]]}', "routing"),
    "nested counts": (b"[[1, 2], [3, 4]]", "routing"),
    "table of counts": (b"layer_id,expert_id,count\n0,0,3\n0,1,4\n", "routing"),
    "nothing": (b"", "report"),
    "noise": (b"\xff\xfe\x00\x01" * 9, "report"),
    "damaged archive": (gzip.compress(b"x" * 999)[:20], "report"),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_what_a_file_holds_decides_what_it_is(name: str):
    content, kind = KINDS[name]
    assert kind_of(SentFile("file", content)) == kind
    assert kind_of(SentFile("../../etc/passwd", content)) == kind


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/*.json"))[::5], ids=lambda path: path.stem)
def test_results_are_no_reports_and_reports_no_results(path: Path):
    assert kind_of(SentFile("file", path.read_bytes())) == "result"


def test_a_file_is_read_as_what_it_is():
    assert isinstance(read_sent(SentFile("a", QWEN.read_bytes())), Report)
    runs = read_sent(SentFile("a", KINDS["result"][0]))
    assert isinstance(runs, list) and len(runs) == 6
    assert read_sent(SentFile("a", KINDS["sheet"][0])) == Unread("system")


@pytest.mark.parametrize("name", ["nothing", "noise", "damaged archive"])
def test_what_nobody_reads_is_one_sentence(name: str):
    with pytest.raises(ReportError, match=r"^a: [^\n]+$"):
        read_sent(SentFile("a", KINDS[name][0]))
