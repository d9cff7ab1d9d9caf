"""`DescribedModel`: a spec in number formats, with the engine's `Model` interface."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from genz_core.errors import InvalidValue, UnsupportedModel
from genz_core.graphs import Graph, Op
from genz_core.models.diffusion import Denoising
from genz_core.models.model_kinds import ModelKind
from genz_core.symbolic.symbols import number
from genz_core.types import Num, Parallelism, Precision, Step
from model_registry.graph.decoder import decoder_graph, equal_layers
from model_registry.graph.encoder import encoder_graph
from model_registry.graph.encoder_decoder import Layers, encoder_decoder_graph
from model_registry.graph.images import VISION, beside_prompts, resident_tower, vision_ops
from model_registry.graph.parallel_limits import fillable, invalid_reason, with_whole_caches
from model_registry.spec import ModelInputs, ModelSpec, VisionTower

_SIXTEEN_BIT = Precision(source="16 bit")


@dataclass(frozen=True)
class DescribedModel:
    """A model described by a builder, in given number formats.

    notes: on how its name was resolved, and on assumptions, in words.  source: who published the
    configuration.  inputs: what its requests contain beside text.
    filled: what the engine pads, `genz_core.engine.Padding`.
    """

    spec: ModelSpec
    precision: Precision = _SIXTEEN_BIT
    notes: tuple[str, ...] = ()
    source: str = ""
    inputs: ModelInputs = field(default_factory=ModelInputs)
    filled: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        weights = " and ".join(sorted(set(self.precision.weights.values())))
        return (
            f"DescribedModel({self.name[:80]!r}: {len(self.spec.layers)} layers, "
            f"hidden {self.spec.hidden}, weights {weights}, cache {self.precision.kv})"
        )

    @property
    def name(self) -> str:
        """The checkpoint's name."""
        return self.spec.name

    @property
    def kind(self) -> ModelKind:
        """The kind of the model: decoder, encoder, encoder-decoder or diffusion."""
        return self.spec.kind

    @property
    def model_type(self) -> str:
        """The `model_type` of its config.json."""
        return self.spec.model_type

    @property
    def max_context(self) -> int | None:
        """Tokens that the positions allow, None for no limit."""
        return self.spec.max_context

    @property
    def parameters(self) -> float:
        """Parameters, tied embeddings once; without image encoder and prediction layers."""
        return self._counts[0]

    @property
    def active_parameters(self) -> float:
        """Parameters used for one token: all but the routed experts that it is not sent to."""
        return self._counts[1]

    @cached_property
    def _equal(self) -> tuple[Layers, Layers]:
        """Equal layers of the encoder (none without one), and of the model's own layers."""
        inner, apart = self.spec.encoder, replace(self.precision, by_layer={})
        own = equal_layers(self.spec, self.precision)
        return equal_layers(inner, apart) if inner else [], own

    @cached_property
    def _counts(self) -> tuple[float, float]:
        """(all, active) parameters, counted on the 16-bit graph of a single device."""
        plain = replace(self, precision=_SIXTEEN_BIT, inputs=ModelInputs())
        every = plain.graph(Step.decode(1.0, 1.0), Parallelism()).ops
        ops = [op for op in every if op.module != VISION]
        active = sum(_parameters(op) * _active_share(op) for op in ops)
        return sum(_parameters(op) for op in ops), active

    @cached_property
    def vision_parameters(self) -> float:
        """Parameters of the image encoder and its projections, 0 where none is described."""
        if self.spec.vision is None:
            return 0.0
        ops = encoder_graph(self.spec.vision, _SIXTEEN_BIT, 1.0, 4.0, Parallelism()).ops
        return sum(_parameters(op) for op in ops)

    def encoder_graph(self, images: Num, patches: Num, parallelism: Parallelism) -> Graph:
        """The operators that turn `images` of `patches` patches each into image tokens.

        Raises:
            UnsupportedModel: the model has no image encoder, or none that is described.
        """
        return encoder_graph(self._tower(), self.precision, images, patches, parallelism)

    @property
    def denoising(self) -> Denoising | None:
        """How a diffusion model refines its answers; None for the default."""
        return self.inputs.denoising

    def with_inputs(self, inputs: ModelInputs) -> DescribedModel:
        """The same model with such inputs in its requests.

        Raises:
            InvalidValue: inputs that it cannot read.
        """
        _check_inputs(self.spec, inputs)
        return replace(self, inputs=inputs)

    def prompt_tokens(self, isl: Num) -> Num:
        """Tokens of a prompt with `isl` tokens of text: images add theirs, sound replaces it.

        Sound is processed in whole windows.
        """
        encoder = self.spec.encoder
        if encoder is not None and encoder.sound is not None:
            return np.full_like(number(isl), encoder.sound.window_tokens)
        if not self.inputs.images or self.spec.vision is None or self.spec.vision.grid is None:
            return isl
        cut = self.spec.vision.grid.cut(self.inputs.width, self.inputs.height)
        return number(isl) + self.inputs.images * cut.tokens

    def image_tokens(self, patches: Num) -> Num:
        """Tokens that an image of `patches` patches becomes."""
        return patches / self._tower().patches_per_token

    def _tower(self) -> VisionTower:
        if self.spec.vision is None:
            raise UnsupportedModel(f"{self.name} has no image encoder that is described")
        return self.spec.vision

    def padded(self, what: frozenset[str]) -> DescribedModel:
        """The same model under an engine with this padding, which the graph applies where
        needed.
        """
        useful = what & fillable(self.spec)
        if useful <= self.filled:
            return self
        spec = with_whole_caches(self.spec) if "windows" in useful else self.spec
        return replace(self, spec=spec, filled=self.filled | useful)

    def with_precision(self, precision: Precision) -> DescribedModel:
        """The same model in other number formats; its notes are unchanged."""
        return replace(self, precision=precision)

    def graph(self, step: Step, parallelism: Parallelism) -> Graph:
        """The operators of one step on one device of the split."""
        encoder, own = self._equal
        if self.spec.encoder is not None:
            layers = (encoder, own)
            return encoder_decoder_graph(self.spec, self.precision, layers, step, parallelism)
        if self.kind == "diffusion":
            step = Step(tuple(replace(g, sampled=g.new_tokens) for g in step.groups))
        images = bool(self.inputs.images)
        beside = beside_prompts(self._tower(), self.inputs, step) if images else ()
        graph = decoder_graph(self.spec, self.precision, own, step, parallelism, beside)
        if not images:
            return self._with_tower(graph, parallelism)
        seen = vision_ops(self._tower(), self.precision, self.inputs, step, parallelism)
        return replace(graph, ops=(*seen, *graph.ops))

    def _with_tower(self, graph: Graph, parallelism: Parallelism) -> Graph:
        """The graph with the weights of an image encoder that does not run.

        In llama.cpp's mixtures the encoder is left out, since it is in a separate file.
        """
        if self.spec.vision is None or self.precision.mixture:
            return graph
        tower = resident_tower(self.spec.vision, self.precision, parallelism)
        return replace(graph, ops=(tower, *graph.ops))

    def invalid(self, parallelism: Parallelism) -> str | None:
        """Why these (scalar) degrees cannot split the model, with the nearest that can."""
        return invalid_reason(self.spec, parallelism, self.filled)


