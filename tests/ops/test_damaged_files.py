"""Every kind of user file with every kind of damage: named, skipped, and without effect on
others.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import hardware_db
from app.measuring import run_store
from app.question.question import Question
from app.scenario.scenario import estimate
from genz_core.engine import MeasuredRecipe, Recipe, RecipeKey
from genz_core.errors import RidgelineError
from hardware_db import recipes, user_files
from hardware_db.profiles import measured_profiles
from profilers.runs.store import Store
from tests.app.pages import ROOT, opened
from tests.hardware_db.system_documents import BOARD
from tests.profilers.runs.test_store import measurement

KEY = RecipeKey("vllm", 8030261248, "h100-sxm5-80gb", "bf16")
MINE = MeasuredRecipe(Recipe(0.5, 1.2, 3), {"memory_efficiency": 0.8}, "My model", own=True)


def a_system() -> Path:
    return user_files.write_system(BOARD)


def a_profile() -> Path:
    shipped = measured_profiles()[0]
    return user_files.write_profile(replace(shipped, name="mine"), "Of a test.")


def an_engine() -> Path:
    document = hardware_db.engine_facts("hf").model_dump(mode="json", exclude_none=True)
    return user_files.write_engine({**document, "id": "my-engine", "aliases": []})


def the_recipes() -> Path:
    return recipes.keep_recipe(KEY, MINE)


def cut(path: Path) -> None:
    text = path.read_bytes()
    path.write_bytes(text[: int(0.6 * len(text))])


def with_wrong_header(path: Path) -> None:
    _, rest = path.read_text(encoding="utf-8").split("\n", 1)
    path.write_text("what: [is, this\n" + rest, encoding="utf-8")


def with_wrong_types(path: Path) -> None:
    if path.suffix == ".csv":
        path.write_text(path.read_text(encoding="utf-8").replace("0.5", "half"), encoding="utf-8")
        return
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    wrong = {key: [1] if isinstance(value, str) else "x" for key, value in document.items()}
    path.write_text(yaml.safe_dump(wrong), encoding="utf-8")


def without_permission(path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads every file")
    path.chmod(0)


def a_folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_link_to_nowhere(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.with_name("nowhere"))


MAKERS = (a_system, a_profile, an_engine, the_recipes)
DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut off": cut,
    "empty": lambda path: path.write_bytes(b""),
    "binary": lambda path: path.write_bytes(bytes(range(256)) * 4),
    "wrong header": with_wrong_header,
    "wrong types": with_wrong_types,
    "no permission": without_permission,
}
ABSENT: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "folder": a_folder_instead,
    "link to nowhere": a_link_to_nowhere,
}

of_every_kind = pytest.mark.parametrize("make", MAKERS)
unannounced = pytest.mark.filterwarnings("ignore::hardware_db.LeftOutWarning")


def prices() -> list[float]:
    """Predictions for devices and engines that are unrelated to the user's files."""
    scenarios = Question(), Question(system="mi300x", engine="sglang"), Question(engine="llama.cpp")
    return [float(estimate(scenario).e2e_s[0]) for scenario in scenarios]


@pytest.mark.by_day(6)
@unannounced
@of_every_kind
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_and_nothing_else_changes(own_data: Path, make, damage: str):
    before = prices()
    path = make()
    DAMAGES[damage](path)
    (sentence,) = hardware_db.left_out()
    assert sentence.startswith(path.relative_to(own_data).as_posix()) and "\n" not in sentence
    assert str(own_data) not in sentence
    assert prices() == pytest.approx(before, rel=1e-12)


@of_every_kind
@pytest.mark.parametrize("damage", ABSENT)
def test_a_file_that_is_not_there_is_nothing_to_tell(own_data: Path, make, damage: str):
    before = prices()
    ABSENT[damage](make())
    assert hardware_db.left_out() == () and prices() == pytest.approx(before, rel=1e-12)


@unannounced
@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_asked_by_the_name_of_a_damaged_file_is_refused(own_data: Path, damage: str):
    DAMAGES[damage](a_system())
    DAMAGES[damage](an_engine())
    with pytest.raises(RidgelineError, match="my-card"):
        hardware_db.load("my-card")
    with pytest.raises(RidgelineError, match=r"my-engine\.yaml"):
        hardware_db.load_engine("my-engine")
    assert "my-card" not in hardware_db.names() and "my-engine" not in hardware_db.engine_names()


