"""Nsight Systems exports of all versions, and databases that only look like one."""

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import profilers
from genz_core.errors import ReportError
from profilers.operators.operator_rates import operator_rates
from profilers.readers import nsys_rep
from tests.profilers.units import whole_ns

PROCESS = 7 << 24

KERNEL = {
    "start": 0,
    "end": 0,
    "deviceId": 0,
    "streamId": 7,
    "correlationId": 0,
    "globalPid": PROCESS,
    "demangledName": 1,
    "shortName": 2,
    "gridX": 4,
    "gridY": 2,
    "gridZ": 1,
    "blockX": 128,
    "blockY": 1,
    "blockZ": 1,
}
STRINGS = [(1, "void mm<int>(float*)"), (2, "mm"), (3, "cudaLaunchKernel_v7000"), (4, "decode")]


def create(database: sqlite3.Connection, table: str, rows: list[dict[str, Any]]) -> None:
    columns = list(rows[0])
    database.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
    marks = ", ".join("?" * len(columns))
    database.executemany(
        f"INSERT INTO {table} VALUES ({marks})", [[row[c] for c in columns] for row in rows]
    )


@pytest.fixture
def export(tmp_path: Path) -> Callable[..., Path]:
    """Writes an export with the given tables; StringIds is included by default."""

    def write(script: str = "", **tables: list[dict[str, Any]]) -> Path:
        path = tmp_path / "report.sqlite"
        path.unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            tables.setdefault("StringIds", [{"id": i, "value": text} for i, text in STRINGS])
            for name, rows in tables.items():
                if rows:
                    create(database, name, rows)
            database.executescript(script)
        return path

    return write


def kernels(count: int = 3, **changes: Any) -> list[dict[str, Any]]:
    return [
        KERNEL | {"start": 1000 * i, "end": 1000 * i + 400, "correlationId": i} | changes
        for i in range(count)
    ]


def calls(count: int = 3, **changes: Any) -> list[dict[str, Any]]:
    call = {"globalTid": PROCESS + 5, "nameId": 3}
    return [
        call | {"start": 1000 * i - 300, "end": 1000 * i - 200, "correlationId": i} | changes
        for i in range(count)
    ]


def nvtx(start: int, end: int | None, text: str | None, **changes: Any) -> dict[str, Any]:
    row = {"eventType": 59, "globalTid": PROCESS + 5, "textId": None}
    return row | {"start": start, "end": end, "text": text} | changes


def test_a_kernel_lies_in_the_ranges_around_its_host_call(export):
    path = export(
        CUPTI_ACTIVITY_KIND_KERNEL=kernels(),
        CUPTI_ACTIVITY_KIND_RUNTIME=calls(),
        NVTX_EVENTS=[nvtx(-1000, 5000, None, textId=4), nvtx(600, 900, "aten::mm, op_id = 3")],
    )
    report = profilers.read_report(path)
    assert report.kernels["nvtx_path"].tolist() == ["decode", "decode/aten::mm", "decode"]
    assert report.kernels["operator"].tolist() == ["decode", "aten::mm", "decode"]
    assert set(report.kernels["phase"]) == {"decode"}
    assert set(report.kernels["attributed_by"]) == {"nvtx_range"}
    assert (report.kernels["start_s"] - report.kernels["launch_s"]).tolist() == pytest.approx(
        [300e-9] * 3
    )


def test_grid_block_names_and_streams_are_kept(export):
    row = profilers.read_report(export(CUPTI_ACTIVITY_KIND_KERNEL=kernels(1))).kernels.iloc[0]
    assert (row["grid"], row["block"], row["stream"]) == ("4,2,1", "128,1,1", 7)
    assert (row["name"], row["full_name"]) == ("mm", "void mm<int>(float*)")


def test_host_calls_lose_the_version_that_nsys_appends(export):
    path = export(CUPTI_ACTIVITY_KIND_KERNEL=kernels(), CUPTI_ACTIVITY_KIND_RUNTIME=calls())
    host = profilers.read_report(path).host
    assert host.to_dict("records") == [
        {"name": "cudaLaunchKernel", "count": 3, "time_s": pytest.approx(300e-9)}
    ]


def test_correlation_ids_of_two_processes_do_not_meet(export):
    other = PROCESS + (1 << 24)
    path = export(
        CUPTI_ACTIVITY_KIND_KERNEL=kernels(1) + kernels(1, globalPid=other, start=50, end=60),
        CUPTI_ACTIVITY_KIND_RUNTIME=calls(1) + calls(1, globalTid=other + 5),
        NVTX_EVENTS=[nvtx(-1000, 5000, "mine"), nvtx(-1000, 5000, "other", globalTid=other + 5)],
    )
    report = profilers.read_report(path)
    assert report.kernels["operator"].tolist() == ["mine", "other"]
    assert report.kernels["process"].tolist() == [0, 1]


