"""Inputs and outputs of models that are not plain decoders: sound, and heads of encoders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class HeadProjection:
    """A linear layer after an encoder's last layer.

    each: it reads every token, otherwise one per sequence (the first, or the mean).
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
    """Two convolutions over a spectrogram, instead of a token table; the second halves the frames.

    bands: of the spectrogram.  kernel: frames that a convolution spans.  window_tokens: tokens of a
    full window, to which shorter sound is padded.  window_s: its duration.
    Source: Whisper, arXiv:2212.04356, section 2.2.
    """

    bands: int
    kernel: int = 3
    window_tokens: int = 1500
    window_s: float = 30.0
