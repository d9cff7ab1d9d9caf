"""What an installation contains, compared with the README."""

import ast
import importlib
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
import venv
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


def test_the_wheel_ships_one_package_and_no_tests(wheel_names: set[str]):
    assert {name.partition("/")[0] for name in wheel_names} == {"ridgeline"}
    inside = {name.split("/")[1] for name in wheel_names if name.count("/") > 1}
    assert inside == PACKAGES
    assert "ridgeline/py.typed" in wheel_names


def test_the_wheel_ships_every_source_and_data_file_of_the_packages(wheel_names: set[str]):
    suffixes = {".py", ".yaml", ".yml", ".json", ".csv", ".toml", ".parquet"}
    here = {
        f"ridgeline/{path.relative_to(ROOT).as_posix()}".replace("ridgeline/app/python/", "")
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix in suffixes
    }
    assert here and here - {"build_hook.py"} <= wheel_names


def test_every_import_of_the_wheel_names_what_lies_inside_it(wheel: Path):
    read = 0
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if not name.endswith((".py", ".pyi")):
                continue
            for node in ast.walk(ast.parse(archive.read(name))):
                imported = []
                if isinstance(node, ast.Import):
                    imported = [one.name for one in node.names]
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    imported = [node.module or ""]
                read += len(imported)
                short = [one for one in imported if one.partition(".")[0] in PACKAGES]
                assert not short, f"{name}:{node.lineno} imports {short}"
    assert read > 2000