@pytest.mark.parametrize("make", MAKERS[1:])
def test_whoever_predicts_without_a_calibration_hears_of_it(own_data: Path, make):
    path = make()
    cut(path)
    with pytest.warns(hardware_db.LeftOutWarning, match=path.name):
        prices()


@pytest.mark.slow
def test_a_command_says_what_it_leaves_out_and_answers(own_data: Path):
    cut(the_recipes())
    command = [sys.executable, "-m", "app.cli", "estimate", "meta-llama/Llama-3.1-8B"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0 and "ttft" in done.stdout.casefold()
    (line,) = done.stderr.splitlines()
    assert line.startswith("ridgeline: warning: recipes.csv of the data folder is left out: it has")


@unannounced
def test_every_page_says_what_is_left_out(own_data: Path):
    for make in MAKERS:
        cut(make())
    app = opened("answer")
    assert not app.exception and not app.error
    named = [warning.value.partition(" of the data folder")[0] for warning in app.sidebar.warning]
    assert named == [
        "systems/my-card.yaml", "engines/my-engine.yaml", "profiles/mine.yaml", "recipes.csv",
    ]  # fmt: skip


# ------------------------------------------------------------------------------- kept runs


def a_run() -> Path:
    store = run_store.store()
    return store.path(store.save(measurement()))


@pytest.mark.by_day(1)
@pytest.mark.parametrize("damage", [*list(DAMAGES)[:3], "missing"])
@pytest.mark.parametrize("file", ["run.json", "operators.parquet", "../index.sqlite"])
def test_pages_and_commands_open_beside_damaged_runs(
    own_data: Path, printed: Callable[..., str], file: str, damage: str
):
    whole, broken = a_run(), a_run()
    ({**DAMAGES, **ABSENT})[damage](broken / file)
    assert whole.name[:8] in printed("runs", "list")
    for page in ("run", "measured"):
        app = opened(page)
        assert not app.exception
    assert run_store.store().load(whole.name).model == "toy/llama"


def test_a_run_that_no_index_knows_and_nobody_can_read_is_said_on_the_page(own_data: Path):
    broken = a_run()
    cut(broken / "run.json")
    (own_data / "runs" / "index.sqlite").unlink()
    app = opened("run")
    assert not app.exception
    assert app.warning[-1].value.startswith(f"the run in runs/{broken.name} is left out: run.json")


# ------------------------------------------------------------------------------- two servers


def keep_recipes(folder: str, start: int) -> None:
    os.environ["RIDGELINE_DATA"] = folder
    for number in range(start, start + 10):
        recipes.keep_recipe(replace(KEY, parameters=number), MINE)


def keep_runs(folder: str, start: int) -> None:
    for number in range(start, start + 5):
        Store(Path(folder) / "runs").save(measurement(model=str(number)))


def keep_both(folder: str, start: int) -> None:
    keep_recipes(folder, start)
    keep_runs(folder, start)


def two_servers(folder: Path, work: Callable[[str, int], None]) -> None:
    """Two processes that do the same at the same time, both successfully."""
    context = multiprocessing.get_context("spawn")
    servers = [context.Process(target=work, args=(str(folder), 100 * at)) for at in (1, 2)]
    for server in servers:
        server.start()
    for server in servers:
        server.join(120)
    assert [server.exitcode for server in servers] == [0, 0]


@pytest.mark.slow
def test_two_servers_on_a_folder_lose_nothing(own_data: Path):
    two_servers(own_data, keep_both)
    (kept,) = recipes.own_recipes().records.values()
    assert len(kept) == 20
    assert len(run_store.store().runs()) == 10


@pytest.mark.slow
def test_two_servers_that_find_a_damaged_index_make_one(own_data: Path):
    kept = a_run().name
    (own_data / "runs" / "index.sqlite").write_bytes(b"not a database" * 100)
    two_servers(own_data, keep_runs)
    runs = {run.id for run in run_store.store().runs()}
    assert kept in runs and len(runs) == 11
