"""A folder laid over the user's: read first, the only one written, and removed after the block."""

from __future__ import annotations

from pathlib import Path

import pytest

import hardware_db
from genz_core.engine import MeasuredRecipe, Recipe, RecipeKey
from hardware_db import recipes, user_files
from hardware_db.data_folder import edition, overlay

KEY = RecipeKey("vllm", 8_000_000_000, "h100-sxm5-80gb", "bf16")


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path / "user"))
    return tmp_path / "user"


@pytest.fixture
def visitors(tmp_path: Path) -> Path:
    return tmp_path / "visitor"


def system(name: str, called: str) -> dict[str, str]:
    return {"include": "h100-sxm5-80gb", "id": name, "name": called}


def measured(ttft_scale: float) -> MeasuredRecipe:
    scales = Recipe(tpot_scale=1.0, ttft_scale=ttft_scale, points=3)
    return MeasuredRecipe(scales, {}, "own", own=True)


def test_a_system_written_under_the_overlay_is_seen_there_alone(users: Path, visitors: Path):
    user_files.write_system(system("shared", "Shared"))
    with overlay(visitors):
        user_files.write_system(system("private", "Private"))
        assert {"shared", "private"} <= set(hardware_db.names())
    assert "private" not in hardware_db.names()
    assert [path.name for path in (users / "systems").iterdir()] == ["shared.yaml"]


def test_a_file_of_the_overlay_stands_in_for_the_users_of_that_name(users: Path, visitors: Path):
    user_files.write_system(system("mine", "Mine"))
    with overlay(visitors):
        user_files.write_system(system("mine", "Theirs"))
        assert hardware_db.load("mine").name == "Theirs"
    assert hardware_db.load("mine").name == "Mine"


def test_recipes_of_the_user_hold_until_the_overlay_has_one(users: Path, visitors: Path):
    recipes.keep_recipe(KEY, measured(1.5))
    with overlay(visitors):
        assert recipes.load_recipe(KEY).scales.ttft_scale == 1.5
        recipes.keep_recipe(KEY, measured(2.5))
        assert recipes.load_recipe(KEY).scales.ttft_scale == 2.5
        assert recipes.forget_recipe(KEY)
        assert recipes.load_recipe(KEY).scales.ttft_scale == 1.5
        assert not recipes.forget_recipe(KEY)
    assert recipes.load_recipe(KEY).scales.ttft_scale == 1.5


def test_the_edition_of_a_folder_changes_with_its_files(users: Path, visitors: Path):
    assert edition(visitors) == ""
    with overlay(visitors):
        user_files.write_system(system("mine", "Mine"))
        first = edition(visitors)
        recipes.keep_recipe(KEY, measured(2.0))
    assert first and edition(visitors) not in ("", first) and edition(users) == ""
