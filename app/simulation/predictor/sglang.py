"""The replay table for SGLang's simulator: step times by batch contents, as predicted.

Format: README.md of tools/sglang-simulator at 09e2244 and ReplayTimePredictor in
https://github.com/sgl-project/sglang/blob/1b2e728d25ac48c0d8e2ffa7b895018ccd4f92ef/tools/sglang-simulator/src/sglang_simulator/time_predictor/replay.py
A JSON object whose keys are sorted JSON lists of [new, cached] tokens of each request, and whose
values are seconds; a step that is not in the table gets the mean of the nearest steps by number of
requests and tokens ("miss_strategy": "knn").
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from app.scenario.scenario import Resolved
from app.simulation.predictor.step_prices import StepPrices

_TABLE = "replay_table.json"
#: Counts of tabulated batch sizes, chunk lengths, and contexts.
_REQUESTS, _CHUNKS, _CONTEXTS = 24, 16, 12
_NEAREST = 3

Step = Sequence[tuple[int, int]]


def files(prices: StepPrices, resolved: Resolved) -> dict[str, bytes]:
    """The table, and the sections `predictor` and `scheduler` of the simulator's configuration."""
    table = {key(step): seconds for step, seconds in steps(prices)}
    return {_TABLE: json.dumps(table).encode() + b"\n", "simulator.json": _settings(resolved)}


def key(step: Step) -> str:
    """The simulator's key for a step."""
    return json.dumps(sorted([new, cached] for new, cached in step))


def steps(prices: StepPrices) -> Iterator[tuple[Step, float]]:
    """Steps that the engine may run, with their seconds: prompts, chunks, decodes."""
    longest = prices.longest
    contexts = _spread(16, longest, _CONTEXTS)
    for new in _spread(16, min(prices.chunk, longest), _CHUNKS):
        for cached in (0, *(context for context in contexts if context + new <= longest)):
            yield [(new, cached)], prices.prompts_s([(new, cached)])
        for count in (2, 4, 8, 16):
            if count * new <= prices.chunk:
                pieces = [(new, 0)] * count
                yield pieces, prices.prompts_s(pieces)
    for context in contexts:
        most = min(prices.kv_tokens // (context + 1), 4096)
        for count in _spread(1, most, _REQUESTS) if most else ():
            yield [(1, context)] * count, prices.decode_s(count, float(context + 1))


def _spread(first: int, last: int, count: int) -> list[int]:
    """Log-spaced whole numbers, including both ends."""
    if last <= first:
        return [last]
    return sorted({round(value) for value in np.geomspace(first, last, count)})


def _settings(resolved: Resolved) -> bytes:
    scenario = resolved.scenario
    document: dict[str, Any] = {
        "predictor": {
            "name": "replay",
            "database_path": _TABLE,
            "miss_strategy": "knn",
            "miss_knn_k": _NEAREST,
        },
        "scheduler": {
            "tp_size": scenario.tp * scenario.dp,
            "ep_size": scenario.ep or 1,
            "dp_size": scenario.dp,
            "pp_size": 1,
            "backend_name": "sglang",
        },
    }
    return json.dumps(document, indent=1).encode() + b"\n"
