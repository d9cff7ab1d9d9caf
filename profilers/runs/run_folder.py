"""The folder of a kept run: run.json and its operator table; export as a zip file."""

from __future__ import annotations

import io
import json
import math
import shutil
import sqlite3
import time
import uuid
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from genz_core.errors import MeasurementError, RidgelineError
from genz_core.types import Workload
from profilers.schema import DeviceInfo, Measurement, PhaseTiming
from profilers.steps import MOST_STEPS, MeasuredStep, StepPoint

RUN, TAGS, _OPERATORS = "run.json", "tags.json", "operators.parquet"
_MAX_TAG = 200
_MAX_FILES, _MAX_BYTES, _MAX_RATIO = 200, 1 << 30, 400
_MAX_SIZE = 1 << 48  # size of a step, in sequences or tokens
#: Errors that damaged files raise.
_DAMAGE = (ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError,
           OverflowError, pa.ArrowException)  # fmt: skip


def write_run(folder: Path, measurement: Measurement, label: str) -> None:
    """Write a measurement as run.json, under a new id, and its operator table."""
    m = measurement
    load = m.workload
    facts: dict[str, Any] = {
        "version": 1,
        "id": uuid.uuid4().hex,
        "created": time.time(),
        "label": label,
        "source": m.source,
        "model": m.model,
        "engine": m.engine,
        "system": asdict(m.system) if m.system else None,
        "workload": None
        if load is None
        else [float(np.max(v)) for v in (load.batch, load.isl, load.osl)],
        "phases": {
            name: {"basis": timing.basis, "samples_s": list(timing.samples_s)}
            for name, timing in m.phases.items()
        },
        "steps": [asdict(step) for step in m.steps],
        "facts": dict(m.facts),
        "notes": list(m.notes),
    }
    m.operators.to_parquet(folder / _OPERATORS, index=False)
    text = json.dumps(facts, indent=1, allow_nan=True, default=str)
    (folder / RUN).write_text(text, encoding="utf-8")


def document(folder: Path) -> dict[str, Any]:
    """The content of run.json, checked.

    Raises:
        ValueError: it does not describe a run.
    """
    content = json.loads((folder / RUN).read_text(encoding="utf-8"))
    identity = content.get("id", "") if isinstance(content, dict) else ""
    if not (isinstance(identity, str) and len(identity) == 32 and identity.isalnum()):
        raise ValueError("it has no id")
    if content.get("version") != 1:
        raise ValueError(f"its version is {content.get('version')!r}, this program reads 1")
    float(content["created"])
    for entry in content["phases"].values():
        [float(sample) for sample in entry["samples_s"]]
    _steps(content)
    return content


def _steps(document: dict[str, Any]) -> tuple[MeasuredStep, ...]:
    """The steps of a sweep; files of versions that stored no steps have none.

    Raises:
        ValueError: impossible sizes or times, or more steps than a sweep can have.
    """
    entries = document.get("steps", [])
    if len(entries) > MOST_STEPS:
        raise ValueError(f"it has {len(entries)} steps, a sweep has {MOST_STEPS} at most")
    return tuple(map(_step, entries))


def _step(entry: dict[str, Any]) -> MeasuredStep:
    """A step of run.json; errors as `_steps`."""
    point = StepPoint(**entry["point"])
    samples = tuple(map(float, entry["samples_s"]))
    sizes = (point.batch, point.length)
    whole = all(type(size) is int and 1 <= size <= _MAX_SIZE for size in sizes)
    if point.phase not in ("prefill", "decode") or not whole:
        raise ValueError(f"{str(point)[:60]!r} is not a step")
    if not all(0.0 < sample < math.inf for sample in samples):
        raise ValueError(f"{point} has an impossible time")
    return MeasuredStep(point, samples, bool(entry["out_of_memory"]), bool(entry["skipped"]))


def is_whole(folder: Path) -> bool:
    """Whether a folder is named after the id of a run that `document` reads."""
    return not damage(folder)


def damage(folder: Path) -> str:
    """Why `document` cannot read a folder as a run, "" where it can."""
    try:
        identity = document(folder)["id"]
    except OSError as error:
        return f"{RUN} cannot be read ({error.strerror})"
    except _DAMAGE as error:
        return f"{RUN} is damaged ({error})"
    return "" if identity == folder.name else f"it holds the run {identity}"


def measurement_of(folder: Path) -> Measurement:
    """The measurement in a run's folder.  Damaged files raise errors that `in_words` translates."""
    d = document(folder)
    phases = {
        name: PhaseTiming(name, tuple(map(float, entry["samples_s"])), entry["basis"])
        for name, entry in d["phases"].items()
    }
    return Measurement(
        source=str(d["source"]),
        operators=pd.read_parquet(folder / _OPERATORS),
        phases=phases,
        system=DeviceInfo(**d["system"]) if d["system"] else None,
        model=d["model"],
        engine=d["engine"],
        workload=Workload(*d["workload"]) if d["workload"] else None,
        facts=d["facts"],
        notes=tuple(d["notes"]),
        steps=_steps(d),
    )


def tags_of(folder: Path) -> list[str]:
    """The tags of an exported run; none where the export is older than the storing of tags."""
    try:
        tags = json.loads((folder / TAGS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    if not isinstance(tags, list) or len(tags) > _MAX_FILES:
        raise ValueError(f"{TAGS} is not a list of tags")
    return [str(tag)[:_MAX_TAG] for tag in tags]


def pack(folder: Path, target: Path, tags: Sequence[str] = ()) -> None:
    """Write a run's folder and its tags as a zip file."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(TAGS, json.dumps(list(tags)))
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path != folder / TAGS:
                archive.write(path, path.relative_to(folder).as_posix())


def unpack(source: Path | io.BytesIO, folder: Path) -> None:
    """Unpack an exported run, its files bounded in number and size.

    Raises:
        ValueError: names that lead out of the folder, too many or too large files, or no run in the
            file.
    """
    with zipfile.ZipFile(source) as archive:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        size, packed = sum(e.file_size for e in entries), sum(e.compress_size for e in entries)
        if len(entries) > _MAX_FILES or size > min(_MAX_BYTES, _MAX_RATIO * max(packed, 1)):
            raise ValueError("it is larger than any run")
        if not {RUN, _OPERATORS} <= {entry.filename for entry in entries}:
            raise ValueError("it holds no run")
        for entry in entries:
            target = (folder / entry.filename).resolve()
            if not target.is_relative_to(folder.resolve()):
                raise ValueError("a name in it leads out of the folder")
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(entry) as packed_file, target.open("wb") as out:
                shutil.copyfileobj(packed_file, out)


@contextmanager
def in_words(place: Path) -> Iterator[None]:
    """Translate errors of the disk, SQLite and damaged files into a `MeasurementError`."""
    try:
        yield
    except RidgelineError:
        raise
    except OSError as error:
        reason = error.strerror or "a file is damaged"
        raise MeasurementError(f"the run store in {place} cannot be used: {reason}") from None
    except sqlite3.Error as error:
        raise MeasurementError(f"the index of runs in {place} cannot be used: {error}") from None
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as error:
        raise MeasurementError(f"the file is truncated or not an exported run: {error}") from None
    except _DAMAGE as error:
        raise MeasurementError(f"this run cannot be read: {error}") from None
