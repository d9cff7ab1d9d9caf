"""User commands with the settings filled in; no shell interprets them.

    vllm serve {model} --port {port} [[--max-num-seqs {max_num_seqs}]] [[--kv-cache-dtype {kv}]]

`{name}` is a parameter of the question, or `port`, `address`, `folder` or `result`.  Text in double
brackets is omitted if one of its names has no value (0, empty or no), so that the server uses its
own default.  A value is always a single word, whatever it contains.
"""

import re
import shlex
from collections.abc import Mapping
from typing import Any

from app.question import literals
from app.question.parameters import ALIASES, PARAMETERS
from genz_core.errors import InvalidValue

#: Placeholders of a command besides the parameters of a question.
BESIDE: Mapping[str, str] = {
    "port": "a free port of this machine",
    "address": "the server's address, http://127.0.0.1:PORT",
    "folder": "the folder of the run, for its files",
    "result": "the file that the client writes its result to",
}
_NAME = re.compile(r"\{(\w+)\}")
_PART = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)


def filled(template: str, values: Mapping[str, Any]) -> list[str]:
    """The words of a command.

    Raises:
        InvalidValue: as `checked`, or the command is empty after filling.
    """
    checked(template)

    def kept(part: re.Match[str]) -> str:
        return part[1] if all(_says(_value(name, values)) for name in names(part[1])) else ""

    def said(name: re.Match[str]) -> str:
        value = _value(name[1], values)
        return "" if value is None else literals.text(value)

    words = shlex.split(_PART.sub(kept, template))
    return [_NAME.sub(said, word) for word in words]


def names(template: str) -> tuple[str, ...]:
    """The placeholders of a command in order."""
    return tuple(dict.fromkeys(_NAME.findall(template)))


def checked(template: str) -> str:
    """The command, if it is valid.

    Raises:
        InvalidValue: it is empty, has unbalanced quotes, or an unknown placeholder.
    """
    try:
        words = shlex.split(template)
    except ValueError as error:
        raise InvalidValue(f"the command {template[:60]!r} cannot be split: {error}") from None
    if not words:
        raise InvalidValue("the command is empty: give one, as 'vllm serve {model} --port {port}'")
    if template.count("[[") != template.count("]]"):
        raise InvalidValue(f"the command {template[:60]!r}: [[ and ]] do not match")
    known = (*PARAMETERS, *BESIDE)
    for name in names(template):
        if ALIASES.get(name, name) not in known:
            hint = literals.did_you_mean(literals.near(name, known), BESIDE)
            raise InvalidValue(f"the command names {{{name}}}, which is not a parameter: {hint}")
    return template


def _value(name: str, values: Mapping[str, Any]) -> Any:
    return values.get(ALIASES.get(name, name))


def _says(value: Any) -> bool:
    return value not in (None, "", 0, False)
