"""Random search spaces, and servers with hidden constants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.question.query import ask
from app.tuning.loop import Tuned, tune
from app.tuning.outcome import Outcome
from app.tuning.simulated_server import SimulatedServer, hidden_moves
from app.tuning.space import Space, space
from app.tuning.study import Study
from genz_core.common.progress import never, silent

_MODELS = ("meta-llama/Llama-3.1-8B", "Qwen/Qwen3-14B", "Qwen/Qwen3-30B-A3B")
_SYSTEMS = ("h100", "h200", "a100-sxm4-80gb")


@dataclass(frozen=True)
class Drawn:
    """A space, its server, and the true result of every setting.

    values: of the goal, 0 if the targets are missed or nothing runs, [settings].
    """

    space: Space
    server: SimulatedServer
    truth: tuple[Outcome, ...]
    values: np.ndarray

    @property
    def good(self) -> np.ndarray:
        """Settings within 5 % of the best."""
        return self.values >= 0.95 * self.values.max()

    @property
    def blind(self) -> float:
        """Mean number of runs that random search needs to get within 5 % of the best."""
        return (len(self.values) + 1) / (self.good.sum() + 1)

    def search(self, runs: int = 1000) -> Tuned:
        return tune(self.space, self.server, Study(), runs)

    def needed(self) -> float:
        """Runs until the search is within 5 % of the best; the number of all settings if it stops
        before.
        """
        for number, record in enumerate(self.search().records, start=1):
            if self.good[self.space.at(record.setting)]:
                return number
        return len(self.values)


def draw(seed: int) -> Drawn | None:
    """A random space; None if more than 5 % of its settings are within 5 % of the best."""
    rng = np.random.default_rng(seed)

    def some(values: tuple, least: int) -> list:
        count = int(rng.integers(least, len(values) + 1))
        return [values[at] for at in sorted(rng.choice(len(values), count, replace=False))]

    users = int(rng.choice([32, 64, 128]))
    given = {
        "model": str(rng.choice(_MODELS)),
        "system": str(rng.choice(_SYSTEMS)),
        "engine": str(rng.choice(["vllm", "sglang"])),
        "concurrency": users, "burst_start": True, "requests": 2 * users,
        "isl": int(rng.choice([256, 1024, 3000])), "osl": int(rng.choice([64, 128, 256])),
        "max_num_seqs": some((4, 8, 12, 16, 24, 32, 48, 64, 96, 128), 6),
        "max_num_batched_tokens": some((512, 1024, 2048, 4096, 8192), 3),
        "kv": some(("checkpoint", "fp8"), 1),
        "tp": some((1, 2, 4), 2),
        "seed": seed,
    }  # fmt: skip
    goal = "output_tokens_per_s_per_device"
    expected = np.exp(space(ask("tune", given), "tpot").expected["tpot"].log)
    limit = float(np.quantile(expected, rng.uniform(0.1, 0.7)))
    asked = ask("tune", {**given, "target": f"tpot < {limit * 1e3:.3g}ms"})
    found, server = space(asked, goal), SimulatedServer(asked, hidden_moves(seed))
    truth = tuple(server(one, None, silent, never) for one in found.settings)
    values = np.array([one.value(found.goal) if one.meets(found.targets) else 0.0 for one in truth])
    drawn = Drawn(found, server, truth, values)
    few = values.max() > 0 and drawn.good.mean() <= 0.05
    return drawn if few else None


def draws(count: int, seed: int) -> list[Drawn]:
    """The first random spaces from a seed that have few good settings."""
    found: list[Drawn] = []
    at = seed
    while len(found) < count:
        if (one := draw(at)) is not None:
            found.append(one)
        at += 1
    return found
