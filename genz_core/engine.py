"""Profiles of serving software: constants, scheduling policy, and measurements of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

from genz_core.measured_runs import MeasuredRuns
from genz_core.short_repr import clipped, listed

MeasuredOn = Literal["", "device", "recipe", "own", "own_few"]
#: Least number of the user's own runs whose calibration was validated (`app/engine_fit`).
TRIED_RUNS = 3


@dataclass(frozen=True, slots=True)
class Recipe:
    """Measured over predicted for one engine, model, system and weight format.

    points: measured runs behind the scales.
    """

    tpot_scale: float = 1.0
    ttft_scale: float = 1.0
    points: int = 0


NO_RECIPE = Recipe()


@dataclass(frozen=True, slots=True)
class RecipeKey:
    """Key of a recipe: engine, model, system and weight format.

    engine: a profile's name.  parameters: of the model; they tell architectures apart where names
    do not.  system: a slug.  weights: format of the bulk of the weights.
    """

    engine: str
    parameters: int
    system: str
    weights: str


@dataclass(frozen=True, slots=True)
class MeasuredRecipe:
    """Measured scales and factors of a recipe.

    scales: of its serving figures.  factors: {constant: factor} of the engine, on top of those of
    its device.  model: its name, for display.  own: calibrated by the user, not shipped.
    """

    scales: Recipe
    factors: Mapping[str, float]
    model: str = ""
    own: bool = False

    @property
    def measured_on(self) -> MeasuredOn:
        """How `EngineProfile.measured_on` names a profile with this recipe applied."""
        if not self.own:
            return "recipe"
        return "own" if self.scales.points >= TRIED_RUNS else "own_few"


@dataclass(frozen=True, slots=True)
class EngineMeasurements:
    """Measured factors of one engine's constants by device, and its measured recipes.

    devices: {slug: {constant: factor}}, on top of those of their silicon.  silicon: {family:
    {constant: factor}}, of all boards of it.  runs: by parameters of their model.
    eras: {era: {constant: factor}}, of releases that ran otherwise than today's.
    """

    devices: Mapping[str, Mapping[str, float]]
    recipes: Mapping[RecipeKey, MeasuredRecipe]
    runs: Mapping[int, MeasuredRuns] = field(default_factory=dict)
    eras: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    silicon: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


# ------------------------------------------------------------------------------- the profile


@dataclass(frozen=True, slots=True)
class EagerFacts:
    """Costs of eager execution on one machine, measured by running its pieces alone.

    host_layer_s: host time of one decoder layer, host_step_s: of a step outside of the layers,
    both with cold caches, as they are after a product streamed its weights through them.
    *_passes: memory traffic of the unfused form over the fused one's.
    expand_groups: 1 where attention runs as on CPUs, see `genz_core.eager.cpu_attention`.
    """

    host_layer_s: float
    host_step_s: float
    norm_passes: float = 1.0
    rope_passes: float = 1.0
    activation_passes: float = 1.0
    append_passes: float = 1.0
    expand_groups: float = 0.0


@dataclass(frozen=True, slots=True)
class ServerDefaults:
    """What an engine's server sets itself on some devices, where it is told nothing.

    below_bytes: on devices of less memory.  named: parts of slugs of others that count, too.
    figures: {field of `EngineProfile`: value}.
    outside_bytes: of a device that weights and cache leave to the rest; 0 where none is stated.
    """

    below_bytes: float
    named: tuple[str, ...]
    figures: Mapping[str, float]
    outside_bytes: float = 0.0

    def holds(self, slug: str, memory_bytes: float) -> bool:
        """Whether they hold on a device."""
        return memory_bytes < self.below_bytes or any(part in slug for part in self.named)

    def on(self, memory_bytes: float) -> dict[str, float]:
        """{field of `EngineProfile`: value} on a device of a size."""
        share = {"memory_fraction": max(1.0 - self.outside_bytes / memory_bytes, 0.0)}
        return {**self.figures, **(share if self.outside_bytes else {})}


@dataclass(frozen=True, slots=True)
class Padding:
    """What an engine fills up to the next multiple of a degree that does not divide it.

    what: "experts", with redundant copies of some; "heads" of an attention, and columns of a
    feed-forward, with empty ones.  vendors: of the systems on which it does; () for all.
    """

    what: Literal["experts", "heads"]
    vendors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Loading:
    """In which format an engine loads a published checkpoint, where nobody chose one.

    of: a format among its weights.  to: that in place of it, or of the `roles` where some are
    named (see `Precision`).
    """

    of: str
    to: str
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """Costs that serving software adds to its kernels, and its scheduling policy.

    kernel_floor_s: start and drain of one kernel inside this engine's graphs.
    launch_s: host time to launch an operator; it hides behind a longer operator before it.
    thin_products: products of few rows have special kernels in every format.
    compute_efficiency, memory_efficiency: rates of its kernels over those that the system's
    latency profile was fitted on.  These and the three below are relative to the profile's
    measured kernels, not shares of the peak: above one where the engine's kernels are faster.
    Whatever they are, no kernel takes less than its roofline bound.
    attention_efficiency: the same of its prefill attention, on top of compute_efficiency.
    four_bit_efficiency: the rate at which its products read 4-bit blocks, over the profile's,
    where the hardware multiplies them.  expert_efficiency: the same of experts with 4-bit weights
    on any hardware.
    products: arithmetic type whose peak its products work against, where the system states one
    ("int8" for kernels that quantise activations themselves); "" for the type of the formats.
    moe_floor_s: routing, permutation and grouped products of one layer at their smallest.
    expert_s: bookkeeping per expert on the device and layer.
    host_step_s, host_sequence_s: host and scheduler time per step and per running sequence.
    host_request_s: once per request (tokenise, admit, first reply).
    sampling_s: per step, on top of the sampling operator.
    all_reduce: algorithm inside a scale-up domain: "nccl" (rings), "tree", "custom",
    "in_network", or "switched": "custom" behind a switch and rings elsewhere.
    scheduler: the policy that a simulation runs (`genz_core.serving.simulation.policies`).
    chunk_tokens: tokens of a step at most, 0 for whole prompts.  mixed_steps: prefill chunks
    and decodes share a step (else prefill goes first and decodes wait).
    max_sequences: of a step.  memory_fraction: of the device that the engine takes;
    free_share: of what the weights leave of that, which the cache takes.
    reserve_bytes: runtime context, graphs and workspace inside that; on small devices less, see
    `genz_core.memory.RESERVE_SHARE`.
    kv_block_tokens: cache granularity.  reserve_output: fraction of the output length whose
    cache is reserved on admission.  kv_cache: format of the cache where the user chose a format
    for the weights alone: that of published checkpoints of the weights' format ("checkpoint"), or
    the model's own type ("model"), unless the weights' format implies one.
    held_share: of a stream interval, for which a first token is held back.  ahead_steps: that the
    scheduler plans ahead of the device, which a new request waits for while others run; none in a
    pipeline.
    hand_over_steps: that a decode worker runs from the arrival of a prompt's cache to its admission
    where others run: a scheduler looks once a step at what the pools have agreed on, allocated and
    sent.
    step_jitter, delivery_jitter: of a simulation's clock, shares of a step's time; see
    `genz_core.serving.simulation.jitter`.
    eager: costs of its unfused kernels, for an engine that was measured running eagerly.
    on_cpu: {figure: value} of those that differ on CPUs, which `genz_core.deploy` puts in place
    there; None for software that runs on no CPU.
    on_start: what its server sets itself by the memory of a device, the first that holds first;
    `genz_core.deployment.as_server` puts it in place.
    loads: formats in which it loads published checkpoints other than they are.
    pads: what it fills up where a degree does not divide it, which it refuses otherwise;
    `genz_core.deploy` tells the model.
    source: origin of the figures; assumptions: figures without a measurement, in words.
    measurements: factors and recipes by device, for `genz_core.deploy` to apply.
    measured_on: the measurements of the system at hand that were applied: "own" (the user's runs
    under load, three at least) or "own_few", "recipe" (this model and format), "device", or "".
    recipe: measured over predicted of the figures under load, ones where none was measured.
    neighbours: measured runs of the model, by which figures under load are corrected.
    version: release, build or month (YYYY-MM) that runs, "" where it is not stated; era: of the
    engine's history that it belongs to, "" for today's; unmeasured: no run of a release like it
    was measured.
    """

    name: str = "generic"
    versions: str = ""
    measured_on: MeasuredOn = ""
    recipe: Recipe = NO_RECIPE
    neighbours: MeasuredRuns | None = None
    version: str = ""
    era: str = ""
    unmeasured: bool = False
    measurements: EngineMeasurements | None = None
    kernel_floor_s: float = 2.5e-6
    launch_s: float = 0.0
    thin_products: bool = False
    compute_efficiency: float = 1.0
    memory_efficiency: float = 1.0
    attention_efficiency: float = 1.0
    four_bit_efficiency: float = 1.0
    expert_efficiency: float = 1.0
    products: str = ""
    moe_floor_s: float = 10e-6
    expert_s: float = 0.03e-6
    host_step_s: float = 5e-4
    host_sequence_s: float = 4e-6
    host_request_s: float = 0.0
    sampling_s: float = 0.0
    all_reduce: str = "nccl"
    scheduler: Literal["vllm", "sglang", "tensorrt_llm", "static"] = "vllm"
    chunk_tokens: int = 8192
    mixed_steps: bool = True
    max_sequences: int = 1024
    memory_fraction: float = 0.92
    free_share: float = 1.0
    reserve_bytes: float = 1.5e9
    kv_block_tokens: int = 16
    reserve_output: float = 0.5
    kv_cache: Literal["checkpoint", "model"] = "checkpoint"
    held_share: float = 1.0
    ahead_steps: float = 0.0
    hand_over_steps: float = 0.0
    step_jitter: float = 0.0
    delivery_jitter: float = 0.0
    source: str = "assumed"
    assumptions: tuple[str, ...] = ()
    eager: EagerFacts | None = None
    on_cpu: Mapping[str, float | str] | None = None
    on_start: tuple[ServerDefaults, ...] = ()
    pads: tuple[Padding, ...] = ()
    loads: tuple[Loading, ...] = ()

    def __repr__(self) -> str:
        """Name, what was measured, and the figures that differ from the generic profile's."""
        plain = {entry.name: entry.default for entry in fields(EngineProfile)}
        figures = [
            f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value!r}"
            for name, value in ((name, getattr(self, name)) for name in plain)
            if isinstance(value, float | int | str) and value != plain[name] and name not in _WORDS
        ]
        measured = [f"measured_on={self.measured_on!r}"] if self.measured_on else []
        return f"EngineProfile({listed([repr(clipped(self.name)), *measured, *figures], 500)})"


