"""The door for a user of this machine: a draft model and a prefill system may be files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from app.scenario.drafting import Drafting
from app.scenario.local_files import drafting_of, system_source
from app.simulation.disaggregation import PREFILL, PrefillPool


class Pools(TypedDict):
    """Fields of `Settings`."""

    drafting: Drafting
    prefill: PrefillPool


def pools(given: Mapping[str, Any]) -> Pools:
    """What drafts and who reads prompts, from keywords; others of them are left alone.

    Raises:
        InvalidValue: as `Drafting` and `PrefillPool`.
    """
    prefill = {name: given[name] for name in PREFILL if name in given}
    if "prefill_system" in prefill:
        prefill["prefill_system"] = system_source(prefill["prefill_system"])
    return Pools(drafting=drafting_of(given), prefill=PrefillPool(**prefill))
