"""Uneven experts of a run: its routing histogram as a load, and the gain from copies."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from app.question import literals
from app.question.parameters import PARAMETERS
from app.question.query import Query
from app.scenario import results
from app.scenario.gate import experts_of
from app.scenario.scenario import find_model
from genz_core.errors import InvalidValue, file_problem
from genz_core.models.routing import busiest_rank, checked_counts
from genz_core.types import Array

_LARGEST = 64 * 2**20  # characters
_COLUMNS = ("layer_id", "expert_id", "count")
_KEYS = ("logical_count", "expert_load", "counts")
_MOST_IDS = 4096
_NO_LISTS = (
    "expert statistics are not lists of numbers with equal lengths: give [layers][experts], alone "
    "or "
    f"under {', '.join(_KEYS)}"
)
_SHOWN = ("status", "message", "ttft_s", "tpot_s", "output_tokens_per_s",
          "memory_bytes_per_device")  # fmt: skip


def read_counts(text: str) -> Array:
    """Routed rows by [steps, layers, experts], from an engine's file of expert statistics.

    text: CSV with layer_id, expert_id and count (SGLang's record of expert distribution), or JSON:
    nested lists, alone or under logical_count, expert_load or counts.

    Raises:
        InvalidValue: neither, or impossible counts.
    """
    if len(text) > _LARGEST:
        raise InvalidValue(f"expert statistics of {len(text):,} characters: at most {_LARGEST:,}")
    if text.lstrip()[:1] in ("{", "["):
        try:
            return counts_of(json.loads(text))
        except (json.JSONDecodeError, RecursionError):
            raise InvalidValue(_NO_LISTS) from None
    rows = csv.DictReader(io.StringIO(text))
    if not set(_COLUMNS) <= set(rows.fieldnames or ()):
        raise InvalidValue(
            f"expert statistics have no columns {', '.join(_COLUMNS)}, and are no JSON"
        )
    try:
        read = [(int(row["layer_id"]), int(row["expert_id"]), float(row["count"])) for row in rows]
    except (ValueError, TypeError):
        raise InvalidValue(
            "expert statistics: a layer, an expert or a count is not a number"
        ) from None
    if not read or min(min(one[:2]) for one in read) < 0:
        raise InvalidValue("expert statistics need layers and experts numbered from 0")
    layers = {layer: at for at, layer in enumerate(sorted({one[0] for one in read}))}
    experts = max(one[1] for one in read) + 1
    if experts > _MOST_IDS or len(layers) > _MOST_IDS:
        raise InvalidValue(f"expert statistics name more than {_MOST_IDS:,} experts or layers")
    counts = np.zeros((len(layers), experts))
    for layer, expert, count in read:
        counts[layers[layer], expert] += count
    return checked_counts(counts)


def read_statistics(path: Path) -> Array:
    """`read_counts` of a file.

    Raises:
        InvalidValue: a file that cannot be read or is no text; else as `read_counts`.
    """
    try:
        return read_counts(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidValue(f"{path}: {file_problem(error)}") from None
    except UnicodeDecodeError:
        raise InvalidValue(f"{path} cannot be read as text: give a CSV or JSON file") from None


def counts_of(given: Any) -> Array:
    """Routed rows by [steps, layers, experts], from nested lists, an array, or an object that has
    one of these under logical_count, expert_load or counts.

    Raises:
        InvalidValue: anything else, or impossible counts.
    """
    try:
        if isinstance(given, Mapping):
            given = next(given[key] for key in _KEYS if key in given)
        numbers = np.array(given, dtype=float)
    except (StopIteration, ValueError, TypeError, RecursionError):
        raise InvalidValue(_NO_LISTS) from None
    return checked_counts(numbers)


def routing(query: Query, counts: Array, copies: Sequence[Any] = ()) -> list[dict[str, Any]]:
    """The load of the busiest rank by number of expert copies, and its cost, one row each.

    asked: with ep; a batch or a load.  counts: from `read_counts`.  copies: redundant experts to
    try; by default none, then one, two and four per rank.

    Columns: redundant_experts, busiest_rank (rows over the mean), the figures of the deployment
    with that load, and gain: tokens per second over those without copies.

    Raises:
        InvalidValue: not exactly one configuration with experts over several ranks, or counts for
            another number of experts.
        RidgelineError: as `results.estimate`.
    """
    question = query.question
    if query.size > 1 or (question.ep or 1) < 2:
        raise InvalidValue(
            "uneven routing matters only with expert parallelism: give a single ep of 2 or more"
        )
    ranks, experts = int(question.ep or 1), int(experts_of(find_model(query.named("model"))))
    rows = checked_counts(counts)
    if rows.shape[2] != experts:
        raise InvalidValue(
            f"the counts are of {rows.shape[2]} experts, but {question.model} routes to {experts}: "
            "give those of its logical experts"
        )
    first = -experts % ranks
    usual = [first + ranks * many for many in (0, 1, 2, 4)]
    declared = PARAMETERS["redundant_experts"]
    given = [int(number) for text in copies for number in literals.values(declared, str(text))]
    tried = list(dict.fromkeys(given)) or usual
    loads = [busiest_rank(rows, ranks, many) for many in tried]
    side = {"expert_imbalance": np.array(loads), "redundant_experts": np.array(tried, dtype=float)}
    on_ranks = replace(query, arrays=side, given=query.given | side.keys())
    found = results.estimate(on_ranks, "status").rows
    base = found[0].get("output_tokens_per_s")
    return [
        {
            "redundant_experts": many,
            "busiest_rank": load,
            **{name: row[name] for name in _SHOWN if name in row},
            "gain": row["output_tokens_per_s"] / base - 1.0
            if base and row.get("output_tokens_per_s") else None,
        }
        for many, load, row in zip(tried, loads, found, strict=True)
    ]  # fmt: skip
