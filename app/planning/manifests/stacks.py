"""The data of `stacks.yaml`: images, resources and interfaces of deployment stacks."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from genz_core.errors import InvalidValue

_FILE = Path(__file__).parent / "stacks.yaml"


@cache
def stacks() -> Mapping[str, Any]:
    """The data, by the name of a stack."""
    loaded: Mapping[str, Any] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return loaded


def resource(vendor: str) -> str:
    """The name by which Kubernetes counts a vendor's devices.

    Raises:
        InvalidValue: no such name is known.
    """
    known = stacks()["resources"]["by_vendor"]
    if vendor not in known:
        raise InvalidValue(
            f"manifests exist for devices of {' and '.join(known)}, not of {vendor}: use the "
            "launch commands of the plan"
        )
    return str(known[vendor])


def image(engine: str, vendor: str) -> tuple[str, str]:
    """The image of an engine for a vendor's devices, and a note where you need to replace it by
    your own.
    """
    known = stacks()["engines"][engine]["images"]
    if vendor in known:
        return str(known[vendor]), ""
    own = f"{engine}-for-{vendor.lower()}:own"
    return own, f"{own} stands for your {engine} image for {vendor} devices"


def check_engine(engine: str) -> None:
    """Refuse an engine without manifests.

    Raises:
        InvalidValue: it is none of those that have some.
    """
    known = stacks()["engines"]
    if engine not in known:
        raise InvalidValue(
            f"manifests exist for {' and '.join(known)}, not for {engine}: plan with "
            f"--engine {','.join(known)}"
        )