#: Fields of a profile that are no figures.
_WORDS = ("name", "version", "versions", "era", "unmeasured", "measured_on", "source")


# ------------------------------------------------------------------------------- fitted constants


@dataclass(frozen=True, slots=True)
class EngineConstant:
    """A constant of an engine that is fitted on whole steps, with the widths of its priors.

    field: of `EngineProfile`.  engine, device, recipe: standard deviations of its logarithm
    between the assumed value and an engine; between the engine and one of its devices; between
    that device and one model and format on it; era: between the engine today and one of its eras.
    0: it does not differ there.
    least: value from which a constant of zero starts.  most: how far its logarithm may rise in an
    engine; a rate cannot pass the hardware's.
    """

    field: str
    engine: float
    device: float = 0.0
    recipe: float = 0.0
    era: float = 0.0
    least: float = 1e-9
    most: float = 3.0


#: The widths are judgement: round figures, chosen by what they gave on configurations, models and
#: devices left out of hardware_db/measurements (docs/accuracy.md, "Limits").
CONSTANTS = (
    EngineConstant("kernel_floor_s", 0.06, 0.3, 0.4, era=0.5),
    EngineConstant("host_step_s", 0.1, 0.4, 0.7, era=0.7),
    EngineConstant("host_sequence_s", 0.1, 0.0, 0.7, era=0.7, least=0.5e-6),
    EngineConstant("moe_floor_s", 0.1, era=0.5),
    EngineConstant("expert_s", 0.1, era=0.5),
    EngineConstant("compute_efficiency", 0.05, 0.3, 0.3, era=0.3, most=0.1),
    EngineConstant("memory_efficiency", 0.02, 0.15, 0.15, era=0.2, most=0.1),
    EngineConstant("attention_efficiency", 0.05, 0.2, 0.2, era=0.3, most=0.1),
    EngineConstant("four_bit_efficiency", 0.5, era=0.3),
    EngineConstant("expert_efficiency", 0.5, era=0.3),
    EngineConstant("host_request_s", 1.0, least=1e-4, most=1.6),
)
FIELDS = tuple(constant.field for constant in CONSTANTS)
#: {constant: value from which it starts where it is zero}.
LEAST: Mapping[str, float] = {constant.field: constant.least for constant in CONSTANTS}
