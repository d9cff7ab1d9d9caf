"""Where this program is installed: commands that install missing packages, and its own modules."""

from __future__ import annotations

import os
import re
import shlex
import sys
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def pip_install(*requirements: str) -> str:
    """The command that installs packages into this Python, quoted for a shell."""
    return shlex.join([sys.executable, "-m", "pip", "install", *requirements])


def pip_install_extra(extra: str) -> str:
    """The command that installs an extra of Ridgeline into this Python.

    It lists the packages of the extra, so it works from a clone and from a wheel alike; where
    Ridgeline runs without being installed, it installs the clone.
    """
    try:
        stated = requires("ridgeline") or []
    except PackageNotFoundError:
        stated = []
    of_extra = re.compile(rf"""extra == ['"]{re.escape(extra)}['"]""")
    packages = [text.partition(";") for text in stated]
    wanted = [name.strip() for name, _, marker in packages if of_extra.search(marker)]
    return pip_install(*wanted) if wanted else pip_install("-e", f"{_ROOT}[{extra}]")


def environment() -> dict[str, str]:
    """This process's environment, extended so that this program's packages are found from anywhere.

    It is for programs that are started as modules, with `python -m`.
    """
    package = sys.modules[__name__.partition(".")[0]]
    folder = str(Path(str(package.__file__)).parents[1])
    path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path}
