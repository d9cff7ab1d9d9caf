"""The door for a user of this machine: a draft model and a prefill system may be files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypedDict

from app.scenario.local_files import model_source, system_source
from app.simulation.disaggregation import PrefillPool
from app.scenario.drafting import Drafting

#: Keywords of `Drafting` and of `PrefillPool`.
DRAFTING = tuple(entry.name for entry in fields(Drafting))
PREFILL = tuple(entry.name for entry in fields(PrefillPool))


class Pools(TypedDict):
    """Fields of `Settings`."""

    drafting: Drafting
    prefill: PrefillPool


def pools(given: Mapping[str, Any]) -> Pools:
    """What drafts and who reads prompts, from keywords; others of them are left alone.

    Raises:
        InvalidValue: as `Drafting` and `PrefillPool`.
    """
    drafting = {name: given[name] for name in DRAFTING if name in given}
    prefill = {name: given[name] for name in PREFILL if name in given}
    if "draft_model" in drafting:
        drafting["draft_model"] = model_source(drafting["draft_model"])
    if "prefill_system" in prefill:
        prefill["prefill_system"] = system_source(prefill["prefill_system"])
    return Pools(drafting=Drafting(**drafting), prefill=PrefillPool(**prefill))
