"""A model served under loads: the balance of running and waiting requests."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from genz_core.models.speculative import steps_per_token
from genz_core.serving.balance import Balance, closed_loop, open_loop
from genz_core.serving.deduplicate import step_seconds
from genz_core.serving.load_checks import rates
from genz_core.serving.loads_batching import batching, kinds
from genz_core.serving.queueing import Batching
from genz_core.serving.served_loads import ServedLoads
from genz_core.steps.step_correction import StepCorrection, least_scale, step_correction
from genz_core.types import Array, Places, Workload


@dataclass(frozen=True)
class ServedModel(ServedLoads):
    """A model served under some loads, with what was priced of it.

    kept: priced batchings by number of pipeline stages, and the index of each load.  decoded:
    prices of decode steps by their sequences.
    """

    kept: dict[int, tuple[Batching, Places]] = field(default_factory=dict)
    decoded: dict[bytes, tuple[Array, Array, Array]] = field(default_factory=dict)

    def correction(self, users: Array) -> StepCorrection:
        """Step corrections from measured runs for each load.  users: open requests, [configs]."""
        (sizes, read), least = self.among_runs(users), np.ones_like(users)
        if self.engine.neighbours is not None:
            total, _, bound = self.decoding(np.minimum(users, self.limit))
            least = least_scale(total, bound)
        return step_correction(self.engine, self.model, self.system, sizes, least, read)

    def among_runs(self, users: Array) -> tuple[Array, Array]:
        """Position of loads among measured runs, and the prompt tokens that are prefilled."""
        sizes = self.run_sizes(users)
        cached = self.chosen(self.cached if self.traffic.sharing else 0.0, np.arange(len(sizes)))
        return sizes, np.maximum(sizes[:, 0] - cached, 1.0)

    def decoding(self, running: Array) -> tuple[Array, Array, Array]:
        """Time of a step with this number of decoding requests, the host's part, and its bound
        [s].
        """
        sequences = np.maximum(np.round(running), 1.0) * self.traffic.sharing.branches
        key = sequences.tobytes()
        if key not in self.decoded:
            loads = Workload(sequences, self.load.isl, self.osl)
            self.decoded[key] = step_seconds(self.deployed, "decode", loads, self.parallelism)
        return self.decoded[key]

    def users(self) -> Array:
        """Number of open requests, [configs]."""
        closed = self.traffic.rate_per_s is None
        users = self.load.batch if closed else self._open()
        return self.chosen(users, np.arange(self.status.size))

    def run_sizes(self, users: Array) -> Array:
        """Lengths, open requests and degrees by which runs are compared, [configs, sizes]."""
        split, everyone = self.parallelism, np.arange(self.status.size)
        lengths = (self.traffic.isl, self.traffic.osl)
        columns = (*lengths, np.minimum(users, self.limit), split.tp, split.pp, split.dp, split.ep)
        return np.stack([self.chosen(column, everyone) for column in columns], axis=-1)

    def _open(self) -> Array:
        """Open requests in an open loop by Little's law; a rate that is too high is lowered to the
        sustained one.

        Computed with the correction of the engine's recipe, because nearby runs can only be found
        once the number is known.
        """
        alone, one = replace(self.engine, neighbours=None), np.ones(self.status.size)
        balance = self.balance(step_correction(alone, self.model, self.system, one[:, None], one))
        gaps = np.maximum(self.osl - 1.0, 0.0) * steps_per_token(self.model, self.osl)
        ttft = np.where(np.isfinite(balance.ttft_s), balance.ttft_s, 0.0)
        rate = np.minimum(rates(self.traffic), balance.most_per_s)
        return np.maximum(rate * (ttft + gaps * balance.cycle_s), 1.0)

    def balance(self, correction: StepCorrection) -> Balance:
        """The balance of all loads, grouped by number of pipeline stages."""
        stages = np.broadcast_to(np.asarray(self.parallelism.pp), self.status.shape)
        degrees = sorted(set(stages.tolist()))
        if len(degrees) == 1:
            return self._balance_of(np.arange(self.status.size), int(degrees[0]), correction)
        whole = {name: np.empty(self.status.size) for name in Balance.__dataclass_fields__}
        for degree in degrees:
            chosen = np.flatnonzero(stages == degree)
            part = self._balance_of(chosen, int(degree), correction.picked(chosen))
            for name, column in whole.items():
                column[chosen] = getattr(part, name)
        return Balance(**whole)

    def _balance_of(self, chosen: Places, stages: int, correction: StepCorrection) -> Balance:
        """The balance of the chosen loads, all with the same number of pipeline stages."""
        ranks = self.chosen(self.ranks, chosen)
        limit, users = (self.chosen(x, chosen) / ranks for x in (self.limit, self.load.batch))
        closed = self.traffic.rate_per_s is None
        admitted = np.minimum(users, limit) if closed else limit
        if stages not in self.kept:
            alike = kinds(self, chosen, admitted)
            priced = batching(self, chosen[alike.first], stages, admitted[alike.first])
            self.kept[stages] = priced, alike.of
        priced, of = self.kept[stages]
        if correction.corrects:
            each = np.arange(of.size)
            if not np.array_equal(of, each):
                priced = priced.picked(of)
            priced, of = priced.corrected(correction, users), each
        if closed:
            return closed_loop(priced, of, users, limit, ranks, correction.steps)
        asked = self.chosen(rates(self.traffic), chosen)
        return open_loop(priced, of, asked, ranks, correction.steps)
