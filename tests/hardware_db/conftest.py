"""Small tables of measured operators: a package with aiconfigurator-core's layout of tables,
and a folder of tables of other benchmarks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.hardware_db.measured_tables import COLUMNS, empty

#: Columns of each table in addition to its sizes and `latency` [ms].
Rows = Mapping[str, Sequence[Any]]


class MeasuredPackage:
    """An installed package with tables that a test writes."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "aiconfigurator_core" / "systems" / "data"
        self.data.mkdir(parents=True)
        (folder / "aiconfigurator_core" / "__init__.py").touch()
        facts = folder / "aiconfigurator_core-0.12.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text("Name: aiconfigurator-core\nVersion: 0.12.0\n")

    def write(self, device: str, place: str, rows: Rows) -> None:
        """Write a table.  place: operator/backend/version/name."""
        path = self.data / device / f"{place}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(rows).to_parquet(path)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MeasuredPackage:
    """The package, found before any other of its name."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "aiconfigurator_core", raising=False)
    return MeasuredPackage(site)


@pytest.fixture
def public(tmp_path: Path) -> Callable[..., Path]:
    """Write a folder with the given tables; the others are empty."""

    def write(**given: pd.DataFrame) -> Path:
        folder = tmp_path / "tables"
        folder.mkdir(exist_ok=True)
        for name in COLUMNS:
            given.get(name, empty(name)).to_csv(folder / f"{name}.csv.gz", index=False)
        return folder

    return write
