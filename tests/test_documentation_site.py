"""The documentation: the site builds, contacts no host, and its commands exist."""

import html
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer

from app.answers.columns import COLUMNS
from app.answers.figures import NUMBERS
from app.cli import cli
from app.question.parameters import PARAMETERS
from app.question.verbs import VERBS, parameters_of
from genz_core.common.file_lock import locked
from tests.rules import for_every

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
REFERENCE = ("parameters", "columns", "commands", "python", "points-file", "run-files", "rest",
             "system-yaml", "engine-yaml")  # fmt: skip
#: PYTHONPATH for a program to run from this tree.
PACKAGES = os.pathsep.join([str(ROOT), str(ROOT / "app" / "python")])
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(document: Path, *, that_run: bool = False) -> Iterator[str]:
    """Commands of the shell blocks; that_run: without those excluded by a comment."""
    text = document.read_text(encoding="utf-8")
    for found in re.finditer(r"(<!-- not run: .+ -->\n\s*)?```bash\n(.*?)```", text, re.DOTALL):
        if not (that_run and found[1]):
            yield re.sub(r"\s*\\\n\s*", " ", found[2])


def lines(document: Path) -> Iterator[list[str]]:
    """Words of each command `ridgeline` in the shell blocks, in indented ones and in sentences."""
    text = document.read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]
    indented = re.findall(r"^    (ridgeline (?:.*\\\n)*.*)$", prose, re.MULTILINE)
    for block in (*blocks(document), *spans, *indented):
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            for command in re.split(r"&&|\|(?!\|)", line):
                try:
                    words = shlex.split(command, comments=True)
                except ValueError:  # a quotation of several lines
                    continue
                if words and Path(words[0]).name == "ridgeline":
                    yield words[1:]


@cache
def program() -> Any:
    return typer.main.get_command(cli)


def problem(words: list[str]) -> str:
    """The error of a command's names and options, "" if there is none."""
    command = program()
    rest = list(words)
    while getattr(command, "commands", None) and rest and not rest[0].startswith("-"):
        inner = command.commands.get(rest[0])
        if inner is None:  # `measure MODEL` is short for `measure run MODEL`
            inner = command.commands.get("run")
            return "" if inner else f"no command {rest[0]}"
        command, rest = inner, rest[1:]
    if command.context_settings.get("ignore_unknown_options"):  # it passes them on
        return ""
    known = {name for p in command.params for name in (*p.opts, *p.secondary_opts)} | {"--help"}
    given = {word.partition("=")[0] for word in rest if re.match(r"--[a-z]", word)}
    arguments = {p.name for p in command.params if p.param_type_name == "argument"}
    placed = [word for before, word in zip(["", *rest], rest, strict=False)
              if word == "MODEL" and not before.startswith("-")]  # fmt: skip
    strange = [f"{word} without an option" for word in placed if "model" not in arguments]
    return ", ".join([*sorted(given - known), *strange])


@for_every(DOCUMENTS)
def test_every_command_of_a_document_has_the_options_that_it_is_given(document: Path):
    wrong = {shlex.join(words): problem(words) for words in lines(document)}
    assert not {line: what for line, what in wrong.items() if what}


@for_every(DOCUMENTS)
def test_every_link_of_a_document_leads_to_a_file(document: Path):
    made = (
        "how-to/add-a-gpu.md",
        "how-to/contribute.md",
        "latency-models.md",
        *(f"reference/{page}.md" for page in REFERENCE),
    )
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" in target or any(target.endswith(page) for page in made):
            continue
        assert (document.parent / target).exists(), target


