"""Runs inside Nsight: the tool is started around the model, its report imported and stored."""

import gzip
import json
import os
import shlex
from pathlib import Path

import pandas as pd
import pytest

from app.measuring import run_store
from genz_core.common.progress import Cancelled
from genz_core.errors import InvalidValue
from profilers.runs.run_config import compose
from tests.app.pages import REPORTS


@pytest.fixture
def nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An nsys that writes its command line into a log and exports a real database."""
    database = tmp_path / "real.sqlite"
    database.write_bytes(gzip.decompress((REPORTS / "nsys" / "mock.sqlite.gz").read_bytes()))
    tools = tmp_path / "tools"
    tools.mkdir()
    tool = tools / "nsys"
    tool.write_text(
        f"""#!/bin/sh
case "$1" in
profile) echo "$*"; while [ "$1" != "-o" ]; do shift; done; : > "$2.nsys-rep";;
export) for part; do case "$part" in --output=*) cp {database} "${{part#--output=}}";; esac; done;;
esac
"""
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    return tool


def test_a_run_inside_nsys_keeps_the_report_its_kernels_and_the_logs(
    tiny: str, own_data: Path, nsys: Path
) -> None:
    config = compose([f"path={tiny}", "profile=nsys", "isl=16", "compile=true"])
    identity = run_store.execute(config)
    (run,) = run_store.store().runs()
    assert (run.id, run.source) == (identity, "nsys-sqlite")
    assert run.system == "NVIDIA GeForce RTX 3080"
    folder = run_store.store().path(run.id)
    assert len(pd.read_parquet(folder / "kernels.parquet")) == 2
    command = shlex.split((folder / "nsys" / "profile.log").read_text())
    assert {"--no-profile", "--no-keep", "--nvtx", "--compile"} <= set(command)
    assert command[command.index("--isl") + 1] == "16"
    assert not [argument for argument in command if argument.startswith("--capture")]
    commands = (folder / "cmd.txt").read_text()
    assert "-o nsys/run" in commands and ".draft" not in commands
    assert json.loads((folder / "static_compute.json").read_text())["operators"] == []
    summary = json.loads((folder / "metrics.json").read_text())["summary"]
    assert (summary["format"], summary["kernel_count"]) == ("nsys-sqlite", 2)
    assert summary["kernel_time_ns"] == sum(
        row["kernel_time_ns"] for row in summary["operator_classes"].values()
    )
    assert not list((own_data / "runs").glob(".draft*"))


def test_a_model_cut_to_layers_is_refused_inside_nsys(tiny: str, nsys: Path) -> None:
    with pytest.raises(InvalidValue, match=r"layers = 2: .* config\.json"):
        run_store.execute(compose([f"path={tiny}", "profile=nsys", "layers=2"]))


def test_a_cancelled_run_inside_nsys_ends_the_tool_and_keeps_nothing(
    tiny: str, own_data: Path, nsys: Path
) -> None:
    nsys.write_text("#!/bin/sh\nsleep 600\n")
    with pytest.raises(Cancelled):
        run_store.execute(compose([f"path={tiny}", "profile=nsys"]), cancelled=lambda: True)
    assert not run_store.store().runs() and not list((own_data / "runs").glob(".draft*"))
