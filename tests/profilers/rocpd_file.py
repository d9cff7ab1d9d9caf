"""Databases of rocpd with the rows of rocprofv3's kernel trace, in both versions of the schema.

Written from rocpd_tables.sql of ROCm/rocprofiler-sdk (source/share/rocprofiler-sdk-rocpd), because
no real database is public.
"""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Sequence
from pathlib import Path

CAPTURE = "_0000ddb5_8903_7903_b269_cd8d3745bb8a"
_SIZES = "workgroup_size_x workgroup_size_y workgroup_size_z grid_size_x grid_size_y grid_size_z"


def kernel_rows(trace: Path) -> list[dict[str, str]]:
    with trace.open(newline="") as file:
        return list(csv.DictReader(file))


def write_rocpd(
    path: Path,
    rows: Sequence[dict[str, str]],
    *,
    tracks: bool,
    captures: Sequence[str] = (CAPTURE,),
) -> Path:
    """A database with the rows of kernel_trace.csv.

    tracks: times and locations by `rocpd_timestamp` and `rocpd_track`, as in the newer schema.
    """
    with sqlite3.connect(path) as database:
        for capture in captures:
            _write_capture(database, rows, capture, tracks)
        table = f'"rocpd_kernel_dispatch{captures[0]}"'
        database.execute(f"CREATE VIEW rocpd_kernel_dispatch AS SELECT * FROM {table}")
    database.close()
    return path


def _write_capture(
    database: sqlite3.Connection, rows: Sequence[dict[str, str]], capture: str, tracks: bool
) -> None:
    names = sorted({row["Kernel_Name"] for row in rows})
    run = database.execute
    run(f'CREATE TABLE "rocpd_string{capture}" (id INTEGER PRIMARY KEY, string TEXT)')
    run(
        f'CREATE TABLE "rocpd_info_kernel_symbol{capture}" (id INTEGER PRIMARY KEY, '
        "kernel_name TEXT, display_name TEXT)"
    )
    run(
        f'CREATE TABLE "rocpd_info_agent{capture}" (id INTEGER PRIMARY KEY, type TEXT, name TEXT, '
        "product_name TEXT)"
    )
    run(
        f'INSERT INTO "rocpd_info_agent{capture}" VALUES (1, "GPU", "gfx942", ?)',
        ("AMD Instinct MI300X",),
    )
    for number, name in enumerate(names, 1):
        run(
            f'INSERT INTO "rocpd_info_kernel_symbol{capture}" VALUES (?, ?, ?)',
            (number, f"{name}.kd", name),
        )
    places = (
        "track_id, start_id, end_id" if tracks else 'pid, tid, agent_id, queue_id, "start", "end"'
    )
    sizes = ", ".join(_SIZES.split())
    run(
        f'CREATE TABLE "rocpd_kernel_dispatch{capture}" (id INTEGER PRIMARY KEY, kernel_id, '
        f"dispatch_id, {places}, {sizes})"
    )
    if tracks:
        run(f'CREATE TABLE "rocpd_timestamp{capture}" (id INTEGER PRIMARY KEY, value BIGINT)')
        run(
            f'CREATE TABLE "rocpd_track{capture}" (id INTEGER PRIMARY KEY, pid, tid, agent_id, '
            "queue_id, stream_id)"
        )
    for number, row in enumerate(rows, 1):
        start, end = int(row["Start_Timestamp"]), int(row["End_Timestamp"])
        place: tuple[int, ...] = (1, 1, int(row["Agent_Id"]), int(row["Queue_Id"]), start, end)
        if tracks:
            for at, value in ((2 * number - 1, start), (2 * number, end)):
                run(f'INSERT INTO "rocpd_timestamp{capture}" VALUES (?, ?)', (at, value))
            run(
                f'INSERT INTO "rocpd_track{capture}" VALUES (?, 1, 1, ?, ?, NULL)',
                (number, *place[2:4]),
            )
            place = (number, 2 * number - 1, 2 * number)
        extents = [int(row[name.title()]) for name in _SIZES.split()]
        values = (number, names.index(row["Kernel_Name"]) + 1, number, *place, *extents)
        marks = ", ".join("?" * len(values))
        run(f'INSERT INTO "rocpd_kernel_dispatch{capture}" VALUES ({marks})', values)
