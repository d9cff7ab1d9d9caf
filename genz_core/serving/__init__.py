"""Continuous batching in closed form: TTFT and TPOT at a concurrency or an arrival rate.

`queueing` holds the equations, `loops` who runs beside whom, `traffic` what is asked and answered.
"""

from genz_core.engine import Recipe
from genz_core.serving.loops import sequences_that_fit, serve
from genz_core.serving.traffic import ServingEstimate, Traffic

__all__ = ["Recipe", "ServingEstimate", "Traffic", "sequences_that_fit", "serve"]
