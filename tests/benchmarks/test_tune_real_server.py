"""The search against llama.cpp's own server, where it is installed and the machine is quiet."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from profilers.collect.clock import OVERLOADED, contention
from tests.benchmarks import llama_server, tune_real_server


@pytest.mark.benchmark
@pytest.mark.skipif(
    shutil.which(llama_server.PROGRAM) is None, reason="needs llama-server of llama.cpp"
)
def test_a_search_finds_the_best_of_all_settings_of_a_real_server(tmp_path: Path, monkeypatch):
    if contention(1) > OVERLOADED:
        pytest.skip("other programs hold the cores")
    monkeypatch.setenv("RIDGELINE_DATA", "")
    found = tune_real_server.main(["--folder", str(tmp_path)])
    assert len(found.search.records) <= tune_real_server.RUNS
    assert found.chosen >= 1.0 - tune_real_server.WITHIN