#: Packages of other projects with the same names as ours.
BESIDE = """
import multiprocessing, sys, tempfile, time
from pathlib import Path
import app, hardware_db, profilers, tests
import ridgeline
from ridgeline.app.jobs import MEASURING, Queue
from ridgeline.app.measuring.run_store import execute
from ridgeline.genz_core.systems import System
from ridgeline.profilers.runs.run_config import compose

if __name__ == "__main__":
    for package in (app, hardware_db, profilers, tests):
        assert package.whose == "another project's", package
    answer = ridgeline.estimate("meta-llama/Llama-3.1-8B", system="h100", engine="vllm")
    assert isinstance(ridgeline.system("h100"), System)
    with multiprocessing.get_context("spawn").Pool(1) as pool:  # by the names of both
        (elsewhere,) = pool.starmap(ridgeline.hardware_db.load, [("h100",)])
    assert elsewhere == ridgeline.system("h100")
    asked = compose(["model.name=nobody/nothing"])
    job = Queue(Path(tempfile.mkdtemp())).submit(execute, asked, "a run", MEASURING)
    while not job.over:
        time.sleep(0.05)
        job.poll()
    assert "nobody/nothing" in job.error, job.error
    modules = [name for name in sys.modules if name.partition(".")[0] == "genz_core"]
    assert not modules, modules
    print(answer.ttft_s, len(ridgeline.models()), len(ridgeline.systems()))
"""
FIRST_PAGE = """
import sys
from pathlib import Path
from streamlit.testing.v1 import AppTest
import app, ridgeline.app
assert app.whose == "another project's"
main = Path(ridgeline.app.__file__).with_name("main.py")
page = AppTest.from_file(str(main), default_timeout=300)
page.run()
assert not page.exception, page.exception
print(page.metric[0].label)
"""


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with packages that have the names of ours."""
    project = tmp_path_factory.mktemp("project")
    for name in ("app", "hardware_db", "profilers", "tests"):
        (project / name).mkdir()
        (project / name / "__init__.py").write_text('whose = "another project\'s"\n')
    (project / "beside.py").write_text(BESIDE)
    (project / "first_page.py").write_text(FIRST_PAGE)
    return project


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of a fresh environment with the wheel and its dependencies."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    commands = folder / ("Scripts" if os.name == "nt" else "bin")
    subprocess.run(
        [commands / "python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel],
        check=True, cwd=folder,
    )  # fmt: skip
    own = subprocess.run(
        [commands / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    needed = [path for path in sys.path if Path(path, "numpy").is_dir()]
    Path(own.stdout.strip(), "needed.pth").write_text("\n".join(needed))
    return commands


def said(command: list[object], folder: Path, **environment: str) -> str:
    """The output of a program, started in a folder without our packages on PYTHONPATH."""
    own = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env={**own, **environment},
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return done.stdout


def test_the_wheel_answers_beside_packages_that_have_the_names_of_ours(
    installed: Path, foreign: Path
):
    """In Python, in another process, and on the command line: the same figure."""
    printed = said([installed / "python", "beside.py"], foreign)
    ttft_s, models, systems = (float(word) for word in printed.split())
    assert models >= 288 and systems >= 154
    asked = ["estimate", "meta-llama/Llama-3.1-8B", "--system", "h100", "--engine", "vllm"]
    for command in ([installed / "ridgeline"], [installed / "python", "-m", "ridgeline"]):
        told = said([*command, *asked, "--json"], foreign, PYTHONPATH=".")
        assert json.loads(told)["ttft_s"] == ttft_s


@pytest.mark.slow
def test_the_wheel_draws_the_first_page_beside_packages_that_have_the_names_of_ours(
    installed: Path, foreign: Path
):
    assert said([installed / "python", "first_page.py"], foreign).strip()


@pytest.mark.slow
def test_the_dashboard_of_the_wheel_serves_beside_packages_that_have_the_names_of_ours(
    installed: Path, foreign: Path
):
    command = [str(installed / "ridgeline"), "app", "--no-browser"]
    assert b"<title>" in first_answer(command, foreign, {**os.environ, "PYTHONPATH": "."})


@pytest.mark.slow
def test_a_checkout_answers_beside_packages_that_have_the_names_of_ours(foreign: Path):
    paths = os.pathsep.join([str(ROOT / "app" / "python"), str(ROOT)])
    printed = said([sys.executable, "beside.py"], foreign, PYTHONPATH=paths)
    assert float(printed.split()[0]) > 0
    said([COMMAND, "systems", "h100", "--json"], foreign, PYTHONPATH=".")


def test_no_module_of_ours_is_imported_by_a_name_in_a_string():
    """The wheel renames import statements, not strings: `__name__` names a neighbour."""
    ours = "|".join(PACKAGES)
    written = re.compile(rf"""import_module\(\s*f?["']({ours})\\.""")
    sources = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    assert len(sources) > 900
    assert [str(path) for path in sources if written.search(path.read_text("utf-8"))] == []


def test_in_a_checkout_both_names_of_a_module_are_one_module():
    import ridgeline.genz_core.types as inside

    import genz_core.types as at_the_top

    assert inside is at_the_top and inside.__spec__.name == "genz_core.types"
    with pytest.raises(ModuleNotFoundError, match=r"ridgeline\.genz_core\.nowhere"):
        importlib.import_module("ridgeline.genz_core.nowhere")


def test_the_source_archive_builds(tmp_path: Path):
    built = Path(next(SdistBuilder(str(ROOT)).build(directory=str(tmp_path))))
    assert built.name == f"ridgeline-{PROJECT['version']}.tar.gz"


def test_the_installed_command_is_the_function_that_the_project_names():
    (command,) = entry_points(group="console_scripts", name="ridgeline")
    assert command.value == PROJECT["scripts"]["ridgeline"]
    assert callable(command.load())


def answer_of(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.read()
    except (urllib.error.URLError, OSError):
        return b""


def first_answer(command: list[str], folder: Path, environment: dict[str, str]) -> bytes:
    """The first page of a dashboard, from the start of its command until it is healthy."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = folder / "log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            [*command, "--port", str(port)], cwd=folder, env=environment,
            stdin=subprocess.DEVNULL, stdout=out, stderr=out,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        health = f"http://127.0.0.1:{port}/_stcore/health"
        while not (answer := answer_of(health)) and server.poll() is None:
            assert time.monotonic() < deadline, "no answer within a minute"
            time.sleep(0.2)
        assert answer == b"ok", log.read_text()
        return answer_of(f"http://127.0.0.1:{port}/")
    finally:
        server.terminate()
        server.wait()


def test_the_dashboard_opens_for_a_new_user_without_a_question(tmp_path: Path):
    new_user = {**os.environ, "HOME": str(tmp_path), "BROWSER": "true"}
    start = "from app.cli import main; main()"
    command = [sys.executable, "-c", start, "app"]
    assert b"<title>" in first_answer(command, tmp_path, new_user)


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
    """Debian 12 has Python 3.11.2, for which pip finds no pinned package that requires 3.11.5."""
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


def test_the_page_of_supported_versions_names_those_of_the_project():
    page = (ROOT / "docs" / "supported.md").read_text(encoding="utf-8")
    low, high = re.findall(r"Python (3\.\d+) to (3\.\d+) is required", page)[0]
    allowed = [f"3.{minor}" for minor in range(int(low[2:]), int(high[2:]) + 1)]
    required = SpecifierSet(PROJECT["requires-python"])
    assert [f"3.{minor}" for minor in range(30) if required.contains(f"3.{minor}.1")] == allowed
    stated = [line.rpartition(" :: ")[2] for line in PROJECT["classifiers"]]
    tried = re.findall(r"3\.\d+", page.partition("is required")[2].partition("were tried")[0])
    assert tried == [version for version in allowed if version in stated]
    assert f"(tried: {', '.join(tried[:-1])} and {tried[-1]})" in " ".join(README.split())


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
