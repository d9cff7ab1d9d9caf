"""Prompts of a given number of tokens, for a server whose tokenizer is not available."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from genz_core.errors import MeasurementError
from profilers.collect.serving.client import Refused, Server, complete, models

_COMMON = """
time year people way day man thing woman life child world school state family student group
country problem hand part place case week company system program question work government
number night point home water room mother area money story fact month lot right study book
eye job word business issue side kind head house service friend father power hour game line
end member law car city community name president team minute idea kid body information back
parent face others level office door health person art war history party result change
morning reason research girl guy moment air teacher force education
"""
#: Common English words, one or two tokens each in any tokenizer.
WORDS = tuple(dict.fromkeys(_COMMON.split()))
_PROBES = (32, 96)
#: Fields that fix the length of an answer and report it; servers that do not know a field refuse
#: it.
_FIELDS: tuple[Mapping[str, Any], ...] = (
    {"ignore_eos": True, "stream_options": {"include_usage": True}},
    {"stream_options": {"include_usage": True}},
    {},
)


@dataclass(frozen=True, slots=True)
class Prompts:
    """Random words, counted in tokens: `fixed` per prompt plus `per_word` for each word.

    counted: the server reported how many tokens the probes had; otherwise a word counts as one
    token.
    """

    fixed: float = 0.0
    per_word: float = 1.0
    counted: bool = False

    def of(self, tokens: int) -> str:
        """A new prompt of about this many tokens, different from all before, so no prefix cache
        holds it.
        """
        words = max(round((tokens - self.fixed) / self.per_word), 1)
        return " ".join(random.choices(WORDS, k=words))


def probe(server: Server) -> tuple[Server, Prompts]:
    """Send two short prompts to learn which fields the server accepts and how it counts tokens.

    Returns the server with its model and the fields that it accepts, and its prompts.

    Raises:
        MeasurementError: as `client.complete`, or no model is named and the server does not list
            exactly one.
    """
    server = replace(server, model=server.model or only_model(server))
    for at, fields in enumerate(_FIELDS):
        asked = replace(server, body={**fields, **server.body})
        try:
            return asked, _counted(asked)
        except Refused as refused:
            if at + 1 == len(_FIELDS) or refused.status not in (400, 422):
                names = ", ".join(models(server)[:5])
                serves = f"; it serves {names}" if names else ""
                raise MeasurementError(f"{refused}{serves}") from None
    raise AssertionError("the last fields are asked or refused")


def _counted(server: Server) -> Prompts:
    """How a server counts the tokens of two probes of words."""
    plain = Prompts()
    counts = [complete(server, plain.of(words), 1).prompt_tokens for words in _PROBES]
    per_word = (counts[1] - counts[0]) / (_PROBES[1] - _PROBES[0])
    if min(counts) < 1 or per_word <= 0:
        return plain
    return Prompts(max(counts[0] - per_word * _PROBES[0], 0.0), per_word, counted=True)


def only_model(server: Server) -> str:
    """The server's only model.

    Raises:
        MeasurementError: it has none or several, or does not answer.
    """
    names = models(server)
    if len(names) != 1:
        listed = f"it lists {', '.join(names[:5])}" if names else "it lists none"
        raise MeasurementError(f"give the name of a model that {server.address} serves; {listed}")
    return names[0]
