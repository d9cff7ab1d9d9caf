"""Whether a model can read what its requests bring beside text."""

from __future__ import annotations

from genz_core.errors import InvalidValue
from model_registry.spec import ModelInputs, ModelSpec


def check_inputs(spec: ModelSpec, inputs: ModelInputs) -> None:
    """Refuse images, sound or passes that a model has no use for.

    Raises:
        InvalidValue: the sentence names what it cannot read.
    """
    if inputs.images and (spec.vision is None or spec.vision.grid is None):
        raise InvalidValue(
            f"images = {inputs.images}: {spec.name} has no image encoder that is described; leave "
            "images out, or count their tokens in isl"
        )
    sound = spec.encoder.sound if spec.encoder else None
    if inputs.audio_s and sound is None:
        raise InvalidValue(
            f"audio_seconds = {inputs.audio_s:g}: {spec.name} hears no sound; leave it out"
        )
    if sound and inputs.audio_s > sound.window_s:
        raise InvalidValue(
            f"audio_seconds = {inputs.audio_s:g}: {spec.name} hears {sound.window_s:g} s at a "
            "time; give that, and a batch of as many windows"
        )
    if inputs.denoising and spec.kind != "diffusion":
        raise InvalidValue(
            f"{spec.name} is no diffusion model; leave diffusion_steps and block_length out"
        )
