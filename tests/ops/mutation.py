"""Would the tests notice a wrong formula?  A sample of small faults, one at a time.

`python -m tests.ops.mutation --sample 60` changes one operator, comparison, constant or function of
the engine's equations in a copy of the tree, runs the tests of that part, and says which faults
nobody noticed.  Exit code 1 below `--least` (0.8) of them killed.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_TESTS = "tests/genz_core"
#: What is changed, and the tests that have to notice, those that are asked first apart.
PARTS = {
    "genz_core/operators": (
        ("test_operators.py",),
        ("test_model_families.py", "test_precision.py"),
    ),
    "genz_core/latency": (("latency",), ("test_operators.py", "test_step.py")),
    "genz_core/serving": (("test_serving.py", "serving"), ("test_speculative.py",)),
}
_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Div, ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
_NAMES = {"maximum": "minimum", "minimum": "maximum", "max": "min", "min": "max", "ceil": "floor"}


@dataclass(frozen=True, slots=True)
class Fault:
    """One change: in the node of that number (in the order of `ast.walk`) of a file."""

    path: str
    node: int
    line: int
    said: str


def faults(path: Path) -> Iterator[Fault]:
    """Every fault that can be put into a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    ignored = {id(node) for outer in ast.walk(tree) for node in _words(outer)}
    name = path.relative_to(ROOT).as_posix()
    for number, node in enumerate(ast.walk(tree)):
        if id(node) not in ignored and (said := changed(node)):
            yield Fault(name, number, getattr(node, "lineno", 0), said)


def _words(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that are no arithmetic: annotations, decorators, texts."""
    for field in ("annotation", "returns"):
        if (inner := getattr(node, field, None)) is not None:
            yield from ast.walk(inner)
    for decorator in getattr(node, "decorator_list", ()):
        yield from ast.walk(decorator)
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
        yield from ast.walk(node)


def changed(node: ast.AST) -> str:
    """Put the fault into a node; what it is, "" where there is none for such a node."""
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


def passes(folder: str, tree: Path) -> bool:
    """Whether the tests of a part pass in a tree; False, too, where they do not end."""
    return all(_pass(names, tree) for names in PARTS[folder])


def _pass(tests: Sequence[str], tree: Path) -> bool:
    names = [f"{_TESTS}/{name}" for name in tests]
    own = {**os.environ, "PYTHONPATH": f"{tree}:{tree}/app/python", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-qx", "-n0", "-p", "no:cacheprovider", *names],
            cwd=tree, env=own, check=False, capture_output=True, text=True, timeout=600,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False
    if "passed" not in done.stdout and "failed" not in done.stdout and "error" not in done.stdout:
        raise RuntimeError(f"the tests did not run: {done.stdout[-400:]}{done.stderr[-400:]}")
    return done.returncode == 0


def killed(fault: Fault, tree: Path) -> bool:
    """Whether the tests of its part fail with the fault, in a tree that is whole again after."""
    place = tree / fault.path
    whole = place.read_text(encoding="utf-8")
    place.write_text(planted(fault), encoding="utf-8")
    try:
        return not passes(fault.path.rpartition("/")[0], tree)
    finally:
        place.write_text(whole, encoding="utf-8")


def sample(count: int, seed: int) -> list[Fault]:
    """Faults drawn at random, as many of each part."""
    rng, drawn = random.Random(seed), []
    for folder in PARTS:
        files = sorted((ROOT / folder).glob("*.py"))
        every = [fault for path in files for fault in faults(path)]
        drawn += rng.sample(every, min(len(every), -(-count // len(PARTS))))
    return drawn


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--sample", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--least", type=float, default=0.8)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        tree, rest = Path(name), ("app", "hardware_db", "model_registry", "profilers", "tests")
        shutil.copytree(ROOT / "genz_core", tree / "genz_core")
        for other in (*rest, "pyproject.toml", "README.md", "docs"):
            (tree / other).symlink_to(ROOT / other)
        if broken := [folder for folder in PARTS if not passes(folder, tree)]:
            parser.error(f"tests fail without a fault: {', '.join(broken)}")
        survivors, drawn = [], sample(chosen.sample, chosen.seed)
        for fault in drawn:
            noticed = killed(fault, tree)
            survivors += [] if noticed else [fault]
            mark = "killed" if noticed else "ALIVE "
            print(f"{mark} {fault.path}:{fault.line} {fault.said}", flush=True)
    share = 1.0 - len(survivors) / len(drawn)
    print(f"{len(drawn) - len(survivors)} of {len(drawn)} killed ({share:.0%})")
    return 0 if share >= chosen.least else 1


if __name__ == "__main__":
    sys.exit(main())
