"""The page of parameters: each once, from its declaration, with the verbs that take it."""

from __future__ import annotations

import math
from itertools import groupby
from typing import Any

from genz_core.common.cells import markdown_row

_HEAD = """# Parameters

{made}All parameters, by their names in Python, REST, MCP, links and the columns of files; on the
command line `max_num_seqs` is `--max-num-seqs`. Numbers may be typed as text: `10k` is 10,000,
`2Ki` is 2,048, `1e6` a million. Several values are written as a list `1,2,4`, as doubling
`1:256:x2` or in steps `128:1024:128`. Engines' names and those of earlier releases mean the
same parameter.

The last column lists the verbs that take a parameter. All other verbs refuse it by name, because
{physics}, unless the column states another reason.

"""
_KINDS = {
    "whole": "whole number", "number": "number", "truth": "true or false", "text": "text",
    "list": "texts",
}  # fmt: skip


def parameters_page(made: str) -> str:
    """The page; made: the line that says where it comes from."""
    from app.question.parameters import PARAMETERS
    from app.question.verbs import REASONS

    parts = [_HEAD.format(made=made, physics=REASONS["physics"])]
    for group, found in groupby(PARAMETERS.values(), key=lambda one: one.group):
        parts.append(
            f"## {group}\n\n| parameter | value | default | meaning | verbs |\n"
            "|---|---|---|---|---|\n"
        )
        parts += [_row(one) for one in found]
        parts.append("\n")
    return "".join(parts)


def _row(one: Any) -> str:
    others = ", ".join(f"`{name}`" for name in one.aliases)
    said = f"{one.help}{f' Also {others}.' if others else ''}"
    cells = (f"`{one.name}`", _value(one), _default(one), said, _verbs(one.name))
    return f"{markdown_row(cells)}\n"


def _value(one: Any) -> str:
    """Type, limits, unit and choices."""
    if one.choices:
        return ", ".join(f"`{choice}`" for choice in one.choices if choice)
    kind = _KINDS[one.kind]
    if one.numeric:
        low = f"{'above' if one.above else 'from'} {one.least:,g}"
        high = "" if math.isinf(one.most) else f" to {one.most:,.15g}"
        kind += f", {low}{high}{f' {one.unit}' if one.unit else ''}"
    return kind


def _default(one: Any) -> str:
    if one.default in (None, "", ()):
        return ""
    if one.kind == "truth":
        return str(one.default).casefold()
    return f"{one.default:,g}" if one.numeric else f"`{one.default}`"


def _verbs(name: str) -> str:
    """The verbs that take a parameter, and those that leave it out for a reason of their own."""
    from app.question.verbs import LEFT_OUT, REASONS, VERBS

    taken = [verb for verb in VERBS if name not in LEFT_OUT[verb]]
    other: dict[str, list[str]] = {}
    for verb in VERBS:
        if LEFT_OUT[verb].get(name, "physics") != "physics":
            other.setdefault(REASONS[LEFT_OUT[verb][name]], []).append(verb)
    why = "".join(f"; not {', '.join(verbs)}: {reason}" for reason, verbs in other.items())
    return f"{', '.join(taken)}{why}"
