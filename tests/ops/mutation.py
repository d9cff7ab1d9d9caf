"""Do the tests detect wrong formulas?  A sample of small faults, one at a time.

`python -m tests.ops.mutation --sample 60` changes one operator, comparison, constant or function of
the engine's equations in a copy of the tree, runs the tests that execute the changed line,
narrowest first, and lists the faults that no test detected.  One run under coverage finds
those tests; `--kept FOLDER` stores its result for the next time.  Faults that change no answer do
not count: `equivalent_faults.csv` lists those that were examined, with the reason.  Exit code 1 if
less than `--least` (0.8) of the others are detected.
"""

from __future__ import annotations

import argparse
import ast
import csv
import importlib.metadata
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from .touching import Touching, touching

ROOT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent_faults.csv")
#: Kinds of changes, with a sample of equal size of each.
PARTS = ("genz_core/operators", "genz_core/latency", "genz_core/serving")
TESTS = "tests/genz_core"
_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Div, ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
#: The function that declares a fitted constant, whose start value and bounds are data and not a
#: formula.
_FITTED = "_constant"
_NAMES = {"maximum": "minimum", "minimum": "maximum", "max": "min", "min": "max", "ceil": "floor"}


@dataclass(frozen=True, slots=True)
class Fault:
    """One change, in the node of that number (in the order of `ast.walk`) of a file."""

    path: str
    node: int
    line: int
    statement: range
    code: str
    said: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.said} | {self.code}"


def faults(path: Path) -> Iterator[Fault]:
    """Every possible fault in a file."""
    text = path.read_text(encoding="utf-8")
    tree, lines = ast.parse(text), text.splitlines()
    ignored = {id(node) for outer in ast.walk(tree) for node in _words(outer)}
    name, statements = path.relative_to(ROOT).as_posix(), _statements(tree)
    for number, node in enumerate(ast.walk(tree)):
        if id(node) not in ignored and (said := changed(node)):
            line = getattr(node, "lineno", 0)
            first = statements[id(node)]
            yield Fault(name, number, line, range(first, line + 1), lines[line - 1].strip(), said)


def _statements(tree: ast.AST) -> dict[int, int]:
    """The first line of the innermost statement of each node."""
    first: dict[int, int] = {}
    for node in ast.walk(tree):
        own = node.lineno if isinstance(node, ast.stmt) else first.get(id(node), 0)
        for inner in ast.iter_child_nodes(node):
            first[id(inner)] = own
        first[id(node)] = own
    return first


def _words(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that are not arithmetic: annotations, decorators, texts, start values and bounds."""
    for field in ("annotation", "returns"):
        if (inner := getattr(node, field, None)) is not None:
            yield from ast.walk(inner)
    for decorator in getattr(node, "decorator_list", ()):
        yield from ast.walk(decorator)
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == _FITTED:
        yield from ast.walk(node)
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
        yield from ast.walk(node)


def changed(node: ast.AST) -> str:
    """Apply the fault to a node; returns its description, "" if the node has no such fault."""
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _SWAPS:
        old, node.op = type(node.op), _SWAPS[type(node.op)]()  # type: ignore[assignment]
        return f"{old.__name__} -> {type(node.op).__name__}"
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPS:
        old = type(node.ops[0])
        node.ops[0] = _SWAPS[old]()  # type: ignore[assignment]
        return f"{old.__name__} -> {type(node.ops[0]).__name__}"
    if isinstance(node, ast.BoolOp):
        old, node.op = type(node.op), _SWAPS[type(node.op)]()  # type: ignore[assignment]
        return f"{old.__name__} -> {type(node.op).__name__}"
    if isinstance(node, ast.Attribute) and node.attr in _NAMES:
        old_name, node.attr = node.attr, _NAMES[node.attr]
        return f"{old_name} -> {node.attr}"
    number = isinstance(node, ast.Constant) and type(node.value) in (int, float)
    if number and 1e-6 < abs(node.value) < 1e6:  # type: ignore[attr-defined]
        old_value = node.value  # type: ignore[attr-defined]
        node.value = old_value * 2  # type: ignore[attr-defined]
        return f"{old_value} -> {node.value}"  # type: ignore[attr-defined]
    return ""


def planted(fault: Fault) -> str:
    """The source of the file with the fault."""
    tree = ast.parse((ROOT / fault.path).read_text(encoding="utf-8"))
    changed(list(ast.walk(tree))[fault.node])
    return ast.unparse(tree)


def killed(fault: Fault, tree: Path, rounds: list[list[str]]) -> bool:
    """Whether the tests fail or do not end with the fault; the tree is restored afterwards."""
    place = tree / fault.path
    whole = place.read_text(encoding="utf-8")
    place.write_text(planted(fault), encoding="utf-8")
    try:
        return not all(_pass(tests, tree) for tests in rounds)
    finally:
        place.write_text(whole, encoding="utf-8")


def _pass(tests: list[str], tree: Path) -> bool:
    """Whether tests pass in a tree; runs in a child of this process, which has imported their
    libraries.
    """
    said = tree.with_name("said.txt")
    child = multiprocessing.get_context("fork").Process(target=_run, args=(tests, tree, said))
    child.start()
    child.join(600.0)
    if child.is_alive():
        child.kill()
        child.join()
    told = said.read_text(encoding="utf-8", errors="replace")
    # 1: a test failed; 2 and a conftest that cannot be imported: the engine does not load.
    usual = child.exitcode in (0, 1, 2, -signal.SIGKILL)
    if not usual and "ImportError while loading conftest" not in told:
        raise RuntimeError(f"the tests did not run: {told[-800:]}")
    return child.exitcode == 0


def _run(tests: list[str], tree: Path, said: Path) -> None:
    """Run the tests with the tree's own packages, and end this process with their exit code."""
    with said.open("w", encoding="utf-8") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    os.chdir(tree)
    sys.path[:0] = [str(tree), str(tree / "app/python")]
    for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "genz_core")]:
        del sys.modules[name]
    os._exit(int(pytest.main(["-qx", "-p", "no:cacheprovider", *tests])))