def test_ranges_started_on_one_thread_and_ended_on_another_count_for_the_process(export):
    path = export(
        CUPTI_ACTIVITY_KIND_KERNEL=kernels(1),
        CUPTI_ACTIVITY_KIND_RUNTIME=calls(1),
        NVTX_EVENTS=[
            nvtx(-1000, 5000, "prefill", eventType=60, globalTid=PROCESS + 9),
            nvtx(-400, -100, "layer"),
        ],
    )
    row = profilers.read_report(path).kernels.iloc[0]
    assert (row["nvtx_path"], row["phase"]) == ("prefill/layer", "prefill")


def test_marks_and_ranges_never_closed_take_no_part(export):
    path = export(
        CUPTI_ACTIVITY_KIND_KERNEL=kernels(1),
        CUPTI_ACTIVITY_KIND_RUNTIME=calls(1),
        NVTX_EVENTS=[nvtx(-1000, None, "open"), nvtx(-400, -100, "mark", eventType=34)],
    )
    report = profilers.read_report(path)
    assert report.kernels["operator"].isna().all()
    assert len(report.ranges) == 0


def test_kernels_of_a_graph_are_known_by_their_node(export):
    rows = kernels(2, graphNodeId=None)
    rows[1]["graphNodeId"] = 12
    report = profilers.read_report(export(CUPTI_ACTIVITY_KIND_KERNEL=rows))
    assert report.kernels["in_graph"].tolist() == [False, True]


def test_graphs_traced_as_a_whole_are_said_to_hide_their_kernels(export):
    graph = {"start": 0, "end": 5000, "deviceId": 0, "streamId": 7, "globalPid": PROCESS}
    report = profilers.read_report(export(CUPTI_ACTIVITY_KIND_GRAPH_TRACE=[graph, graph]))
    summary = profilers.summarise(report)
    assert summary["kernel_count"] == 0
    assert whole_ns(summary["busy_time_s"]) == 5000
    assert "--cuda-graph-trace=node" in report.notes[0]
    assert report.copies["kind"].tolist() == ["graph", "graph"]


def test_copies_and_sets_are_no_kernels(export):
    copy = {"start": 0, "end": 90, "deviceId": 0, "globalPid": PROCESS, "bytes": 64, "copyKind": 8}
    memset = {"start": 100, "end": 110, "deviceId": 0, "globalPid": PROCESS, "bytes": 4}
    path = export(
        CUPTI_ACTIVITY_KIND_KERNEL=kernels(1, start=50, end=150),
        CUPTI_ACTIVITY_KIND_MEMCPY=[copy],
        CUPTI_ACTIVITY_KIND_MEMSET=[memset],
    )
    report = profilers.read_report(path)
    summary = profilers.summarise(report)
    assert (summary["kernel_count"], whole_ns(summary["kernel_time_s"])) == (1, 100)
    assert (summary["copy_count"], whole_ns(summary["copy_time_s"])) == (2, 100)
    assert whole_ns(summary["busy_time_s"]) == 150
    assert whole_ns(summary["kernel_busy_time_s"]) == 100
    assert report.copies["kind"].tolist() == ["DtoD", "memset"]


def test_a_capture_without_kernels_or_ranges_is_read(export):
    report = profilers.read_report(export())
    assert profilers.summarise(report)["kernel_count"] == 0
    assert report.notes == ("the capture holds no GPU kernels",)


def test_devices_follow_the_map_from_cuda_ordinals_to_gpus(export):
    """Two processes see one GPU each and both call it device 0."""
    other = PROCESS + (1 << 24)
    gpu = {"id": 0, "name": "GPU A", "smCount": 10, "totalMemory": 1, "memoryBandwidth": 2}
    path = export(
        CUPTI_ACTIVITY_KIND_KERNEL=kernels(1) + kernels(1, globalPid=other, start=50, end=60),
        TARGET_INFO_GPU=[gpu | {"id": 3, "name": "GPU D"}, gpu, gpu | {"id": 5, "name": "iGPU"}],
        TARGET_INFO_CUDA_DEVICE=[
            {"gpuId": 0, "cudaId": 0, "pid": 7},
            {"gpuId": 3, "cudaId": 0, "pid": 8},
        ],
    )
    report = profilers.read_report(path)
    assert [device.name for device in report.devices] == ["GPU A", "GPU D"]
    assert report.kernels["device"].tolist() == [0, 3]


def test_old_exports_that_number_gpus_by_their_order_are_read(export):
    path = export(
        CUPTI_ACTIVITY_KIND_KERNEL=kernels(1, deviceId=1),
        TARGET_INFO_GPU=[
            {"name": "first", "busLocation": "1"},
            {"name": "second", "busLocation": ""},
        ],
    )
    assert [device.name for device in profilers.read_report(path).devices] == ["second"]


