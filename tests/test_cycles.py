"""No file of a package imports, even indirectly, a file that imports it: data flows one way.

Every import counts, also those inside functions and under TYPE_CHECKING.
"""

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("app", "genz_core", "hardware_db", "model_registry", "profilers")

Graph = Mapping[str, frozenset[str]]


def module_files(package: str) -> dict[str, Path]:
    """{dotted name: file} of a package, which itself stands for its __init__.py."""
    files = sorted((ROOT / package).rglob("*.py"))
    names = (path.relative_to(ROOT).with_suffix("").parts for path in files)
    return {
        ".".join(parts[:-1] if parts[-1] == "__init__" else parts): path
        for parts, path in zip(names, files, strict=True)
    }


def imported(text: str, modules: frozenset[str]) -> frozenset[str]:
    """The modules, of those given, that the source of a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import: this test follows absolute ones"
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= inside & modules
            names |= {str(node.module)} if inside - modules else set()
    return frozenset(names & modules)


def import_graph(package: str) -> Graph:
    """{module: modules of the same package that it imports}."""
    files = module_files(package)
    modules = frozenset(files)
    return {
        name: imported(path.read_text(encoding="utf-8"), modules - {name})
        for name, path in files.items()
    }


def cycle(graph: Graph) -> list[str]:
    """The modules of one cycle of imports, in order; empty if there is none."""
    left = dict(graph)
    while free := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in free:
            del left[name]
    path: list[str] = []
    name = min(left, default="")
    while name and name not in path:
        path.append(name)
        name = min(left[name] & left.keys())
    return path[path.index(name) :] if path else []


def test_a_cycle_is_found_and_what_leads_to_it_left_out():
    loop = {"a": frozenset("b"), "b": frozenset("cd"), "c": frozenset("b"), "d": frozenset()}
    assert cycle(loop) == ["b", "c"]
    assert cycle({**loop, "c": frozenset("d")}) == []


def test_imports_inside_functions_and_for_types_count():
    text = """
import a.one
from a import two, name
if TYPE_CHECKING:
    from a.three import Name
def function():
    from a import four
"""
    modules = frozenset({"a", "a.one", "a.two", "a.three", "a.four", "a.five"})
    assert imported(text, modules) == modules - {"a.five"}
    assert imported("from a import four", modules) == {"a.four"}, "the package itself is not meant"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_import_of_a_package_leads_back_to_where_it_came_from(package: str):
    graph = import_graph(package)
    assert sum(map(len, graph.values())) > 20, "imports were found"
    assert not cycle(graph)
