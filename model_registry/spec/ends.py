"""The ends of models that are no plain decoders: inputs other than tokens, heads of encoders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class HeadProjection:
    """A linear layer behind an encoder's last layer.

    each: whether it reads every token, or one of each sequence (its first, or their mean).
    norm: a norm of its outputs.  activation: a function of its outputs.
    tied: its weights are the token table's.
    """

    name: str
    outputs: int
    inputs: int
    each: Literal["token", "sequence"] = "sequence"
    bias: bool = True
    norm: bool = False
    activation: bool = True
    tied: bool = False


@dataclass(frozen=True, slots=True)
class SoundInput:
    """Two convolutions over a spectrogram in place of a token table; the second halves its frames.

    bands: of the spectrogram.  kernel: frames that a convolution spans.  window_tokens: tokens of a
    whole window, to which shorter sound is padded.  window_s: its seconds.
    Source: Whisper, arXiv:2212.04356, section 2.2.
    """

    bands: int
    kernel: int = 3
    window_tokens: int = 1500
    window_s: float = 30.0