def _parameters(op: Op) -> float:
    """Parameters that an operator of a 16-bit graph holds, over all its layers."""
    return float(op.held_weight_bytes) * op.count / 2.0


def _active_share(op: Op) -> float:
    """The share of an operator's parameters that one token uses."""
    if op.kind != "moe":
        return 1.0
    return float(np.asarray(op.dims["top_k"])) / float(np.asarray(op.dims["experts_total"]))


def _check_inputs(spec: ModelSpec, inputs: ModelInputs) -> None:
    """Refuse images, sound or passes that a model cannot use.

    Raises:
        InvalidValue: the message names the input.
    """
    if inputs.images and (spec.vision is None or spec.vision.grid is None):
        raise InvalidValue(
            f"images = {inputs.images}: {spec.name} has no image encoder that is described; leave "
            "images out, or count their tokens in isl"
        )
    sound = spec.encoder.sound if spec.encoder else None
    if inputs.audio_s and sound is None:
        raise InvalidValue(
            f"audio_seconds = {inputs.audio_s:g}: {spec.name} takes no audio; leave it out"
        )
    if sound and inputs.audio_s > sound.window_s:
        raise InvalidValue(
            f"audio_seconds = {inputs.audio_s:g}: {spec.name} processes {sound.window_s:g} s of "
            "audio at a time; give that length, and one batch entry per window"
        )
    if inputs.denoising and spec.kind != "diffusion":
        raise InvalidValue(
            f"{spec.name} is not a diffusion model; leave diffusion_steps and block_length out"
        )
