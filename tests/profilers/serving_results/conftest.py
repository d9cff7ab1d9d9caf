"""Committed results of serving benchmarks."""

from collections.abc import Callable
from pathlib import Path

import pytest

from profilers.serving_results import ServingMeasurement, read_results

RESULTS = Path(__file__).parents[2] / "fixtures" / "results"


@pytest.fixture(scope="session")
def results() -> Path:
    """The folder of the committed results."""
    return RESULTS


@pytest.fixture
def read_text(tmp_path: Path) -> Callable[..., list[ServingMeasurement]]:
    """Reads a text as a result file of some name."""

    def read(text: str, name: str = "result") -> list[ServingMeasurement]:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return read_results(path)

    return read
