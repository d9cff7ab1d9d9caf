"""The page of environment variables lists exactly those that the packages read or set."""

import re
import sys
from pathlib import Path

import pytest

from genz_core.common.cache_folder import cache_folder
from hardware_db.data_folder import users_folder

ROOT = Path(__file__).parents[1]
PACKAGES = ("app", "genz_core", "hardware_db", "model_registry", "profilers")
READ = re.compile(
    r'os\.environ(?:\.get\(|\.setdefault\(|\[)\s*"(\w+)"|envvar="(\w+)"|"(RIDGELINE_[A-Z_]+)"'
)


def test_every_variable_that_is_read_is_on_the_page_and_no_other():
    sources = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    found = (READ.findall(file.read_text(encoding="utf-8")) for file in sources)
    read = {name for file in found for names in file for name in names if name}
    page = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    assert read == set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))


def test_every_variable_of_the_image_and_of_the_examples_is_on_the_page():
    page = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    for file in (ROOT / "Dockerfile", *(ROOT / "docs" / "examples").iterdir()):
        for name in re.findall(r"RIDGELINE_[A-Z_]+", file.read_text(encoding="utf-8")):
            assert f"`{name}`" in page, (file, name)


@pytest.mark.skipif(sys.platform != "linux", reason="the folders of Linux")
def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch):
    for name in ("RIDGELINE_DATA", "RIDGELINE_CACHE", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, "")
    assert users_folder() == Path.home() / ".local" / "share" / "ridgeline"
    assert cache_folder() == Path.home() / ".cache" / "ridgeline"
