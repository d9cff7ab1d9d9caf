"""Operator graphs of any model that `transformers` can instantiate, from its config alone.

The model is built on the meta device (shapes, no weights) and run for a prefill and a decode step
under a dispatch mode; the recorded operators are then rewritten into those that serving engines
run. torch and transformers are imported inside functions: opening a page does not load them.
"""

from model_registry.tracing.model import TracedModel, is_kept, trace
from model_registry.tracing.rewrites import REWRITES

__all__ = ["REWRITES", "TracedModel", "is_kept", "trace"]