def test_text_that_is_not_utf8_is_read(export):
    path = export(
        "INSERT INTO StringIds VALUES (9, CAST(x'6bff6c' AS TEXT))",
        CUPTI_ACTIVITY_KIND_KERNEL=kernels(1, shortName=9),
    )
    assert profilers.read_report(path).kernels["name"].tolist() == ["k\ufffdl"]


def test_the_version_of_old_and_new_exports_is_found(export):
    rows = [{"name": "EXPORT_PRODUCT_VERSION", "value": "2021.3"}]
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        assert profilers.read_report(export(**{table: rows})).tool_version == "2021.3"


def test_nothing_of_host_user_or_processes_is_kept(export):
    secret = [{"name": "HOSTNAME", "value": "secret-host"}]
    path = export(
        CUPTI_ACTIVITY_KIND_KERNEL=kernels(1),
        TARGET_INFO_SYSTEM_ENV=secret,
        META_DATA_EXPORT=[{"name": "EXPORT_PRODUCT_NAME", "value": "nsys"}, *secret],
        PROCESSES=[{"globalPid": PROCESS, "pid": 7, "name": "secret-program"}],
    )
    report = profilers.read_report(path)
    assert "secret" not in repr(report) + repr(profilers.summarise(report))


# ------------------------------------------------------------------------------ hostile


def test_a_view_in_place_of_a_table_is_not_run(export):
    endless = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT i AS id, 'x' AS value FROM n"
    )
    path = export(f"CREATE VIEW StringIds AS {endless}", StringIds=[])
    with pytest.raises(ReportError, match="no StringIds"):
        profilers.read_report(path)
    path = export(f"CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS {endless}")
    assert len(profilers.read_report(path).kernels) == 0


