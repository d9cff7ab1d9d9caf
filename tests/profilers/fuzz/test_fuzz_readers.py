"""Reading any file ends in a report or in the typed error, in bounded time and memory.

RIDGELINE_FUZZ_KEEP names a folder for an input that fails.
"""

import gzip
import io
import json
import os
import random
import resource
import signal
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import profilers
from genz_core.errors import ReportError
from profilers.operators import roofline
from profilers.operators.operator_points import operator_timings
from profilers.readers import UNFORESEEN
from tests.draws import cases, seed
from tests.profilers.rocpd_file import kernel_rows, write_rocpd
from tests.profilers.test_readers_xplane import GPU, TPU
from tests.profilers.xspace_file import xspace

from .mutations import mutated

CASES = cases(50)  # for each reader
MAX_SECONDS = 5.0  # processor time, so a busy machine does not fail the test
MAX_RESIDENT_BYTES = 512e6

LLM = "csv/llm-perf-opt"
STATS = "csv/nsys_stats/mfu_2gpu_before"
SGLANG = "torch/inference_sglang_decode_sglang_Qwen3-8B_decode.json.gz"
VLLM = "torch/inference_vllm_decode_full_graph_execution.json.gz"


def unpacked(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


def zipped(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("trace.json", data)
    return buffer.getvalue()


def repacked(data: bytes) -> bytes:
    """Damaged JSON inside intact gzip, because damage to gzip itself would only break the
    decompression.
    """
    return gzip.compress(data, 1)


def seeds(kind: str, path: Callable[[str], Path]) -> list[bytes]:
    """Real files that one reader reads."""
    match kind:
        case "ncu_rep":
            return [path(f"ncu/{n}").read_bytes() for n in ("a100_pcie_extrap.ncu-rep",)]
        case "nsys_sqlite":
            names = ("mock.sqlite", "saxpy-mpi-cuda_nsys_perlmutter0.sqlite")
            return [path(f"nsys/{name}").read_bytes() for name in names]
        case "nsys_rep":
            head = b"NVIDIA Tegra Profiler Report 2024@6@2@225-246235244400v0."
            return [head + path("nsys/mock.sqlite").read_bytes()[:4000]]
        case "nsys_csv":
            names = (f"{LLM}/projector_cuda_gpu_kern_sum.csv", f"{STATS}_cuda_gpu_kern_gb_sum.csv")
            sums = ("cuda_api_sum", "cuda_gpu_mem_time_sum", "cuda_gpu_sum", "cuda_kern_exec_sum")
            return [path(n).read_bytes() for n in (*names, *(f"{STATS}_{s}.csv" for s in sums))]
        case "ncu_csv":
            folder = "csv/ncu/kernel_0001/ncu"
            return [
                path(f"{folder}.{name}.csv").read_bytes()
                for name in ("details", "section_SpeedOfLight_RooflineChart")
            ]
        case "rocprof_csv":
            names = ("kernel_trace", "counter_collection", "hip_api_stats", "marker_api_trace")
            return [path(f"rocprof/{name}.csv").read_bytes() for name in names]
        case "xplane":
            return [xspace(GPU), xspace(TPU, device="TPU v5e")]
        case "unitrace":
            return [path(f"unitrace/{n}.txt").read_bytes() for n in ("dpc_gemm_t", "vec_add_h")]
        case "rocpd":
            return [_rocpd(path, tracks) for tracks in (False, True)]
        case "torch_trace":
            plain = [unpacked(path(SGLANG)), unpacked(path(VLLM))]
            return [*plain, path(VLLM).read_bytes(), zipped(plain[1])]
    raise AssertionError(kind)


def _rocpd(path: Callable[[str], Path], tracks: bool) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        rows = kernel_rows(path("rocprof/kernel_trace.csv"))
        return write_rocpd(Path(folder) / "run.db", rows, tracks=tracks).read_bytes()


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Interrupts an endless call after seconds of processor time, so that its input can be
    reported.
    """

    def interrupt(*_: object) -> None:
        raise TimeoutError

    previous = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def outcome(path: Path) -> str:
    """ "read" or "refused"; any other outcome fails the test."""
    try:
        report = profilers.read_report(path)
    except ReportError as error:
        assert "\n" not in str(error), "one sentence"
        assert UNFORESEEN not in str(error)
        return "refused"
    json.dumps(profilers.summarise(report), allow_nan=False)
    profilers.measure_from([report])
    roofline.roofline(report)
    with suppress(ReportError):
        operator_timings([report])
    return "read"


def resident_peak_bytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


@pytest.mark.by_day(2)
@pytest.mark.draws
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "kind",
    [
        "ncu_rep",
        "nsys_sqlite",
        "nsys_rep",
        "nsys_csv",
        "ncu_csv",
        "torch_trace",
        "rocprof_csv",
        "rocpd",
        "unitrace",
        "xplane",
    ],
)
def test_mutated_reports_are_read_or_refused(kind, report_path, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    files = seeds(kind, report_path)
    rng = random.Random(f"ridgeline {kind} {seed(0)}")
    target = tmp_path / "input"
    outcomes: Counter[str] = Counter()
    before = resident_peak_bytes()
    for case in range(CASES):
        data = mutated(rng.choice(files), rng.choice(files), rng)
        if kind == "torch_trace" and not data.startswith((b"\x1f\x8b", b"PK")) and case % 3 == 0:
            data = repacked(data)
        target.write_bytes(data)
        started = time.process_time()
        try:
            with deadline(2 * MAX_SECONDS):
                outcomes[outcome(target)] += 1
        except Exception as error:
            keep = Path(os.environ.get("RIDGELINE_FUZZ_KEEP", tmp_path)) / f"{kind}-{case}"
            keep.write_bytes(data)
            raise AssertionError(
                f"{type(error).__name__}: {error}; input kept in {keep}"
            ) from error
        assert time.process_time() - started < MAX_SECONDS, f"case {case} took too long"
    assert sum(outcomes.values()) == CASES
    assert outcomes["refused"], "no mutation did any harm"
    if before < MAX_RESIDENT_BYTES:
        assert resident_peak_bytes() < MAX_RESIDENT_BYTES
