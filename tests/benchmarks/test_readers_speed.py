"""Speed of reading reports: a million kernels of nsys in 5 s and 600 MB, 100 MB of trace in 5 s.

    pytest -m benchmark tests/benchmarks/test_readers_speed.py

Seconds are processor time, so other programs on the machine do not count; readers use one thread.
"""

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import profilers

KERNELS = 1_000_000
RANGES = 100_000
TRACE_BYTES = 100_000_000
STEP_NS = 5_000
MAX_SECONDS = 5.0
MAX_RESIDENT_BYTES = 600e6
PROCESS = 5 << 24
THREAD = PROCESS + 9

#: Columns of the export of nsys 2025, each with a value for every kernel that has one.
_KERNEL = {
    "start": "1000000000 + i * 5000",
    "end": "1000000000 + i * 5000 + 4000",
    "deviceId": "0",
    "contextId": "1",
    "greenContextId": "NULL",
    "streamId": "7",
    "correlationId": "i",
    "globalPid": str(PROCESS),
    "demangledName": "i % 200",
    "shortName": "i % 200",
    "mangledName": "i % 200",
    "launchType": "1",
    "cacheConfig": "1",
    "registersPerThread": "32",
    "gridX": "i % 1000 + 1",
    "gridY": "1",
    "gridZ": "1",
    "blockX": "256",
    "blockY": "1",
    "blockZ": "1",
    "staticSharedMemory": "0",
    "dynamicSharedMemory": "0",
    "localMemoryPerThread": "0",
    "localMemoryTotal": "250871808",
    "gridId": "i",
    "sharedMemoryExecuted": "32768",
    "graphNodeId": "NULL",
    "sharedMemoryLimitConfig": "0",
}
_CALL = {
    "start": "1000000000 + i * 5000 - 9000",
    "end": "1000000000 + i * 5000 - 6000",
    "eventClass": "0",
    "globalTid": str(THREAD),
    "correlationId": "i",
    "nameId": "1000",
    "returnValue": "0",
    "callchainId": "NULL",
}


def fill(database: sqlite3.Connection, table: str, columns: dict[str, str], count: int) -> None:
    database.execute(f"CREATE TABLE {table} ({', '.join(f'{name} INT' for name in columns)})")
    database.execute(
        f"INSERT INTO {table} WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n "
        f"WHERE i < {count - 1}) SELECT {', '.join(columns.values())} FROM n"
    )


@pytest.fixture(scope="module")
def million_kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of a million kernels, their launches and ranges around every tenth of them."""
    path = tmp_path_factory.mktemp("nsys") / "million.sqlite"
    database = sqlite3.connect(path)
    database.execute("PRAGMA synchronous = OFF")
    database.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    names = [(i, f"void kernel_{i}<int>(float *)") for i in range(200)]
    database.executemany(
        "INSERT INTO StringIds VALUES (?, ?)", [*names, (1000, "cudaLaunchKernel_v7000")]
    )
    fill(database, "CUPTI_ACTIVITY_KIND_KERNEL", _KERNEL, KERNELS)
    fill(database, "CUPTI_ACTIVITY_KIND_RUNTIME", _CALL, KERNELS)
    width = KERNELS // RANGES * STEP_NS
    ranges = {
        "start": f"1000000000 + i * {width} - 9500",
        "end": f"1000000000 + (i + 1) * {width} - 9600",
        "eventType": "59",
        "text": "'aten::op_' || (i % 300) || ', op_id = ' || i",
        "globalTid": str(THREAD),
        "textId": "NULL",
    }
    fill(database, "NVTX_EVENTS", ranges, RANGES)
    database.commit()
    database.close()
    return path


def trace_events() -> Iterator[dict[str, object]]:
    """Operator, Python frame, launch, flow and kernel, over and over, as the profiler writes."""
    for i in range(10_000_000):
        ts = 1e9 + 20.0 * i
        host = {"pid": 1, "tid": 1}
        frame = {"Python parent id": i, "Python id": i + 1, "Ev Idx": i}
        name = f"torch/nn/modules/module.py({i % 900}): _call_impl"
        yield {"ph": "X", "cat": "python_function", "name": name, **host, "ts": ts, "args": frame}
        inputs = {
            "External id": i,
            "Record function id": 0,
            "Concrete Inputs": ["", ""],
            "Input type": ["c10::BFloat16", "c10::BFloat16"],
            "Input Strides": [[4096, 1], [1, 4096]],
            "Input Dims": [[32, 4096], [4096, 4096]],
            "Ev Idx": i,
        }
        operator = {"name": "aten::mm", "ts": ts + 1, "dur": 10.0, "args": inputs}
        yield {"ph": "X", "cat": "cpu_op", **host, **operator}
        launch = {"External id": i, "cbid": 211, "correlation": i}
        call = {"name": "cudaLaunchKernel", "ts": ts + 2, "dur": 4.0, "args": launch}
        yield {"ph": "X", "cat": "cuda_runtime", **host, **call}
        yield {"ph": "s", "id": i, **host, "ts": ts + 2, "cat": "ac2g", "name": "ac2g"}
        ran = launch | {"device": 0, "stream": 7, "grid": [i % 1000, 1, 1], "block": [128, 1, 1]}
        kernel = {"name": f"void gemm_{i % 50}<float>()", "ts": ts + 6, "dur": 8.125, "args": ran}
        yield {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, **kernel}


@pytest.fixture(scope="module")
def large_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of 100 MB."""
    path = tmp_path_factory.mktemp("torch") / "large.json"
    with path.open("w") as file:
        file.write('{"schemaVersion": 1, "traceEvents": [\n')
        for number, event in enumerate(trace_events()):
            file.write(",\n" * bool(number) + json.dumps(event))
            if number % 100 == 0 and file.tell() > TRACE_BYTES:
                break
        file.write("\n]}")
    return path


def resident_peak_bytes(path: Path) -> float:
    """Peak memory of a new process that reads the report."""
    code = (
        "import re, sys, profilers; profilers.read_report(sys.argv[1]); "
        "print(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    return float(done.stdout) * 1024


@pytest.mark.benchmark(timer=time.process_time)
def test_a_million_kernels_are_read_in_five_seconds_and_600_mb(benchmark, million_kernels):
    report = benchmark.pedantic(profilers.read_report, (million_kernels,), rounds=3)
    assert len(report.kernels) == KERNELS
    assert report.kernels["operator"].notna().mean() > 0.9
    benchmark.extra_info["peak_bytes"] = peak = resident_peak_bytes(million_kernels)
    assert benchmark.stats.stats.min < MAX_SECONDS
    assert peak < MAX_RESIDENT_BYTES


@pytest.mark.benchmark(timer=time.process_time)
def test_a_trace_of_100_mb_is_read_in_five_seconds_as_a_stream(benchmark, large_trace):
    assert large_trace.stat().st_size > TRACE_BYTES
    report = benchmark.pedantic(profilers.read_report, (large_trace,), rounds=3)
    assert (report.kernels["operator"] == "aten::mm").all()
    benchmark.extra_info["peak_bytes"] = peak = resident_peak_bytes(large_trace)
    assert benchmark.stats.stats.min < MAX_SECONDS
    assert peak < 4 * TRACE_BYTES
