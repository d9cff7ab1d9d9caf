"""Prompt and answer lengths of a run: from JSONL files, or drawn from a distribution.

Each line of a file is an object.  Prompt tokens are the number under `isl`, `prompt_tokens`,
`input_tokens`, `input_length`, `prompt_len` or `input_len`; the length of the list `token_ids`,
`prompt_token_ids` or `input_ids`; or estimated from the text `prompt` or `text` (or from
`prompt_chars` characters) at 4 characters a token.  Answer tokens are under `osl`, `output_tokens`,
`output_length`, `output_len` or `max_tokens`.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genz_core.errors import InvalidValue, file_problem
from genz_core.limits import LIMITS, checked_size
from genz_core.serving.simulation.draws import lognormal_lengths

#: Characters per token, assumed from English text with common tokenizers; a checkpoint's own
#: tokenizer would be exact.
CHARACTERS_PER_TOKEN = 4.0
#: Most prompts of a run, and most bytes of a file.
MOST_PROMPTS, _MOST_BYTES = 10_000, 256 << 20
_NUMBERS = ("isl", "prompt_tokens", "input_tokens", "input_length", "prompt_len", "input_len")
_LISTS = ("token_ids", "prompt_token_ids", "input_ids")
_TEXTS = ("prompt", "text")
_ANSWERS = ("osl", "output_tokens", "output_length", "output_len", "max_tokens")
_KINDS = {"lognormal": ("mean", "spread", "osl", "n"), "uniform": ("low", "high", "osl", "n")}


@dataclass(frozen=True, slots=True)
class PromptSizes:
    """Tokens of a prompt and of its answer.  origin: the file, or the distribution.

    guessed: prompt tokens are estimated from characters of a text.
    """

    id: str
    isl: int
    osl: int
    origin: str = ""
    guessed: bool = False


def read_sizes(files: Sequence[Path], osl: int) -> list[PromptSizes]:
    """The sizes of the prompts in JSONL files, in their order.

    osl: answer tokens of prompts that do not state them.

    Raises:
        InvalidValue: a file that cannot be read, or a line that does not state the prompt's length.
    """
    prompts: list[PromptSizes] = []
    for file in files:
        for number, line in enumerate(_lines(file), start=1):
            if line.strip():
                prompts.append(_of_line(line, f"{file.name}:{number}", file.name, osl))
            if len(prompts) > MOST_PROMPTS:
                raise InvalidValue(f"{file.name} holds over {MOST_PROMPTS:,} prompts; give fewer")
    if not prompts:
        raise InvalidValue(
            "the files hold no prompt; write one JSON object with isl and osl per line"
        )
    return prompts


def _lines(file: Path) -> list[str]:
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise InvalidValue(f"{file.name} is larger than {_MOST_BYTES >> 20} MiB; split it")
        return file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InvalidValue(f"{file}: {file_problem(error)}") from None
    except UnicodeDecodeError:
        raise InvalidValue(f"{file.name} is not UTF-8 text; give JSONL") from None


def _of_line(line: str, place: str, origin: str, osl: int) -> PromptSizes:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise InvalidValue(
            f"{place} is not a JSON object; write one object with isl and osl per line"
        )
    answer = next((record[key] for key in _ANSWERS if record.get(key) is not None), osl)
    tokens, guessed = _prompt_tokens(record, place)
    return PromptSizes(
        str(record.get("id", place))[:200],
        checked_size("isl", tokens, f"isl of {place}"),
        checked_size("osl", answer, f"osl of {place}"),
        origin,
        guessed,
    )


def _prompt_tokens(record: Mapping[str, Any], place: str) -> tuple[Any, bool]:
    """Tokens of a prompt, and whether they are estimated from a text."""
    for key in _NUMBERS:
        if record.get(key) is not None:
            return record[key], False
    for key in _LISTS:
        if isinstance(record.get(key), list):
            return len(record[key]), False
    characters = record.get("prompt_chars")
    text = next((record[key] for key in _TEXTS if isinstance(record.get(key), str)), None)
    if text is not None:
        characters = len(text)
    if isinstance(characters, (int, float)) and 0 < characters < math.inf:
        return max(round(characters / CHARACTERS_PER_TOKEN), 1), True
    raise InvalidValue(
        f"{place} states no length; give one of {', '.join((*_NUMBERS, *_LISTS, *_TEXTS))}"
    )


def drawn_sizes(spec: str, osl: int, seed: int = 0) -> list[PromptSizes]:
    """Sizes drawn from a distribution.

    Args:
        spec: "lognormal:mean=512,spread=0.6,n=32" (spread: standard deviation over mean) or
            "uniform:low=128,high=1024,n=32"; `osl=64` in either.
        osl: answer tokens where the distribution does not state them.  seed: of the draws.

    Raises:
        InvalidValue: an unknown distribution, an unknown or missing parameter, or impossible
            values.
    """
    kind, _, rest = spec.partition(":")
    known = _KINDS.get(kind.strip())
    if known is None:
        raise InvalidValue(
            f"lengths = {spec[:60]!r}: write lognormal:mean=512,spread=0.6,n=32 or "
            "uniform:low=128,high=1024,n=32"
        )
    given = _parameters(rest, known, spec)
    count = checked_size("repeats", int(given.get("n", 16)), "n of the lengths")
    answer = checked_size("osl", int(given.get("osl", osl)), "osl of the lengths")
    lengths = _draw(kind.strip(), given, count, seed)
    most = LIMITS["isl"].most
    return [
        PromptSizes(str(at), int(np.clip(length, 1, most)), answer, spec)
        for at, length in enumerate(lengths, start=1)
    ]


def _parameters(text: str, known: Sequence[str], spec: str) -> dict[str, float]:
    given: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if name not in known or not 0 <= number < 1e9:
            raise InvalidValue(
                f"{part[:40]!r} of {spec[:60]!r}: give {', '.join(known)}, each as name=number"
            )
        given[name] = number
    missing = [name for name in known[:2] if name not in given]
    if missing:
        raise InvalidValue(f"lengths = {spec[:60]!r}: {missing[0]} is missing")
    return given


def _draw(kind: str, given: Mapping[str, float], count: int, seed: int) -> Sequence[float]:
    generator = np.random.default_rng(seed)
    if kind == "lognormal":
        if not given["mean"] >= 1:
            raise InvalidValue(f"mean = {given['mean']:g}: give at least one token")
        drawn = lognormal_lengths(count, given["mean"], given["spread"], generator)
        return [float(length) for length in drawn]
    low, high = given["low"], given["high"]
    if not 1 <= low <= high:
        raise InvalidValue(f"low = {low:g}, high = {high:g}: give 1 <= low <= high")
    return [float(length) for length in generator.integers(int(low), int(high) + 1, count)]


def chosen(
    prompts: Sequence[PromptSizes], samples: int, shuffle: bool, seed: int
) -> list[PromptSizes]:
    """The first `samples` of the prompts (0: all), after shuffling where that is asked for."""
    order = random.Random(seed).sample(prompts, len(prompts)) if shuffle else list(prompts)
    return order[: samples or None]
