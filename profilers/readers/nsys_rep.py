"""Nsight Systems captures (.nsys-rep, .qdrep), whose format only nsys itself reads.

Where `nsys` is on the PATH it exports the capture to SQLite in a temporary folder; otherwise the
message states the version that wrote the file and the command to run elsewhere.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from genz_core.errors import ReportError
from profilers.readers import nsys_sqlite
from profilers.readers.columns import label_of
from profilers.schema import Report

MAGIC = b"NVIDIA Tegra Profiler Report"
_TIMEOUT_S = 600.0
_VERSION = re.compile(rb"NVIDIA Tegra Profiler Report (\d{4}@\d+(?:@\d+){0,2})")


def sniff(head: bytes) -> bool:
    return head.startswith(MAGIC)


def version(head: bytes) -> str | None:
    """Version of the nsys that wrote a capture ("2024.6.2"); None for captures without it."""
    match = _VERSION.match(head)
    return match[1].decode().replace("@", ".") if match else None


def read(path: Path) -> Report:
    """Export the capture with the nsys on the PATH and read the export.

    Raises:
        ReportError: there is no nsys, or it cannot read the capture; the message has the command.
    """
    with path.open("rb") as file:
        written_by = version(file.read(256))
    tool = shutil.which("nsys")
    if tool is None:
        raise ReportError(
            f"only nsys reads .nsys-rep files{_by(written_by)}, and there is none on this "
            f"machine; on one that has it, run: {export_command(path)}"
        )
    with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
        target = Path(folder) / "report.sqlite"
        _export(tool, path, target, written_by)
        report = nsys_sqlite.read(target)
    return dataclasses.replace(report, label=label_of(path))


def export_command(path: Path) -> str:
    """The shell command that exports a capture to SQLite."""
    name = path.name if re.fullmatch(r"[\w.+-]+", path.name) else "report.nsys-rep"
    return f"nsys export --type sqlite -o {Path(name).with_suffix('.sqlite')} {name}"


def _by(written_by: str | None) -> str:
    return f" (this one is of nsys {written_by})" if written_by else " (this one is of an old nsys)"


def _export(tool: str, path: Path, target: Path, written_by: str | None) -> None:
    command = [tool, "export", "--type", "sqlite", "--force-overwrite", "true"]
    command += ["-o", str(target), str(path.resolve())]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=_TIMEOUT_S, check=False, cwd=target.parent
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ReportError(f"nsys export failed ({type(error).__name__})") from None
    if done.returncode or not target.exists():
        raise ReportError(
            f"the nsys on this machine could not export the capture{_by(written_by)}; "
            f"an older nsys does not read newer captures. Elsewhere, run: {export_command(path)}"
        )
