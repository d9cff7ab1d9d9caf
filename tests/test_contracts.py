"""The rules of the architecture that a reader of one file cannot see."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("app", "genz_core", "hardware_db", "model_registry", "profilers")
SOURCES = tuple(sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py")))
HEAVY = {"torch", "transformers", "nvtx", "pynvml"}
HEAVY_PACKAGES = ("profilers/collect", "model_registry/tracing", "model_registry/modules")

ENGINE = tuple(path for path in SOURCES if path.is_relative_to(ROOT / "genz_core"))


def for_each(paths: tuple[Path, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=lambda p: p.relative_to(ROOT).as_posix())


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imported_roots(node: ast.AST) -> set[str]:
    match node:
        case ast.Import(names=names):
            return {alias.name.partition(".")[0] for alias in names}
        case ast.ImportFrom(module=str(module), level=0):
            return {module.partition(".")[0]}
    return set()


def run_on_import(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the module is imported: all but the bodies of functions."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            yield from run_on_import(node)


def modules_after(statement: str) -> set[str]:
    """The top-level modules that a fresh interpreter holds after `statement`."""
    code = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_every_package_is_looked_at():
    assert {path.relative_to(ROOT).parts[0] for path in SOURCES} == set(PACKAGES)


def runs_a_program(node: ast.AST) -> bool:
    """Whether `node` is a function called main, or what follows `if __name__ == "__main__"`."""
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "__name__ == '__main__'"
    return isinstance(node, ast.FunctionDef) and node.name == "main"


def outside_main(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if not runs_a_program(node):
            yield node
            yield from outside_main(node)


@for_each(SOURCES)
def test_only_the_main_part_of_a_program_prints(path: Path):
    calls = (node.func for node in outside_main(parse(path)) if isinstance(node, ast.Call))
    assert not [f"line {f.lineno}" for f in calls if isinstance(f, ast.Name) and f.id == "print"]


@for_each(SOURCES)
def test_a_file_is_named_after_what_it_holds(path: Path):
    assert path.stem not in {"utils", "util", "helper", "helpers", "common", "misc", "manager"}


@for_each(SOURCES)
def test_heavy_libraries_are_imported_in_their_packages_and_inside_functions(path: Path):
    tree, place = parse(path), path.relative_to(ROOT).as_posix()
    anywhere = set().union(*map(imported_roots, ast.walk(tree))) & HEAVY
    at_import = set().union(*map(imported_roots, run_on_import(tree))) & HEAVY
    assert not at_import
    assert not anywhere or place.startswith(HEAVY_PACKAGES)


@for_each(ENGINE)
def test_the_engine_keeps_no_mutable_state_in_its_modules(path: Path):
    mutable = ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp
    found = [
        ast.unparse(node).partition("\n")[0]
        for node in parse(path).body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, mutable)
        if not re.search(r"__all__|: Mapping\[", ast.unparse(node))
    ]
    assert not found, "make a constant table a tuple, or annotate it as a Mapping"


@for_each(ENGINE)
def test_the_engine_names_si_units_only(path: Path):
    scaled = re.compile(r"[a-z0-9]_(ms|us|ns|[kmgt]i?b|gbps|[gt]flops|[mg]hz)$", re.IGNORECASE)
    names = {
        name
        for node in ast.walk(parse(path))
        for name in (getattr(node, field, None) for field in ("id", "arg", "attr", "name"))
        if isinstance(name, str) and scaled.search(name)
    }
    assert not names


def test_the_engine_loads_nothing_but_numbers():
    foreign = {"yaml", "torch", "transformers", "requests", "pydantic", "streamlit", "plotly"}
    assert not modules_after("import genz_core") & (foreign | {"scipy", "pandas"})


@pytest.mark.parametrize("package", ["hardware_db", "model_registry", "profilers"])
def test_the_libraries_load_neither_screen_nor_torch(package: str):
    assert not modules_after(f"import {package}") & (HEAVY | {"streamlit", "plotly"})


def found_in(files: list[Path], pattern: re.Pattern[str]) -> list[str]:
    found = []
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):
            continue
        found += [f"{path.relative_to(ROOT)}: {m.group()}" for m in pattern.finditer(text)]
    return found


@pytest.fixture(scope="module")
def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=False
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name] or pytest.skip("no git here")


def test_no_tracked_file_names_a_package_registry_or_this_checkout(tracked: list[Path]):
    here = {str(ROOT), sys.prefix} - {sys.base_prefix}
    names = r"py" r"pi\.org|python" r"hosted\.org|npm" r"js\.(?:org|com)|\.\./sha" r"red\b"
    assert not found_in(tracked, re.compile("|".join([names, *map(re.escape, here)])))


def test_no_shipped_file_or_page_names_a_path_of_one_machine(tracked: list[Path]):
    paths = re.compile(r"(?:^|[\s\"'`(=:])(?:/(?:work|root|home(?!/ridgeline)|Users)/\w)")
    shipped = [path for path in tracked if not path.is_relative_to(ROOT / "tests")]
    assert not found_in(shipped, paths)
