"""Imports run one way: no cycle among the modules, and none among the packages."""

import ast
from collections.abc import Callable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.rules import for_every

ROOT = Path(__file__).parents[2]
PACKAGE = "model_registry"


def module_files(package: str) -> dict[str, Path]:
    """Files of a package by the dotted name of their module."""
    files = {}
    for path in (ROOT / package).rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


def imported(path: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    """Modules of the package that a file imports anywhere, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in modules or node.module in modules:
                    yield inner if inner in modules else node.module


def package(module: str) -> str:
    return ".".join(module.split(".")[:2])


def dependencies(package: str, level: Callable[[str], str]) -> dict[str, set[str]]:
    """{module or package: those that it imports}."""
    files = module_files(package)
    graph: dict[str, set[str]] = {level(module): set() for module in files}
    for module, path in files.items():
        graph[level(module)] |= {level(other) for other in imported(path, files)} - {level(module)}
    return graph


@pytest.mark.parametrize("level", [str, package], ids=["modules", "packages"])
def test_imports_make_no_cycle(level: Callable[[str], str]) -> None:
    graph = dependencies(PACKAGE, level)
    assert len(graph) > 8 and any(graph.values())
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a cycle of imports: {' -> '.join(error.args[1])}")


def test_a_cycle_would_be_found() -> None:
    graph = dependencies(PACKAGE, package)
    graph[f"{PACKAGE}.spec"].add(f"{PACKAGE}.reports")
    with pytest.raises(CycleError):
        TopologicalSorter(graph).prepare()


@for_every(sorted(module_files(PACKAGE)))
def test_a_file_can_be_held_in_the_head(module: str) -> None:
    assert len(module_files(PACKAGE)[module].read_text(encoding="utf-8").splitlines()) <= 450
