"""Parquet folders and JSON lines of Nsight Systems give the same as the SQLite export."""

import contextlib
import gzip
import json
import random
import sqlite3
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import profilers
from genz_core.errors import ReportError
from profilers.readers.folders import read_folder
from profilers.readers.nsys_staged import _TABLES
from tests.draws import cases, seed

MFU = "nsys/mfu_2gpu_before.sqlite"
MOCK = "nsys/mock.sqlite"
COLUMNS = ("name", "full_name", "device", "stream", "grid", "block", "nvtx_path", "operator_class")


def tables_of(path: Path) -> dict[str, list[dict[str, object]]]:
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.row_factory = sqlite3.Row
        here = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
        return {
            name: [dict(row) for row in database.execute(f"SELECT * FROM {name} ORDER BY rowid")]
            for name in _TABLES
            if name in here
        }


def parquet_folder(path: Path, folder: Path) -> Path:
    """The tables of a SQLite export in the layout of `nsys export --type parquetdir`."""
    folder.mkdir()
    for name, rows in tables_of(path).items():
        columns = {key: [row[key] for row in rows] for key in (rows[0] if rows else {})}
        table = pyarrow.table(columns) if columns else pyarrow.table({"id": []})
        pyarrow.parquet.write_table(table, folder / f"{name}.parquet")
    return folder


def json_lines(path: Path, target: Path) -> Path:
    """The same as events, one per line, after the line of strings."""
    tables = tables_of(path)
    place = {row["id"]: at for at, row in enumerate(tables["StringIds"])}
    lines = [{"data": [row["value"] for row in tables["StringIds"]]}]
    for row in tables["CUPTI_ACTIVITY_KIND_RUNTIME"]:
        lines.append({"Type": 48, "TraceProcessEvent": {
            "startNs": str(row["start"]), "endNs": str(row["end"]),
            "name": str(place.get(row["nameId"], 0)),
            "correlationId": row["correlationId"],
            "globalTid": str(row["globalTid"])}})  # fmt: skip
    for row in tables["CUPTI_ACTIVITY_KIND_KERNEL"]:
        kernel = {key: place[row[key]] for key in ("demangledName", "shortName")}
        sizes = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
        kernel |= {key: row[key] for key in sizes}
        lines.append({"Type": 79, "CudaEvent": {
            "startNs": str(row["start"]), "endNs": str(row["end"]), "deviceId": row["deviceId"],
            "streamId": str(row["streamId"]), "correlationId": row["correlationId"],
            "globalPid": str(row["globalPid"]), "kernel": kernel}})  # fmt: skip
    for row in tables.get("NVTX_EVENTS", []):
        if row["end"] is not None:
            lines.append({"Type": row["eventType"], "NvtxEvent": {
                "Type": row["eventType"], "Timestamp": str(row["start"]),
                "EndTimestamp": str(row["end"]), "GlobalTid": str(row["globalTid"]),
                **({"TextId": place[row["textId"]]} if row["textId"] is not None else {}),
                **({"Text": row["text"]} if row["text"] is not None else {})}})  # fmt: skip
    target.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return target


def same_kernels(ours: profilers.Report, theirs: profilers.Report) -> None:
    assert len(ours.kernels) == len(theirs.kernels) > 0
    for column in COLUMNS:
        left, right = (r.kernels[column].astype(object).tolist() for r in (ours, theirs))
        assert [str(value) for value in left] == [str(value) for value in right], column
    for column in ("start_s", "duration_s"):
        assert np.diff(ours.kernels[column]) == pytest.approx(np.diff(theirs.kernels[column]))


@pytest.mark.parametrize("name", [MFU, MOCK])
def test_a_parquet_folder_says_what_the_sqlite_export_says(name, report_path, report_of, tmp_path):
    folder = parquet_folder(report_path(name), tmp_path / "run_pqtdir")
    report = profilers.read_report(folder)
    same_kernels(report, report_of(name))
    assert (
        profilers.summarise(report)["copy_count"]
        == profilers.summarise(report_of(name))["copy_count"]
    )
    assert report.label == "run_pqtdir" and report.devices == report_of(name).devices
    assert read_folder(folder).reports[0].label == "run_pqtdir"