def test_generated_columns_are_left_alone(export):
    columns = ", ".join(f"{name} INT" for name in KERNEL if name != "end")
    path = export(
        f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({columns}, "
        "end INT GENERATED ALWAYS AS (length(hex(zeroblob(100000000)))) VIRTUAL);"
        f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({', '.join('0' * (len(KERNEL) - 1))})"
    )
    with pytest.raises(ReportError, match="impossible duration"):
        profilers.read_report(path)


def test_shapes_of_emit_nvtx_reach_the_kernels(export):
    """Labels as written by getNvtxStr of PyTorch (torch/csrc/profiler/util.cpp)."""
    product = "aten::mm, seq = 5, op_id = 12, sizes = [[32, 64], [64, 8]], input_op_ids = [(1,0)]"
    again = "aten::mm, seq = 6, op_id = 13, sizes = [[32, 64], [64, 8]], input_op_ids = [(2,0)]"
    path = export(
        CUPTI_ACTIVITY_KIND_KERNEL=kernels(),
        CUPTI_ACTIVITY_KIND_RUNTIME=calls(),
        NVTX_EVENTS=[
            nvtx(-400, -100, product), nvtx(600, 900, again), nvtx(1600, 1900, "aten::mm")
        ],
    )  # fmt: skip
    report = profilers.read_report(path)
    shapes = report.kernels["input_shapes"]
    assert shapes.tolist()[:2] == ["[[32,64],[64,8]]"] * 2 and shapes.isna()[2]
    assert report.kernels["flops"].tolist()[:2] == [2.0 * 32 * 64 * 8] * 2
    (row,) = profilers.gemm_table(report).to_dict("records")
    assert (row["m"], row["n"], row["k"], row["count"]) == (32, 8, 64, 2)
    (rate,) = operator_rates(report).to_dict("records")
    assert rate["shape"] == "32 × 8 × 64" and rate["flops_per_s"] > 0


@pytest.mark.parametrize(
    "sizes", ["[[1, 2", "[" * 5000, "{}", "[1, 2]", "[]", "null", '[["a"]]', "[[-1, 2], [2, -1]]"]
)
def test_shapes_that_are_none_are_left_out(sizes, export):
    path = export(
        CUPTI_ACTIVITY_KIND_KERNEL=kernels(),
        CUPTI_ACTIVITY_KIND_RUNTIME=calls(),
        NVTX_EVENTS=[nvtx(-400, -100, f"aten::mm, op_id = 1, sizes = {sizes}")],
    )
    report = profilers.read_report(path)
    assert report.kernels["operator"].tolist()[0] == "aten::mm"
    assert report.kernels["flops"].isna().all()


def test_a_database_of_something_else_is_named_as_such(export):
    path = export("CREATE TABLE places (url)", StringIds=[])
    with pytest.raises(ReportError, match="not an Nsight Systems export"):
        profilers.read_report(path)


def test_a_database_cut_in_half_is_refused(report_path, tmp_path):
    whole = report_path("nsys/mfu_2gpu_before.sqlite").read_bytes()
    for share in (0.01, 0.3, 0.5, 0.9):
        cut = tmp_path / "cut.sqlite"
        cut.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(ReportError):
            profilers.read_report(cut)


def test_text_where_numbers_belong_gives_no_crash(export):
    report = profilers.read_report(
        export(
            CUPTI_ACTIVITY_KIND_KERNEL=kernels(1, gridX="many", deviceId=b"\x00", streamId=1e300)
        )
    )
    assert report.kernels["grid"].isna().all()


def test_a_path_with_odd_characters_is_opened(export, tmp_path):
    path = export(CUPTI_ACTIVITY_KIND_KERNEL=kernels(1))
    odd = path.rename(tmp_path / "50% of?a #file.sqlite")
    assert len(profilers.read_report(odd).kernels) == 1


# ------------------------------------------------------------------------------ .nsys-rep


@pytest.mark.parametrize(
    ("head", "version"),
    [
        (b"NVIDIA Tegra Profiler Report 2024@6@2@225-246235244400v0.", "2024.6.2.225"),
        (b"NVIDIA Tegra Profiler Report 2021@3@1@14-abc.", "2021.3.1.14"),
        (b"NVIDIA Tegra Profiler Report 1.", None),
    ],
)
def test_the_version_of_a_capture_is_read_from_its_first_bytes(head, version):
    assert nsys_rep.version(head) == version


def test_without_nsys_the_message_has_version_and_command(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    capture = tmp_path / "run.nsys-rep"
    capture.write_bytes(b"NVIDIA Tegra Profiler Report 2024@6@2@225-246235244400v0.\0\0")
    with pytest.raises(ReportError) as caught:
        profilers.read_report(capture)
    assert "2024.6.2.225" in str(caught.value)
    assert "nsys export --type sqlite -o run.sqlite run.nsys-rep" in str(caught.value)


def fake_nsys(folder: Path, script: str) -> None:
    tool = folder / "nsys"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)


def test_with_nsys_on_the_path_the_capture_is_exported_and_read(tmp_path, monkeypatch, report_path):
    """The substitute checks its arguments as nsys would, and exports a real database."""
    fake_nsys(
        tmp_path,
        'test "$1 $2 $3 $4 $5 $6" = "export --type sqlite --force-overwrite true -o" || exit 3\n'
        f'cp "{report_path("nsys/mock.sqlite")}" "$7"',
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    capture = tmp_path / "run.nsys-rep"
    capture.write_bytes(b"NVIDIA Tegra Profiler Report 2026@1@1@204-1v0.\0")
    report = profilers.read_report(capture)
    assert (report.label, len(report.kernels)) == ("run", 2)


def test_an_nsys_too_old_for_the_capture_is_said(tmp_path, monkeypatch):
    fake_nsys(tmp_path, "echo newer than your current version >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    capture = tmp_path / "run.nsys-rep"
    capture.write_bytes(b"NVIDIA Tegra Profiler Report 2026@1@1@204-1v0.\0")
    with pytest.raises(ReportError, match=r"2026\.1\.1\.204.*older nsys"):
        profilers.read_report(capture)


def test_labels_that_differ_from_range_to_range_are_folded_beyond_a_bound(monkeypatch):
    from profilers.readers import columns

    monkeypatch.setattr(columns, "MAX_LABELS", 100)
    labels = columns.Labels(columns.range_name)
    texts = [f"request_{i:06x}a1 step {i} context_{i}_generation_0" for i in range(90, 900)]
    codes = [labels.code(text) for text in texts]
    settled, names = labels.settled()
    assert set(names) == {""} | {
        f"request_# step {d} context_{d}_generation_0" for d in range(1, 10)
    }
    for text, code in zip(texts, codes, strict=True):
        assert names[settled[code]] == columns._folded(text)


def test_a_folded_label_keeps_its_words():
    from profilers.readers import columns

    assert columns._folded("facade 128 abc12 DEADBEEF01 0123456") == "facade 1 abc1 # 0"


def test_labels_without_numbers_share_one_beyond_a_bound(monkeypatch):
    from profilers.readers import columns

    monkeypatch.setattr(columns, "MAX_LABELS", 100)
    labels = columns.Labels(columns.range_name)
    letters = [chr(97 + i // 26 % 26) + chr(97 + i % 26) + "x" * (i // 676) for i in range(1000)]
    codes = [labels.code(text) for text in letters]
    settled, names = labels.settled()
    assert (
        names[settled[codes[50]]] == letters[50] and names[settled[codes[-1]]] == "further ranges"
    )
    assert len(names) <= 202 and "further ranges" in names
    assert len(settled) == len(names)
