"""Operators of a run on a CPU, each timed on the clock that times the steps.

torch's profiler times operators in wall time and adds its own cost to each; steps of one thread
are timed in the thread's processor time.  Where other programs share the cores the two would not
add up.  Here every ATen operator is called between two readings of the steps' clock, and operators
that only call others are decomposed, as in torch's own FLOP counter.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pandas as pd

from profilers.collect.clock import Clock
from profilers.operators.kernel_classes import ENGINE_CLASS
from profilers.schema import OPERATOR_COLUMNS, PhaseTiming, table

#: Opens the range of a phase around a step.
PhaseMark = Callable[[str], AbstractContextManager[None]]
#: {(phase, operator): [runs, seconds, FLOPs]} of one request.
Sums = dict[tuple[str, str], list[float]]


def timed_operators(run: Callable[[PhaseMark], object], clock: Clock) -> Sums:
    """Runs, seconds and FLOPs of the operators that `run` calls inside its phases.

    run: is given a function that opens the range of a phase around each of its steps.
    """
    sums: Sums = defaultdict(lambda: [0.0, 0.0, 0.0])
    mode = _mode(clock, sums)
    with mode:
        run(mode.phase)
    return dict(sums)


def operator_rows(rounds: Sequence[Sums], kind: Callable[[str], str]) -> pd.DataFrame:
    """A table of `OPERATOR_COLUMNS`: medians over requests, the longest operator first.

    kind: the class of an operator by its name.
    """
    keys = list(dict.fromkeys(key for sums in rounds for key in sums))
    middle = {
        key: [statistics.median(sums.get(key, [0.0] * 3)[at] for sums in rounds) for at in range(3)]
        for key in keys
    }
    ordered = sorted((key for key in keys if middle[key][1] > 0), key=lambda key: -middle[key][1])
    kinds = [kind(name) for _, name in ordered]
    entries = [middle[key] for key in ordered]
    data: Mapping[str, Any] = {
        "phase": [phase for phase, _ in ordered],
        "name": [name for _, name in ordered],
        "kind": kinds,
        "class": [ENGINE_CLASS.get(name) for name in kinds],
        "count": [max(round(runs), 1) for runs, _, _ in entries],
        "flops": [work / runs if work else np.nan for runs, _, work in entries],
        "time_s": [seconds for _, seconds, _ in entries],
    }
    return table(OPERATOR_COLUMNS, data, 0)


def fitted_to_steps(
    operators: pd.DataFrame, phases: Mapping[str, PhaseTiming], steps: Mapping[str, int]
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Operators scaled so that they take no longer than the steps that they are part of.

    A request whose operators were timed may have been slowed more than the median step; in that
    case all operators of a phase are scaled to its median.  Returns the table and the factors below
    one.

    Args:
        operators: of one request.  phases: timings of single steps.
        steps: of each phase in a request.
    """
    factors: dict[str, float] = {}
    fitted = operators.copy()
    for phase, timing in phases.items():
        rows = fitted["phase"] == phase
        whole, parts = timing.median_s * steps.get(phase, 1), float(fitted["time_s"][rows].sum())
        if parts > whole > 0:
            factors[phase] = whole / parts
            fitted.loc[rows, "time_s"] *= factors[phase]
    return fitted.sort_values("time_s", ascending=False, kind="stable", ignore_index=True), factors


def _mode(clock: Clock, sums: Sums) -> Any:
    """A dispatch mode that times every operator that does work inside a phase."""
    from contextlib import contextmanager

    from torch.utils._python_dispatch import TorchDispatchMode

    class OperatorClock(TorchDispatchMode):  # type: ignore[misc]  # torch ships no types of it
        present: str | None = None

        @contextmanager
        def phase(self, name: str) -> Any:
            self.present = name
            try:
                yield
            finally:
                self.present = None

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            with self:
                if func.name() == "aten::linear" and args[0].dim() > 2:
                    return _folded_linear(*args, **kwargs)
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
            start = clock.now()
            out = func(*args, **kwargs)
            seconds = clock.now() - start
            if self.present is not None:
                entry = sums[self.present, func.name().partition(".")[0]]
                entry[0] += 1.0
                entry[1] += seconds
                entry[2] += _flops(func, args, kwargs, out)
            return out

    return OperatorClock()


def _folded_linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """A linear layer as one product of all rows, as torch runs it without a dispatch mode.

    When decomposed under a mode, rows that are not contiguous become a batch of products, each with
    a copy of the weights, which is another kernel than that of the timed steps.
    """
    import torch

    rows = x.reshape(-1, x.shape[-1])
    product = torch.mm(rows, weight.t()) if bias is None else torch.addmm(bias, rows, weight.t())
    return product.view(*x.shape[:-1], weight.shape[0])


def _flops(func: Any, args: Any, kwargs: Any, out: Any) -> float:
    """FLOPs of a call according to torch's counter, 0 for operators that it does not know."""
    from torch.utils.flop_counter import flop_registry, sdpa_flop_count

    packet = func._overloadpacket
    if packet in flop_registry:
        return float(flop_registry[packet](*args, **kwargs, out_val=out))
    if packet.__name__ == "_scaled_dot_product_flash_attention_for_cpu":
        return float(sdpa_flop_count(*(tensor.shape for tensor in args[:3])))
    return 0.0
