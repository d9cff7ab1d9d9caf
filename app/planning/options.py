"""What a question chooses among, as options of `ridgeline plan`."""

from __future__ import annotations

from collections.abc import Sequence

import hardware_db
from app.planning.search import Question
from app.planning.space import KINDS, Space
from genz_core.types import System


def options(question: Question) -> list[str]:
    """The options that ask the same question, those of the load and of the targets left out."""
    space, words = question.space, ["--systems", ",".join(map(_slug, question.space.systems))]
    for name, value in (
        ("devices", "{}:{}".format(*space.devices)),
        ("engine", ",".join(space.engines)),
        ("weights", _formats(space.weights)),
        ("kv", _formats(space.kv)),
        *((degree, ",".join(map(str, getattr(space, degree)))) for degree in _DEGREES),
        ("max-num-seqs", ",".join(map(str, space.max_num_seqs))),
        ("kind", "" if set(space.kinds) == set(KINDS) else ",".join(space.kinds)),
        ("speculation", ",".join(dict.fromkeys(one.speculation for one in space.drafting))),
        ("offload", ",".join(space.offload)),
        ("price", ",".join(f"{name}={usd:g}" for name, usd in space.prices.items())),
        ("rank", question.by),
        ("confidence", f"{question.confidence:g}" if question.confidence else ""),
    ):
        words += [f"--{name}", value] if value else []
    return words + _switches(question, space)


_DEGREES = ("tp", "pp", "dp", "ep")


def _switches(question: Question, space: Space) -> list[str]:
    """Options without a value, where they are not as the command has them."""
    asked = (
        ("--cross-systems", space.cross_systems),
        ("--no-simulate", not question.simulate),
        ("--pays", question.pays),
    )
    return [name for name, wanted in asked if wanted]


def _formats(names: Sequence[str]) -> str:
    """Number formats, "" for the checkpoint's, which alone is as the command has it."""
    return "" if not any(names) else ",".join(name or "checkpoint" for name in names)


def _slug(system: object) -> str:
    if isinstance(system, System):
        return system.slug
    return hardware_db.load(str(system)).slug if not str(system).endswith(".yaml") else str(system)
