"""What a request contains beside text, and how an answer is refined."""

from __future__ import annotations

from dataclasses import dataclass

from genz_core.errors import InvalidValue
from genz_core.models.diffusion import Denoising

_MOST_IMAGES, _MOST_PIXELS = 10_000, 20_000


@dataclass(frozen=True, slots=True)
class ModelInputs:
    """Inputs of each request: images of one size [pixels], sound [s]; passes of a diffusion model.

    Raises:
        InvalidValue: a number outside its range.
    """

    images: int = 0
    width: int = 1024
    height: int = 1024
    audio_s: float = 0.0
    denoising: Denoising | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.images <= _MOST_IMAGES:
            raise InvalidValue(f"images = {self.images}: give a number from 0 to {_MOST_IMAGES:,}")
        for side in (self.width, self.height):
            if not 1 <= side <= _MOST_PIXELS:
                raise InvalidValue(
                    f"an image of {self.width} x {self.height} pixels: give sides from 1 to "
                    f"{_MOST_PIXELS:,}"
                )
        if not 0.0 <= self.audio_s <= 1e6:
            raise InvalidValue(
                f"audio_seconds = {self.audio_s:g}: give seconds from 0 to 1,000,000"
            )
