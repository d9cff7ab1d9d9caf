"""The kinds of norms."""

from typing import Literal

Norm = Literal["rms", "layer", "layer_without_bias", "without_weights"]
