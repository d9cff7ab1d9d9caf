"""Build the wheel with one package, `ridgeline`, that holds the packages of the checkout.

Hatchling runs it.  An editable installation uses the checkout directly.
"""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SOURCES = {".py", ".pyi", ".typed"}
_OURS = Path("app", "python", "ridgeline")
_HOOK = Path("app", "python", "build_hook.py")


class BuildHook(BuildHookInterface[Any]):
    """Adds every source file to the wheel, with its imports renamed."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the renamed files and register them with Hatchling, which adds the other files."""
        if version == "editable":
            return
        root, names = Path(self.root), _names(Path(self.root))
        self.draft = tempfile.mkdtemp(prefix="ridgeline-build-")
        for package in names.PACKAGES:
            for source in sorted((root / package).rglob("*.*")):
                at = source.relative_to(root)
                if source.suffix not in _SOURCES or at == _HOOK:
                    continue
                at = at.relative_to(_OURS) if at.is_relative_to(_OURS) else at
                draft = Path(self.draft, at)
                draft.parent.mkdir(parents=True, exist_ok=True)
                draft.write_text(
                    names.renamed(source.read_text(encoding="utf-8")), encoding="utf-8"
                )
                build_data["force_include"][str(draft)] = (Path("ridgeline") / at).as_posix()

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the renamed files."""
        if version != "editable":
            shutil.rmtree(self.draft)


def _names(root: Path) -> Any:
    """The module `ridgeline._names`, loaded without the packages that importing
    `ridgeline` needs.
    """
    spec = importlib.util.spec_from_file_location("_names", root / _OURS / "_names.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
