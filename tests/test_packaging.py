"""What an installation contains, and what the README promises about it."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
import zipfile
from importlib.metadata import distributions, entry_points
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PACKAGES = {"app", "genz_core", "hardware_db", "model_registry", "profilers"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
README = (ROOT / "README.md").read_text(encoding="utf-8")


COMMAND = Path(sys.executable).with_name("ridgeline")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(
        next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("wheel"))))
    )


@pytest.fixture(scope="module")
def wheel_names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_the_wheel_ships_the_six_packages_and_no_tests(wheel_names: set[str]):
    assert {name.partition("/")[0] for name in wheel_names} == PACKAGES | {"ridgeline"}


def test_the_wheel_ships_every_source_and_data_file_of_the_packages(wheel_names: set[str]):
    suffixes = {".py", ".yaml", ".yml", ".json", ".csv", ".toml", ".parquet"}
    here = {
        path.relative_to(ROOT).as_posix().removeprefix("app/python/")
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix in suffixes
    }
    assert here and here <= wheel_names


def test_a_wheel_installed_elsewhere_prices_in_python_and_on_the_command_line(
    wheel: Path, tmp_path: Path
):
    """Unpacked beside no checkout: what is imported comes from there and from nowhere else."""
    place = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    own = {**os.environ, "PYTHONPATH": str(place), "HOME": str(tmp_path)}
    code = """
import json, sys
import app, genz_core, hardware_db, model_registry, profilers, ridgeline
for package in (app, genz_core, hardware_db, model_registry, profilers, ridgeline):
    assert package.__file__.startswith(sys.argv[1]), package.__file__
answer = ridgeline.estimate("meta-llama/Llama-3.1-8B", system="h100", engine="vllm")
print(json.dumps([answer.ttft_s, len(ridgeline.models()), len(ridgeline.systems())]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(place)],
        cwd=tmp_path, env=own, capture_output=True, text=True, check=True,
    )  # fmt: skip
    ttft_s, models, systems = json.loads(done.stdout)
    assert models >= 288 and systems >= 154
    start = "import sys; sys.argv[0] = 'ridgeline'; import ridgeline; ridgeline.main()"
    asked = ["estimate", "meta-llama/Llama-3.1-8B", "--system", "h100", "--engine", "vllm"]
    told = subprocess.run(
        [sys.executable, "-c", start, *asked, "--json"],
        cwd=tmp_path, env=own, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(told.stdout)["ttft_s"] == ttft_s


@pytest.mark.parametrize("package", ["app", "profilers"])
def test_a_foreign_package_of_one_of_our_names_is_one_sentence(package: str, tmp_path: Path):
    foreign = tmp_path / package / "__init__.py"
    foreign.parent.mkdir()
    foreign.write_text("raise SystemExit('somebody else')\n")
    own = {**os.environ, "PYTHONPATH": "."}
    commands = {
        "command": [str(COMMAND), "--help"],
        "module": [sys.executable, "-c", "import ridgeline"],
    }
    for way, command in commands.items():
        done = subprocess.run(
            command, cwd=tmp_path, env=own, capture_output=True, text=True, check=False
        )
        *before, sentence = done.stderr.strip().splitlines()
        assert f"the package {package!r} that Python finds first is not Ridgeline's" in sentence
        assert str(foreign) in sentence and "PYTHONPATH" in sentence
        assert done.returncode == (2 if way == "command" else 1) and not done.stdout
        assert bool(before) == (way == "module")  # an ImportError has its traceback


def test_the_source_archive_builds(tmp_path: Path):
    built = Path(next(SdistBuilder(str(ROOT)).build(directory=str(tmp_path))))
    assert built.name == f"ridgeline-{PROJECT['version']}.tar.gz"


def test_the_installed_command_is_the_function_that_the_project_names():
    (command,) = entry_points(group="console_scripts", name="ridgeline")
    assert command.value == PROJECT["scripts"]["ridgeline"]
    assert callable(command.load())


def health(port: int) -> bytes:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=2) as answer:
            return answer.read()
    except (urllib.error.URLError, OSError):
        return b""


def test_the_dashboard_opens_for_a_new_user_without_a_question(tmp_path: Path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    new_user = {**os.environ, "HOME": str(tmp_path), "BROWSER": "true"}
    start = "from app.cli import main; main()"
    command = [sys.executable, "-c", start, "app", "--port", str(port)]
    log = tmp_path / "log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            command, cwd=tmp_path, env=new_user, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    try:
        deadline = time.monotonic() + 60
        while not (answer := health(port)) and server.poll() is None:
            assert time.monotonic() < deadline, "no answer within a minute"
            time.sleep(0.2)
        assert answer == b"ok", log.read_text()
    finally:
        server.terminate()
        server.wait()


def test_every_direct_dependency_is_pinned_within_its_range():
    groups = (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    wanted = [Requirement(text) for group in groups for text in group]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    pinned = {pin.name.lower(): str(pin.specifier).removeprefix("==") for pin in pins}
    assert pinned["torch"] == "2.13.0"
    for requirement in wanted:
        assert requirement.specifier.contains(pinned[requirement.name.lower()]), requirement


def test_every_pinned_package_takes_the_first_release_of_the_oldest_python():
    """Debian 12 has Python 3.11.2, for which pip finds no pin that asks for 3.11.5."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    installed = {canonicalize_name(found.name): found for found in distributions()}
    oldest = PROJECT["requires-python"].partition(",")[0].removeprefix(">=") + ".0"
    read = 0
    for pin in pins:
        found = installed.get(canonicalize_name(pin.name))
        if found is None or not pin.specifier.contains(found.version):
            continue
        read += 1
        assert SpecifierSet(found.metadata.get("Requires-Python") or "").contains(oldest), pin
    assert read > len(pins) // 2


def test_the_readme_gives_two_commands_and_names_extras_that_exist():
    commands = re.findall(r"^python3 -m venv .*$", README, flags=re.MULTILINE)
    assert [line.rpartition("&& ")[2] for line in commands] == [
        ".venv/bin/ridgeline app",
        ".venv/bin/pytest",
    ]
    assert all("-c constraints.txt" in line for line in commands)
    (extras,) = re.findall(r"-e '\.\[(.*)\]'", commands[1])
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])


def test_the_pictures_and_pages_that_the_readme_links_exist():
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", README)
    assert targets
    assert not [target for target in targets if not (ROOT / target).exists()]


def test_the_container_serves_others_and_so_keeps_them_apart():
    (command,) = re.findall(r"^CMD (\[.*\])$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    words = json.loads(command)
    assert words[words.index("--host") + 1] == "0.0.0.0" and "--shared" in words
