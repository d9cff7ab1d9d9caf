"""How much the gaps between tokens jitter, from a benchmark's detailed result.

    python -m profilers.timeline.token_gaps RESULT.json[.gz]

Reads what `vllm bench serve --save-result --save-detailed` writes (`ttfts`, `itls`) and prints the
two shares for an engine's YAML, `step_jitter` and `delivery_jitter`
(`genz_core.serving.simulation.jitter`).

Prompts lengthen steps, so only gaps after the last prompt was read count.  The file has no arrival
times; those of a Poisson process at its rate are known to within a few seconds.  A gap is divided
by the median of the gaps around it, since steps grow with their contexts and shrink as answers end.
A step's own jitter changes one gap; a late delivery lengthens the gap before it and shortens the
one after it by the same time.  So the covariance of neighbouring gaps is minus the variance of
deliveries, and the variance of gaps is that of steps plus twice that of deliveries.

The median follows the gaps a little, so a share is known to within half a percent of a step, and a
share of zero to within 0.8 %.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genz_core.errors import InvalidValue, RidgelineError
from genz_core.types import Array, Mask

_WINDOW = 15  # number of surrounding gaps whose median is taken
#: beyond this a gap is not jitter: two tokens came in one piece, or a prompt was read again
_FAR = 0.25
_MARGIN = 3.0  # allowance for the last arrival of a Poisson process, in standard deviations
_LEAST_GAPS = 1000


@dataclass(frozen=True, slots=True)
class TokenGaps:
    """Gaps between tokens in steps without prompts, relative to the median of the gaps around them.

    gaps: their number.  spread: their standard deviation.  lag_correlation: of neighbouring gaps.
    step_jitter, delivery_jitter: standard deviations of a step and of a delivery, over a step's
    time.
    """

    gaps: int
    spread: float
    lag_correlation: float
    step_jitter: float
    delivery_jitter: float


def token_gaps(result: Mapping[str, Any]) -> TokenGaps:
    """Fit the jitter of a result; times in seconds.

    Raises:
        InvalidValue: a result without gaps, without a rate, or with too few gaps after its prompts.
    """
    if missing := [name for name in ("ttfts", "itls", "request_rate") if name not in result]:
        raise InvalidValue(f"the result has no {', '.join(missing)}: run with --save-detailed")
    rate, answers = float(result["request_rate"]), [np.asarray(g, float) for g in result["itls"]]
    if not np.isfinite(rate) or rate <= 0:
        raise InvalidValue(
            f"request_rate = {rate:g}: arrival times can only be inferred from a finite rate"
        )
    first = np.arange(1, len(answers) + 1) / rate + np.asarray(result["ttfts"], float)
    after = np.max(first, initial=0.0) + _MARGIN * np.sqrt(len(answers)) / rate
    pairs = zip(first, answers, strict=True)
    series = [_relative(gaps, start + np.cumsum(gaps) - gaps > after) for start, gaps in pairs]
    jitter = np.concatenate([np.zeros(0), *series])
    known = jitter[np.isfinite(jitter)]
    if len(known) < _LEAST_GAPS:
        raise InvalidValue(f"{len(known)} gaps after the last prompt: give at least {_LEAST_GAPS}")
    products = np.concatenate([one[1:] * one[:-1] for one in series])
    variance, covariance = np.mean(known**2), np.nanmean(products)
    return TokenGaps(
        len(known),
        float(np.sqrt(variance)),
        float(covariance / variance),
        float(np.sqrt(max(variance + 2.0 * covariance, 0.0))),
        float(np.sqrt(max(-covariance, 0.0))),
    )


def _relative(gaps: Array, counted: Mask) -> Array:
    """Gaps over the median of those around them, minus one, [gaps]; NaN where they do not count."""
    if len(gaps) < _WINDOW:
        return np.zeros(0)
    medians = np.median(np.lib.stride_tricks.sliding_window_view(gaps, _WINDOW), axis=1)
    inner = slice(_WINDOW // 2, len(gaps) - _WINDOW // 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = gaps[inner] / medians - 1.0
    return np.where(counted[inner] & (np.abs(relative) < _FAR), relative, np.nan)


def main(paths: Sequence[str]) -> int:
    """Print a line of figures for every file; returns the exit status."""
    if not paths:
        print("python -m profilers.timeline.token_gaps RESULT.json[.gz] ...", file=sys.stderr)
        return 2
    for path in paths:
        try:
            data = Path(path).read_bytes()
            found = token_gaps(json.loads(gzip.decompress(data) if path.endswith("gz") else data))
        except (OSError, ValueError, RidgelineError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 1
        print(
            f"step_jitter {found.step_jitter:.4f}  delivery_jitter {found.delivery_jitter:.4f}  "
            f"({found.gaps:,} gaps, spread {found.spread:.4f}, neighbours' correlation "
            f"{found.lag_correlation:.2f})  {Path(path).name}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
