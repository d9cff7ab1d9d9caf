"""The run store: no completed run is lost, whatever else happens."""

import json
import multiprocessing
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
import zipfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from genz_core.errors import MeasurementError, RidgelineError, UnknownName
from genz_core.types import Workload
from profilers.runs.store import Store
from profilers.schema import OPERATOR_COLUMNS, DeviceInfo, Measurement, PhaseTiming, table
from profilers.steps import MOST_STEPS, MeasuredStep, StepPoint

ROOT = Path(__file__).parents[3]


def measurement(rows: int = 3, model: str = "toy/llama") -> Measurement:
    operators = table(
        OPERATOR_COLUMNS,
        {
            "phase": ["decode"] * rows,
            "name": [f"layers.{at}.q_proj" for at in range(rows)],
            "kind": ["gemm"] * rows,
            "class": ["gemm"] * rows,
            "time_s": np.random.default_rng(0).random(rows).tolist(),
        },
    )
    return Measurement(
        source="live",
        operators=operators,
        phases={"decode": PhaseTiming("decode", (1e-3, 2e-3, 4e-3), "wall")},
        system=DeviceInfo(0, "Toy 1"),
        model=model,
        engine="hf",
        workload=Workload(2, 8, 4),
        facts={"torch": "2.13.0", "threads": 1},
        notes=("cut to 2 of 4 layers",),
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


def write_many(folder: str, count: int) -> None:
    store = Store(Path(folder))
    for number in range(count):
        store.save(measurement(model=f"{os.getpid()}-{number}"))


def test_a_run_comes_back_as_it_was_kept(store: Store):
    kept = measurement()
    loaded = store.load(store.save(kept, "first"))
    pd.testing.assert_frame_equal(loaded.operators, kept.operators, check_dtype=False)
    assert loaded.phases == dict(kept.phases)
    assert (loaded.system, loaded.facts, loaded.notes) == (kept.system, kept.facts, kept.notes)
    assert (loaded.workload.batch, loaded.workload.isl, loaded.workload.osl) == (2, 8, 4)


STEPS = (
    MeasuredStep(StepPoint("prefill", 2, 128), (1e-2, 3e-2, 2e-2)),
    MeasuredStep(StepPoint("decode", 4, 1024), (), out_of_memory=True),
    MeasuredStep(StepPoint("decode", 8, 1024), (), skipped=True),
)


def test_the_steps_of_a_sweep_come_back_as_they_were_kept(store: Store):
    identity = store.save(replace(measurement(), phases={}, workload=None, steps=STEPS))
    assert store.load(identity).steps == STEPS


def test_a_run_from_before_steps_were_kept_has_none(store: Store):
    identity = store.save(measurement())
    file = store.path(identity) / "run.json"
    document = json.loads(file.read_text())
    del document["steps"]
    file.write_text(json.dumps(document))
    assert store.load(identity).steps == ()
    assert store.load(identity).phases == measurement().phases


def test_runs_compare_step_by_step(store: Store):
    swept = replace(measurement(), phases={}, steps=STEPS)
    table = store.compare(store.save(swept), store.save(measurement())).set_index("phase")
    swept_s, other_s = table.loc["prefill 2 x 128"].drop("class")
    assert swept_s == 2e-2 and np.isnan(other_s)


@pytest.mark.parametrize(
    "damage",
    [
        {"point": {"phase": "lunch", "batch": 1, "length": 8}},
        {"point": {"phase": "decode", "batch": 0, "length": 8}},
        {"point": {"phase": "decode", "batch": 1.5, "length": 8}},
        {"point": {"phase": "decode", "batch": 10**400, "length": 8}},
        {"point": {"phase": "decode", "batch": 1}},
        {"point": "decode"},
        {"samples_s": [-1.0]},
        {"samples_s": [float("nan")]},
        {"samples_s": [10**400]},
        {"samples_s": None},
    ],
)
def test_steps_that_cannot_be_are_refused_in_a_sentence(store: Store, damage: dict):
    identity = store.save(replace(measurement(), steps=STEPS))
    file = store.path(identity) / "run.json"
    document = json.loads(file.read_text())
    document["steps"][0] |= damage
    file.write_text(json.dumps(document))
    with pytest.raises(MeasurementError, match="this run cannot be read") as refused:
        store.load(identity)
    assert len(str(refused.value)) < 200
    assert [run.id for run in Store(store.folder).runs()] == [identity]


def test_more_steps_than_a_sweep_has_are_refused(store: Store):
    identity = store.save(replace(measurement(), steps=STEPS))
    file = store.path(identity) / "run.json"
    document = json.loads(file.read_text())
    document["steps"] = document["steps"][:1] * (MOST_STEPS + 1)
    file.write_text(json.dumps(document))
    with pytest.raises(MeasurementError, match="4097 steps"):
        store.load(identity)


def test_the_list_tells_label_model_and_median_of_each_phase(store: Store):
    store.save(measurement(), "first")
    (run,) = store.runs()
    assert (run.label, run.model, run.system) == ("first", "toy/llama", "Toy 1")
    assert run.phases == {"decode": 2e-3}


def test_runs_are_found_by_the_start_of_their_id_and_by_tag(store: Store):
    first, second = store.save(measurement()), store.save(measurement())
    store.tag(first, "baseline", "h200", "")
    assert store.find(first[:10]).tags == ("baseline", "h200")
    assert [run.id for run in store.runs("baseline")] == [first]
    for nothing in ("", "no such run"):
        with pytest.raises(UnknownName):
            store.find(nothing)
    assert store.find(second).tags == ()


def test_deleting_removes_the_run_and_its_files(store: Store):
    identity = store.save(measurement())
    store.tag(identity, "gone")
    store.delete(identity)
    assert store.runs() == [] and not (store.folder / identity).exists()
    with pytest.raises(UnknownName):
        store.load(identity)
    assert Store(store.folder).runs() == []


def test_runs_stand_side_by_side(store: Store):
    one, two = store.save(measurement(3)), store.save(measurement(5))
    found = store.compare(one, two).set_index(["phase", "class"])
    assert found.loc[("decode", "all"), one[:8]] == 2e-3
    whole = measurement(5).operators["time_s"].sum()
    assert found.loc[("decode", "gemm"), two[:8]] == pytest.approx(whole / 3), "of one of 3 steps"
    assert found.loc[("decode", "host"), two[:8]] == 0, "nothing is left beside them"


def test_a_run_travels_as_one_file(store: Store, tmp_path: Path):
    with store.draft(measurement(), "with files") as folder:
        (folder / "report.md").write_text("# Report")
    identity = store.runs()[0].id
    store.tag(identity, "baseline", "h200")
    file = store.export(identity, tmp_path / "run.zip")
    other = Store(tmp_path / "elsewhere")
    assert other.take(file) == identity
    assert other.find(identity).tags == ("baseline", "h200")
    assert not (other.path(identity) / "tags.json").exists(), "tags live in the index alone"
    assert (other.path(identity) / "report.md").read_text() == "# Report"
    assert other.take(file.read_bytes()) == identity, "taking it twice keeps one"
    assert len(other.runs()) == 1


def test_half_a_file_is_refused_and_leaves_nothing(store: Store, tmp_path: Path):
    file = store.export(store.save(measurement(200)), tmp_path / "run.zip")
    other = Store(tmp_path / "elsewhere")
    for content in (file.read_bytes()[: file.stat().st_size // 2], b"", b"PK\x03\x04", b"x" * 99):
        with pytest.raises(MeasurementError):
            other.take(content)
    assert other.runs() == []
    assert [path.name for path in other.folder.iterdir()] == ["index.sqlite"]


def test_a_damaged_file_is_refused_or_read_as_it_was(store: Store, tmp_path: Path):
    """Either a damaged byte does not affect the run, or the whole file is refused."""
    kept = measurement(200)
    identity = store.save(kept)
    content = store.export(identity, tmp_path / "run.zip").read_bytes()
    other = Store(tmp_path / "elsewhere")
    refusals = []
    for at in range(50, 2000, 150):
        damaged = bytearray(content)
        damaged[at % len(damaged)] ^= 0xFF
        try:
            assert other.take(bytes(damaged)) == identity
        except RidgelineError as error:
            refusals.append(str(error))
            assert other.runs() == []
            continue
        pd.testing.assert_frame_equal(other.load(identity).operators, kept.operators)
        other.delete(identity)
    assert len(refusals) > 5 and not [refusal for refusal in refusals if "\n" in refusal]


def test_a_file_whose_names_lead_elsewhere_is_refused(store: Store, tmp_path: Path):
    file = store.export(store.save(measurement()), tmp_path / "run.zip")
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("../../evil", "x")
    with pytest.raises(MeasurementError, match="leads out"):
        Store(tmp_path / "elsewhere").take(file)
    assert not (tmp_path / "evil").exists()


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("run.json", b"0" * 50_000_000)
        archive.writestr("operators.parquet", b"0")
    with pytest.raises(MeasurementError, match="larger than any run"):
        Store(tmp_path / "runs").take(tmp_path / "bomb.zip")


def test_an_id_that_is_a_path_is_refused(store: Store, tmp_path: Path):
    document = {"version": 1, "id": "../" * 10 + "xx", "created": 0, "phases": {}}
    with zipfile.ZipFile(tmp_path / "run.zip", "w") as archive:
        archive.writestr("run.json", json.dumps(document))
        archive.writestr("operators.parquet", b"")
    with pytest.raises(MeasurementError):
        store.take(tmp_path / "run.zip")


# ------------------------------------------------------------------------------- accidents


@pytest.mark.slow
def test_processes_that_write_at_once_lose_no_run(tmp_path: Path):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_many, args=(str(tmp_path), 8)) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0]
    store = Store(tmp_path)
    assert len(store.runs()) == 16
    assert all(len(store.load(run.id).operators) == 3 for run in store.runs())


def test_a_process_killed_while_writing_loses_nothing_that_was_complete(tmp_path: Path):
    code = f"""
import sys; sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from profilers.runs.store import Store
from profilers.schema import OPERATOR_COLUMNS, Measurement, table
store = Store(Path({str(tmp_path)!r}))
while True:
    print(store.save(Measurement("live", table(OPERATOR_COLUMNS, {{}}, 0))), flush=True)
"""
    writer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    told = [writer.stdout.readline().strip() for _ in range(5)]
    time.sleep(0.02)
    writer.send_signal(signal.SIGKILL)
    told += [line.strip() for line in writer.stdout]
    writer.wait()
    there = {run.id for run in Store(tmp_path).runs()}
    assert {name for name in told if len(name) == 32} <= there
    assert all(Store(tmp_path).load(name) for name in there)


def test_a_whole_run_that_a_crash_kept_out_of_the_index_is_taken_in(store: Store):
    identity = store.save(measurement())
    (store.folder / "index.sqlite").unlink()
    assert [run.id for run in Store(store.folder).runs()] == [identity]


_KILLED = """
import os, signal, sys
from pathlib import Path
from profilers.runs.store import Store
with Store(Path(sys.argv[1])).scratch() as folder:
    (folder / "trace.json").write_text("{}")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_leaves_nothing_once_the_store_is_opened_again(store: Store):
    ended = subprocess.run([sys.executable, "-c", _KILLED, store.folder], cwd=ROOT, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert list(store.folder.glob(".draft-*")), "nobody could clean up"
    with store.scratch() as mine:
        assert Store(store.folder).runs() == []
        assert list(store.folder.glob(".draft-*")) == [mine], "what a living process writes stays"


def test_the_number_of_a_process_may_be_that_of_a_later_one():
    from profilers.runs import owner

    host, number, start = owner.mark().splitlines()
    assert not owner.ended(owner.mark()) and not owner.ended("") and not owner.ended("elsewhere\n1")
    if start:
        assert owner.ended(f"{host}\n{number}\n{int(start) - 1}\n")


def test_a_draft_that_a_crash_left_is_no_run(store: Store):
    draft = store.folder / ".draft-0"
    draft.mkdir()
    (draft / "run.json").write_text("{}")
    assert Store(store.folder).runs() == []
    os.utime(draft, (0, 0))
    Store(store.folder)
    assert not draft.exists(), "an old draft is swept away"


def test_a_run_that_fails_inside_its_block_is_not_kept(store: Store):
    with pytest.raises(RuntimeError, match="vanished"), store.draft(measurement()):
        raise RuntimeError("the GPU vanished")
    assert store.runs() == []
    assert [path.name for path in store.folder.iterdir()] == ["index.sqlite"]


def test_a_full_disk_is_a_sentence_and_keeps_what_was_there(store: Store):
    kept = store.save(measurement())
    large = measurement(200_000)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, limits[1]))
    try:
        with pytest.raises(MeasurementError, match="run store"):
            store.save(large)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    again = Store(store.folder)
    assert [run.id for run in again.runs()] == [kept]
    assert len(again.load(kept).operators) == 3
    assert sorted(path.name for path in store.folder.iterdir()) == sorted([kept, "index.sqlite"])


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(MeasurementError, match="run store"):
        Store(tmp_path / "file" / "runs")


OTHER_TABLES = "CREATE TABLE runs (id TEXT); CREATE TABLE tags (run TEXT, tag TEXT)"


def break_pages(index: Path) -> None:
    """Overwrite a database except for its first page."""
    index.write_bytes(index.read_bytes()[:4096] + b"\xff" * (index.stat().st_size - 4096))


@pytest.mark.parametrize(
    "damage",
    [
        lambda index: index.write_bytes(b"not a database" * 100),
        lambda index: index.write_bytes(index.read_bytes()[:5000]),
        break_pages,
        lambda index: (index.unlink(), sqlite3.connect(index).executescript(OTHER_TABLES)),
        lambda index: index.write_bytes(b""),
        lambda index: index.unlink(),
    ],
    ids=["text", "cut off", "broken pages", "other tables", "empty", "gone"],
)
def test_a_damaged_index_is_made_anew_from_the_runs(tmp_path: Path, damage):
    kept = Store(tmp_path).save(measurement())
    damage(tmp_path / "index.sqlite")
    store = Store(tmp_path)
    assert [run.id for run in store.runs()] == [kept]
    store.tag(kept, "again")
    assert Store(tmp_path).runs("again")


def test_the_tags_of_a_damaged_index_are_saved(tmp_path: Path):
    store = Store(tmp_path)
    kept = store.save(measurement())
    store.tag(kept, "baseline")
    with closing(sqlite3.connect(tmp_path / "index.sqlite")) as index, index:
        index.execute("ALTER TABLE runs DROP COLUMN engine")
    assert [run.tags for run in Store(tmp_path).runs()] == [("baseline",)]
    assert (tmp_path / "index.sqlite.damaged-1").is_file()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda folder: (folder / "run.json").write_text("{"), "run.json is damaged"),
        (lambda folder: (folder / "run.json").unlink(), "run.json cannot be read"),
        (lambda folder: (folder / "run.json").write_bytes(b"\xff\x00"), "run.json is damaged"),
        (lambda folder: folder.rename(folder.with_name("0" * 32)), "it holds the run"),
    ],
)
def test_a_damaged_run_is_named_and_harms_no_other(tmp_path: Path, damage, reason):
    store = Store(tmp_path)
    broken, whole = store.save(measurement()), store.save(measurement())
    damage(tmp_path / broken)
    (tmp_path / "index.sqlite").unlink()
    store = Store(tmp_path)
    assert [run.id for run in store.runs()] == [whole]
    (sentence,) = store.left_out()
    assert reason in sentence


def test_a_run_without_its_operators_is_named_when_it_is_loaded(tmp_path: Path):
    store = Store(tmp_path)
    broken, whole = store.save(measurement()), store.save(measurement())
    (tmp_path / broken / "operators.parquet").write_bytes(b"PAR1")
    with pytest.raises(MeasurementError, match=f"run {broken[:8]} is damaged"):
        store.load(broken)
    assert len(store.load(whole).operators)
