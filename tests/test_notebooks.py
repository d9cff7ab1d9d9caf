"""The notebooks of the documentation: stored without outputs, and each runs from end to end."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def test_there_are_four_and_the_page_links_each():
    page = (ROOT / "docs" / "notebooks" / "index.md").read_text(encoding="utf-8")
    assert {path.stem for path in NOTEBOOKS} == {"predict", "decide", "compare", "calibrate"}
    assert all(f"({path.name})" in page for path in NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert cell.cell_type != "code" or not (cell.outputs or cell.execution_count)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    paths = f"{ROOT}{os.pathsep}{ROOT / 'app' / 'python'}"
    monkeypatch.setenv("PYTHONPATH", paths)
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path / "data"))
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=600, kernel_name="python3")
    client.execute(cwd=str(tmp_path))
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