def _libraries() -> None:
    """Import the libraries that every run of the tests needs, except for the changed packages."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    importlib.import_module("numpy")
    for plugin in importlib.metadata.entry_points(group="pytest11"):
        plugin.load()


def sample(count: int, seed: int) -> list[Fault]:
    """Faults drawn at random, the same number for each part."""
    rng, drawn = random.Random(seed), []
    for folder in PARTS:
        files = sorted((ROOT / folder).rglob("*.py"))
        every = [fault for path in files for fault in faults(path)]
        drawn += rng.sample(every, min(len(every), -(-count // len(PARTS))))
    return drawn


def equivalent() -> set[tuple[str, str, str]]:
    """Faults that change no answer: file, line of code and change."""
    with EQUIVALENT.open(encoding="utf-8", newline="") as lines:
        return {(row["path"], row["code"], row["change"]) for row in csv.DictReader(lines)}


def survivors(drawn: list[Fault], tree: Path, touched: Touching, limit_s: float) -> list[Fault]:
    """The faults that no test detects, each reported immediately."""
    alive = []
    for fault in drawn:
        noticed = killed(fault, tree, touched.rounds(fault.path, fault.statement, limit_s))
        alive += [] if noticed else [fault]
        print("killed" if noticed else "ALIVE ", fault, flush=True)
    return alive


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--sample", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--least", type=float, default=0.8)
    parser.add_argument("--part", choices=PARTS, help="sample only this part")
    parser.add_argument("--seconds", type=float, default=60.0, help="of tests for each fault")
    parser.add_argument("--kept", type=Path, help="where which tests touch what is kept")
    chosen = parser.parse_args()
    known, drawn = equivalent(), sample(chosen.sample, chosen.seed)
    drawn = [fault for fault in drawn if fault.path.startswith(chosen.part or "")]
    same = [fault for fault in drawn if (fault.path, fault.code, fault.said) in known]
    real = [fault for fault in drawn if fault not in same]
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name) / "tree"
        _copy(tree)
        kept = (chosen.kept or Path(name)).resolve()
        kept.mkdir(parents=True, exist_ok=True)
        _libraries()
        touched = touching(tree, "genz_core", TESTS, kept)
        alive = survivors(real, tree, touched, chosen.seconds)
    share = 1.0 - len(alive) / len(real)
    print(f"{len(real) - len(alive)} of {len(real)} killed ({share:.0%}); {len(same)} equivalent")
    return 0 if share >= chosen.least else 1


def _copy(tree: Path) -> None:
    """A copy of the engine, which may be broken, with links to the rest."""
    shutil.copytree(ROOT / "genz_core", tree / "genz_core")
    rest = ("app", "hardware_db", "model_registry", "profilers", "tests", "docs")
    for other in (*rest, "pyproject.toml", "README.md"):
        (tree / other).symlink_to(ROOT / other)


if __name__ == "__main__":
    sys.exit(main())