@pytest.mark.slow
@pytest.mark.parametrize("tutorial", TUTORIALS, ids=name)
def test_the_commands_of_a_tutorial_run(
    tutorial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path / "data"))
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "samples").symlink_to(ROOT / "app" / "samples")
    program = f"{shlex.quote(sys.executable)} -m app.cli"
    monkeypatch.setenv("PYTHONPATH", PACKAGES)
    for block in blocks(tutorial, that_run=True):
        script = re.sub(r"^ridgeline ", program + " ", block, flags=re.MULTILINE)
        done = subprocess.run(
            ["bash", "-euc", script],
            cwd=tmp_path,
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{block}\n{done.stderr}"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this tree, built once for all processes of a run."""
    if find_spec("material") is None:
        pytest.skip("the extra docs is not installed")
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # its parent is the run's
        folder = folder.parent
    target = folder / "site"
    with locked(folder / "site.lock"):
        if not target.exists():
            build(target)
    return target


def build(target: Path) -> None:
    """Build the site of this tree, whichever one is installed."""
    made = target.with_name("site.part")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(made)],
        cwd=ROOT, check=False, capture_output=True, text=True, timeout=600,
        env={**os.environ, "PYTHONPATH": PACKAGES, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    made.rename(target)


def test_the_site_builds_strictly_with_the_pages_that_are_made_of_the_program(site: Path):
    commands = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    assert "ridgeline calibrate runs FILES" in commands
    system = (site / "reference" / "system-yaml.html").read_text(encoding="utf-8")
    assert "peak_dense_tflops" in system and "TopologyForm" in system
    assert (site / "how-to" / "add-a-scheduler.html").exists()


def test_the_page_of_latency_models_has_every_class_with_its_formula_constants_and_source(
    site: Path,
):
    text = (site / "latency-models.html").read_text(encoding="utf-8")
    for kind in (
        "Gemm",
        "PrefillAttention",
        "DecodeAttention",
        "Moe",
        "Scan",
        "Pointwise",
        "Collective",
    ):
        assert f"{kind}Parameters" in text
    for formula in ("t_compute = x BM BN", "t_exp = B H P", "p = D (1 - 1/C)", "communication_s ="):
        assert formula in text, formula
    for source in ("2307.08691", "2211.15841", "10.1145/1498765.1498785"):
        assert source in text
    assert "Args:" not in text and "::" not in text.partition("<article")[2]


def test_the_page_of_parameters_has_every_one_with_its_help_limits_and_verbs(site: Path):
    text = (site / "reference" / "parameters.html").read_text(encoding="utf-8")
    for name, one in PARAMETERS.items():
        (row,) = re.findall(rf"<tr>\s*<td><code>{name}</code></td>.*?</tr>", text, re.DOTALL)
        plain = html.unescape(re.sub("<[^>]+>", "", row))
        assert one.help.split("`")[0].strip() in plain
        assert all(alias in plain for alias in one.aliases)
        assert all(verb in plain for verb in VERBS if name in parameters_of(verb))
    assert "not compare, calibrate, guard, watch: it is read from the measurement" in text


def test_the_page_of_columns_has_every_result_column_with_its_unit_help_and_verbs(site: Path):
    text = (site / "reference" / "columns.html").read_text(encoding="utf-8")
    rows = dict(re.findall(r"<tr>\s*<td><code>(\w+)</code></td>(.*?)</tr>", text, re.DOTALL))
    assert {name for name in COLUMNS if name not in PARAMETERS or name in NUMBERS} <= set(rows)
    for name, row in rows.items():
        *shown, verbs = re.findall(r"<td>(.*?)</td>", row, re.DOTALL)
        one = COLUMNS[name]
        plain = [html.unescape(re.sub("<[^>]+>", "", cell)) for cell in shown]
        assert plain[:2] == [one.head, one.unit] and plain[3] == one.help, name
        assert verbs, name


def test_the_reference_of_programs_names_every_verb_and_tool(site: Path):
    pytest.importorskip("fastapi")
    pytest.importorskip("mcp")
    text = (site / "reference" / "rest.html").read_text(encoding="utf-8")
    for words in ("POST /estimate", "POST /plan", "GET /systems", "simulate", "concurrency"):
        assert words in text, words


def test_no_page_of_the_site_loads_anything_from_another_host(site: Path):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(
            r"<(?:script|img|iframe|source)[^>]+(?:src|srcset)=\"?(https?:[^\s\">]+)", text
        )
        loaded += re.findall(r"<link[^>]+rel=\"?stylesheet[^>]+href=\"?(https?:[^\s\">]+)", text)
        assert not loaded, page
    for sheet in site.rglob("*.css"):
        assert "url(http" not in sheet.read_text(encoding="utf-8")


def test_a_hint_to_install_an_extra_names_its_packages_and_this_python():
    from genz_core.common.installation import pip_install_extra

    words = shlex.split(pip_install_extra("hub"))
    assert words[:4] == [sys.executable, "-m", "pip", "install"]
    named = [word.replace("_", "-") for word in words[4:]]
    assert any("huggingface-hub" in word or word.endswith("[hub]") for word in named)
    assert shutil.which(words[0])
