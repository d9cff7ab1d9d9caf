"""Committed reports, unpacked and read once per session; the folder of the originals, if any."""

import functools
import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import profilers

REPORTS = Path(__file__).parents[1] / "fixtures" / "reports"


@pytest.fixture(scope="session")
def report_path(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Path of a committed report by its original name, "nsys/mock.sqlite"."""
    unpacked = tmp_path_factory.mktemp("reports")

    def path(name: str) -> Path:
        if (REPORTS / name).exists():
            return REPORTS / name
        target = unpacked / name
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(gzip.decompress((REPORTS / f"{name}.gz").read_bytes()))
        return target

    return path


@pytest.fixture(scope="session")
def report_of(report_path: Callable[[str], Path]) -> Callable[[str], profilers.Report]:
    """A committed report by its original name, read once; tests do not change its tables."""
    return functools.cache(lambda name: profilers.read_report(report_path(name)))


@pytest.fixture(scope="session")
def originals() -> Path:
    """The folder of the uncut reports."""
    folder = os.environ.get("RIDGELINE_REPORTS") or os.environ.get("RIDGELINE_TEST_DATA")
    if not folder or not (Path(folder) / "facts.json").exists():
        pytest.skip("RIDGELINE_REPORTS names no folder with the uncut reports and facts.json")
    return Path(folder)
