"""The names of the packages: `app` and its neighbours in a checkout, `ridgeline.app` elsewhere.

A checkout has its packages at the top, and its files import each other by those names.  The wheel
has them inside `ridgeline`, so that a project may have its own `app`: `renamed` converts a file for
the wheel (app/python/build_hook.py).  `find_in_checkout` makes the same names work where
`ridgeline` is imported from a checkout.
"""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import decode_source, find_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

PACKAGES = ("app", "genz_core", "hardware_db", "model_registry", "profilers")

_HERE = Path(__file__).resolve().parent
_NAMES = "|".join(PACKAGES)
_START = r"^(\s*(?:>>> |\.\.\. )?)"
_FROM = re.compile(rf"{_START}from ({_NAMES})(?=[. ])", re.MULTILINE)
_IMPORT = re.compile(rf"{_START}import ({_NAMES})(?= as |$|  #)", re.MULTILINE)
_IMPORT_AS = re.compile(rf"{_START}import ({_NAMES})(\.[\w.]+)(?= as )", re.MULTILINE)


def renamed(text: str) -> str:
    """A file of a checkout converted for the wheel: its imports name modules inside `ridgeline`.

    >>> renamed("import genz_core")
    'from ridgeline import genz_core'
    """
    text = _FROM.sub(r"\1from ridgeline.\2", text)
    text = _IMPORT_AS.sub(r"\1import ridgeline.\2\3", text)
    return _IMPORT.sub(r"\1from ridgeline import \2", text)


def find_in_checkout() -> None:
    """Make `ridgeline.app` and its neighbours importable where they are not inside this folder.

    They are the packages at the top of the checkout, and both names give the same modules.  Where
    another package of one of these names comes first on Python's path, that one keeps the name, and
    ours are loaded only by their long names.
    """
    if not (_HERE / "app").is_dir():
        sys.meta_path.insert(0, _Checkout(_HERE.parents[2]))


class _Checkout(MetaPathFinder):
    """Finds the packages of a checkout inside `ridgeline`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.apart = not all(_is_at(root / name, name) for name in PACKAGES)

    def find_spec(self, fullname: str, *_: Any) -> ModuleSpec | None:
        first, _dot, own = fullname.partition(".")
        if first != "ridgeline" or not own:
            return None
        of_packages = own.partition(".")[0] in PACKAGES
        if self.apart:
            return _renamed_spec(
                fullname, (self.root if of_packages else _HERE) / own.replace(".", "/")
            )
        if not of_packages or not _exists(own):
            return None
        return ModuleSpec(fullname, _Same(own))


class _Same(Loader):
    """Loads a long name as the module with the short name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.name)
        self.own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.own

    def get_code(self, fullname: str) -> Any:  # for `python -m`
        spec = find_spec(self.name)
        return spec.loader.get_code(self.name) if spec and spec.loader else None  # type: ignore[attr-defined]


class _Renamed(SourceFileLoader):
    """Compiles a file after `renamed`, uncached: the cache holds those with short names."""

    def path_stats(self, path: Any) -> Any:
        raise OSError

    @staticmethod
    def source_to_code(  # type: ignore[override]  # as its caller gives them
        data: Any, path: Any = "<string>"
    ) -> CodeType:
        return compile(renamed(decode_source(data)), os.fspath(path), "exec", dont_inherit=True)


def _renamed_spec(fullname: str, stem: Path) -> ModuleSpec | None:
    package, file = stem / "__init__.py", stem.with_name(f"{stem.name}.py")
    if package.is_file():
        return spec_from_file_location(
            fullname, package, loader=_Renamed(fullname, str(package)),
            submodule_search_locations=[str(stem)],
        )  # fmt: skip
    if file.is_file():
        return spec_from_file_location(fullname, file, loader=_Renamed(fullname, str(file)))
    return None


def _exists(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _is_at(folder: Path, name: str) -> bool:
    """Whether Python finds a package of this name in a folder."""
    spec = find_spec(name)
    return spec is not None and Path(spec.origin or "").resolve().parent == folder
