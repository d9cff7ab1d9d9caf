"""Rules of the architecture that no single file shows."""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("app", "genz_core", "hardware_db", "model_registry", "profilers")
SOURCES = tuple(sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py")))
HEAVY = {"torch", "transformers", "nvtx", "pynvml"}
HEAVY_PACKAGES = ("profilers/collect", "model_registry/tracing", "model_registry/modules")

ENGINE = tuple(path for path in SOURCES if path.is_relative_to(ROOT / "genz_core"))


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def that_mention(pattern: str) -> list[Path]:
    """The source files in whose text the pattern occurs; the others need not be parsed."""
    return [path for path in SOURCES if re.search(pattern, path.read_text(encoding="utf-8"))]


def imported_roots(node: ast.AST) -> set[str]:
    match node:
        case ast.Import(names=names):
            return {alias.name.partition(".")[0] for alias in names}
        case ast.ImportFrom(module=str(module), level=0):
            return {module.partition(".")[0]}
    return set()


def walk_outside(tree: ast.AST, inside: Callable[[ast.AST], bool]) -> Iterator[ast.AST]:
    """The nodes of a tree, except those for which `inside` holds and everything below them."""
    waiting = [tree]
    while waiting:
        children = [node for node in ast.iter_child_nodes(waiting.pop()) if not inside(node)]
        yield from children
        waiting += children


def runs_on_call(node: ast.AST) -> bool:
    """Whether `node` is a function, whose body does not run when the module is imported."""
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


def modules_after(statement: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after `statement`."""
    code = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_every_package_is_looked_at():
    assert {path.relative_to(ROOT).parts[0] for path in SOURCES} == set(PACKAGES)


def runs_a_program(node: ast.AST) -> bool:
    """Whether `node` is a function called main, or the block after `if __name__ == "__main__"`."""
    match node:
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return ast.unparse(node.test) == "__name__ == '__main__'"
    return isinstance(node, ast.FunctionDef) and node.name == "main"


def test_only_the_main_part_of_a_program_prints():
    prints = [
        f"{named(path)}:{node.lineno}"
        for path in that_mention(r"\bprint\b")
        for node in walk_outside(parse(path), runs_a_program)
        if isinstance(node, ast.Call)
        if isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert not prints


def test_a_file_is_named_after_what_it_holds():
    vague = {"utils", "util", "helper", "helpers", "common", "misc", "manager"}
    assert not [named(path) for path in SOURCES if path.stem in vague]


def test_heavy_libraries_are_imported_in_their_packages_and_inside_functions():
    at_import, elsewhere = [], []
    for path in that_mention("|".join(HEAVY)):
        tree = parse(path)
        if HEAVY & set().union(*map(imported_roots, walk_outside(tree, runs_on_call))):
            at_import.append(named(path))
        heavy = HEAVY & set().union(*map(imported_roots, ast.walk(tree)))
        if heavy and not named(path).startswith(HEAVY_PACKAGES):
            elsewhere.append(named(path))
    assert not at_import
    assert not elsewhere


def test_the_engine_keeps_no_mutable_state_in_its_modules():
    mutable = ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp
    found = [
        f"{named(path)}: {ast.unparse(node).partition(chr(10))[0]}"
        for path in ENGINE
        for node in parse(path).body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, mutable)
        if not re.search(r"__all__|: Mapping\[", ast.unparse(node))
    ]
    assert not found, "make a constant table a tuple, or annotate it as a Mapping"


def test_the_engine_names_si_units_only():
    scaled = re.compile(r"[a-z0-9]_(ms|us|ns|[kmgt]i?b|gbps|[gt]flops|[mg]hz)$", re.IGNORECASE)
    names = {
        f"{named(path)}: {name}"
        for path in ENGINE
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
