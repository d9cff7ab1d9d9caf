"""Inputs of requests beside text: from a scenario's fields to the model that reads them."""

from app.question.question import Question
from genz_core.common.memo import ByIdentity
from genz_core.errors import InvalidValue
from genz_core.graphs import Model
from genz_core.models.diffusion import Denoising, denoising
from genz_core.models.model_kinds import prompt_tokens
from model_registry.graph.model import DescribedModel
from model_registry.spec import ModelInputs, SoundInput

#: Fields of a scenario that describe these inputs.
FIELDS = ("images", "image_size", "audio_seconds", "diffusion_steps", "block_length")
#: Side of an image where no size is given [pixels].
SIZE = "1024x1024"
_BOUND: ByIdentity[Model] = ByIdentity()


def inputs_of(scenario: Question) -> ModelInputs:
    """The inputs described by a scenario's fields.

    Raises:
        InvalidValue: a size that cannot be read, or a number outside its range.
    """
    width, height = parse_size(scenario.image_size)
    refined = None
    if scenario.diffusion_steps or scenario.block_length:
        refined = Denoising(scenario.diffusion_steps, scenario.block_length or Denoising().block)
    return ModelInputs(scenario.images, width, height, scenario.audio_seconds, refined)


def parse_size(text: str) -> tuple[int, int]:
    """(width, height) in pixels of "1024x768"; "1024" is a square, "" the usual size.

    Raises:
        InvalidValue: anything else.
    """
    sides = (text or SIZE).casefold().replace("×", "x").split("x")
    if len(sides) > 2 or not all(side.strip().isdigit() for side in sides):
        raise InvalidValue(
            f'image_size = {text[:40]!r}: give width and height in pixels, such as "{SIZE}"'
        )
    width, height = int(sides[0]), int(sides[-1])
    return width, height


def reading(model: Model, scenario: Question) -> Model:
    """The model with the inputs of a scenario in its requests; the same object each time.

    Raises:
        InvalidValue: inputs that it cannot read.
    """
    inputs = inputs_of(scenario)
    if not isinstance(model, DescribedModel):
        if inputs != ModelInputs(0, inputs.width, inputs.height):
            raise InvalidValue(
                f"{model.name} is known only from a trace, which covers text alone; leave out "
                f"{', '.join(FIELDS)}"
            )
        return model
    if not inputs.images:
        inputs = ModelInputs(0, audio_s=inputs.audio_s, denoising=inputs.denoising)
    if inputs == model.inputs:
        return model
    return _BOUND.get(lambda: model.with_inputs(inputs), model, values=inputs)


def input_notes(model: Model, scenario: Question) -> tuple[str, ...]:
    """Notes on the tokens and time of inputs beside text."""
    said: list[str] = []
    tokens = prompt_tokens(model, scenario.isl)
    if scenario.images:
        each = (float(tokens) - scenario.isl) / scenario.images
        plural = "s" if scenario.images > 1 else ""
        said.append(
            f"{scenario.images} image{plural} of {scenario.image_size or SIZE} pixels: {each:,.0f} "
            "tokens each in addition to those of the text"
        )
    if sound := _sound(model):
        heard = sound_seconds(model, scenario)
        said.append(
            f"{heard:g} s of audio fill a window of {sound.window_s:g} s, {float(tokens):,.0f} "
            "tokens of the encoder; isl is not used"
        )
    if refined := denoising(model):
        first, whole = (float(number) for number in refined.passes(scenario.osl))
        said.append(
            f"{whole:,.0f} passes over prompt and answer, {first:,.0f} for each block of "
            f"{min(refined.block, scenario.osl):,} tokens; nothing is cached between them"
        )
    return tuple(said)


def sound_seconds(model: Model, scenario: Question) -> float:
    """Seconds of sound in a request: as given, otherwise a whole window; 0 without sound."""
    sound = _sound(model)
    return (scenario.audio_seconds or sound.window_s) if sound else 0.0


def _sound(model: Model) -> SoundInput | None:
    encoder = model.spec.encoder if isinstance(model, DescribedModel) else None
    return encoder.sound if encoder else None