@pytest.mark.by_day(1)
@pytest.mark.parametrize("packed", [False, True])
def test_json_lines_say_what_the_sqlite_export_says(packed, report_path, report_of, tmp_path):
    path = json_lines(report_path(MFU), tmp_path / "run.json")
    if packed:
        path.write_bytes(gzip.compress(path.read_bytes(), 1))
    same_kernels(profilers.read_report(path), report_of(MFU))


_KERNEL = {"startNs": "100", "endNs": "400", "deviceId": 0, "streamId": "7", "correlationId": 1,
           "globalPid": "0"}  # fmt: skip
_EXTENTS = {key: 1 for key in ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")}


def test_strings_one_a_line_and_copies_are_read(tmp_path):
    """As newer exports write them: a line for each string, sizes under either name."""
    events = [
        {"type": "String", "id": "3", "value": "saxpy"},
        {"type": "String", "id": "4", "value": "void saxpy(int)"},
        {"CudaEvent": {**_KERNEL, "kernel": {**_EXTENTS, "shortName": 3, "demangledName": 4}}},
        {"CudaEvent": {**_KERNEL, "memcpy": {"sizebytes": "4096", "copyKind": 1}}},
        {"CudaEvent": {**_KERNEL, "memcpy": {"bytes": 96, "copyKind": 2}}},
        {"CudaEvent": {**_KERNEL, "sync": {}}},
        {"NvtxEvent": {"Type": "NvtxStartEndRange", "Timestamp": "50", "Text": "unended"}},
        {"SomethingElse": {}},
    ]
    path = tmp_path / "run.json"
    path.write_text("\n".join(json.dumps(event, separators=(",", ":")) for event in events))
    report = profilers.read_report(path)
    assert list(report.kernels["name"].astype(str)) == ["saxpy"]
    assert report.kernels["duration_s"].tolist() == pytest.approx([300e-9])
    assert sorted(report.copies["bytes"]) == [96, 4096] and report.ranges.empty


def test_a_damaged_line_is_named_and_an_id_without_sign_is_held(tmp_path):
    path = tmp_path / "run.json"
    strings = {"data": ["saxpy"]}
    kernel = {**_KERNEL, "globalPid": str(2**64 - 1), "kernel": {**_EXTENTS, "shortName": 0}}
    path.write_text(f"{json.dumps(strings)}\n{json.dumps({'CudaEvent': kernel})}\n")
    assert len(profilers.read_report(path).kernels) == 1
    path.write_text(path.read_text() + '{"CudaEvent": \n')
    with pytest.raises(ReportError, match="line 3 of the export is damaged"):
        profilers.read_report(path)
    beyond = json.dumps({"CudaEvent": {**kernel, "startNs": "9" * 40}})
    path.write_text(f"{json.dumps(strings)}\n{beyond}\n")
    with pytest.raises(ReportError):
        profilers.read_report(path)


@pytest.mark.draws
def test_mutated_parquet_tables_are_read_or_refused(report_path, tmp_path):
    folder = parquet_folder(report_path(MOCK), tmp_path / "run")
    kernel = folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    whole, chance = kernel.read_bytes(), random.Random(seed(3))
    refused = 0
    for _ in range(cases(100)):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 8)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        kernel.write_bytes(bytes(data[: chance.randrange(len(data) // 2, len(data) + 1)]))
        try:
            profilers.read_report(folder)
        except ReportError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused


@pytest.mark.draws
def test_mutated_lines_are_read_or_refused(report_path, tmp_path):
    path = json_lines(report_path(MOCK), tmp_path / "run.json")
    whole, chance = path.read_bytes(), random.Random(seed(4))
    for _ in range(cases(150)):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 8)):
            data[chance.randrange(len(data))] = chance.randrange(32, 127)
        path.write_bytes(bytes(data[: chance.randrange(len(data) + 1)]))
        try:
            profilers.read_report(path)
        except ReportError as error:
            assert "\n" not in str(error)
