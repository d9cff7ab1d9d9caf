"""Profiles of serving software: constants, scheduling policy, and measurements for both."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal

import numpy as np

from genz_core.common.short_repr import clipped, listed
from genz_core.errors import InvalidValue
from genz_core.measured_runs import MeasuredRuns
from genz_core.types import Mask, Num

MeasuredOn = Literal["", "device", "recipe", "own", "own_few"]
#: Names of the schedulers that an engine or an option may choose.
SchedulerName = Literal["vllm", "sglang", "tensorrt_llm", "static"]
#: Least number of the user's own runs for which calibration was validated (`app/engine_fit`).
TRIED_RUNS = 3


@dataclass(frozen=True, slots=True)
class Recipe:
    """Measured over predicted figures for one engine, model, system and weight format.

    points: number of measured runs behind the scales.
    """

    tpot_scale: float = 1.0
    ttft_scale: float = 1.0
    points: int = 0


NO_RECIPE = Recipe()


@dataclass(frozen=True, slots=True)
class RecipeKey:
    """Key of a recipe: engine, model, system and weight format.

    engine: a profile's name.  parameters: of the model; they identify an architecture under any
    name.
    system: a slug.  weights: format of the bulk of the weights.
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
        """Value of `EngineProfile.measured_on` for a profile with this recipe applied."""
        if not self.own:
            return "recipe"
        return "own" if self.scales.points >= TRIED_RUNS else "own_few"


@dataclass(frozen=True, slots=True)
class EngineMeasurements:
    """Measured factors of one engine's constants by device, and its measured recipes.

    devices: {slug: {constant: factor}}, on top of those of their silicon.  silicon: {family:
    {constant: factor}}, for all boards of a family.  runs: keyed by the parameters of their model.
    eras: {era: {constant: factor}}, for releases that behaved differently from today's.
    past: slugs and families for which only such releases were measured; their factors do not apply
    to today's.
    """

    devices: Mapping[str, Mapping[str, float]]
    recipes: Mapping[RecipeKey, MeasuredRecipe]
    runs: Mapping[int, MeasuredRuns] = field(default_factory=dict)
    eras: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    silicon: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    past: frozenset[str] = frozenset()


# ------------------------------------------------------------------------------- the profile


@dataclass(frozen=True, slots=True)
class EagerFacts:
    """Costs of eager execution on one machine, measured by running its pieces separately.

    host_layer_s: host time of one decoder layer, host_step_s: of a step outside of the layers; both
    with cold caches, as after a product has read its weights through them.
    *_passes: memory traffic of the unfused form over that of the fused one.
    expand_groups: 1 where attention runs as on CPUs, see `genz_core.eager.cpu_attention`.
    whole_step: 1 where one attention serves all sequences of a step, see
    `genz_core.eager.masked_attention`.
    """

    host_layer_s: float
    host_step_s: float
    norm_passes: float = 1.0
    rope_passes: float = 1.0
    activation_passes: float = 1.0
    append_passes: float = 1.0
    expand_groups: float = 0.0
    whole_step: float = 0.0


@dataclass(frozen=True, slots=True)
class ServerDefaults:
    """Defaults that an engine's server chooses on some devices.

    below_bytes: they apply to devices with less memory.  named: parts of slugs of further devices
    that they apply to.
    figures: {field of `EngineProfile`: value}.
    outside_bytes: memory that weights and cache leave to everything else; 0 where none is stated.
    """

    below_bytes: float
    named: tuple[str, ...]
    figures: Mapping[str, float | str]
    outside_bytes: float = 0.0

    def holds(self, slug: str, memory_bytes: float) -> bool:
        """Whether the defaults apply to a device."""
        return memory_bytes < self.below_bytes or any(part in slug for part in self.named)

    def on(self, memory_bytes: float) -> dict[str, float | str]:
        """{field of `EngineProfile`: value} on a device with this memory."""
        share = {"memory_fraction": max(1.0 - self.outside_bytes / memory_bytes, 0.0)}
        return {**self.figures, **(share if self.outside_bytes else {})}


@dataclass(frozen=True, slots=True)
class Padding:
    """What an engine pads: sizes to the next multiple of a degree that does not divide them, and
    the cache of layers with a window.

    what: "experts", padded with redundant copies; "heads" of an attention and columns of a
    feed-forward, padded with empty ones; or "windows", whose layers keep whole sequences in the
    cache.  vendors: of the systems on which it does; () for all.
    """

    what: Literal["experts", "heads", "windows"]
    vendors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Loading:
    """The format in which an engine loads a published checkpoint when the user chose none.

    of: a format among its weights.  to: the format used instead, for the `roles` where some are
    named (see `Precision`), otherwise for all.
    """

    of: str
    to: str
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """Costs that serving software adds to its kernels, and its scheduling policy.

    kernel_floor_s: start and drain of one kernel inside this engine's graphs.
    floor_clock_hz: clock of the GPU for which `kernel_floor_s` and `moe_floor_s` are stated; on an
    NVIDIA GPU of another clock they take as many cycles.  0 for floors that are host time.
    launch_s: host time to launch an operator; it is hidden behind a longer preceding operator.
    prompt_launch_s: host time to launch an operator of a step that replays no captured graph,
    hidden while the device works; see `launching_s`.
    graph_tokens: most tokens of a captured step, infinite where no limit is modelled.
    graph_multiple: likewise over the tokens of the most sequences that decode in a step, see
    `captured_tokens`.  graph_models: {model type: most tokens of a captured step} of models with a
    limit of their own; `genz_core.deploy` applies it.  graph_prompt_tokens: most tokens of a
    captured step with prompts, 0 if none is captured.  graph_option: of its server that raises the
    limit, "" where there is none.
    thin_products: matrix products with few rows have special kernels in every format.
    compute_efficiency, memory_efficiency: rates of its kernels over those of the kernels that the
    system's latency profile was fitted to.  These and the three below are relative to the profile,
    not shares of the peak, and above one if the engine's kernels are faster.  No kernel takes less
    than its roofline bound.
    attention_efficiency: likewise for its prefill attention, on top of compute_efficiency.
    score_bytes: bytes that its prefill attention moves for each query, key and head if its kernels
    keep the scores in memory; 0 for fused kernels.
    four_bit_efficiency: the rate at which its products read 4-bit blocks, over the profile's, where
    the hardware multiplies in 4 bits.  expert_efficiency: likewise for experts with 4-bit weights,
    on any hardware.
    vector_weights: packed weights that a compute unit unpacks and multiplies with one row per clock
    in matrix-vector kernels; 0 where the engine has none.
    products: arithmetic type whose peak limits its products with weights, if the system states one
    ("int8" for kernels that quantise activations themselves); `compute_efficiency` then refers to
    this peak.  "" for the type of the formats.
    pass_tokens: most tokens that its products take at once, if it divides a step's tokens among
    several passes; 0 for all of a step.
    moe_floor_s: least time of routing, permutation and grouped products of one layer.
    expert_s: bookkeeping per expert on the device and layer.
    host_step_s, host_sequence_s: host and scheduler time per step and per running sequence.
    host_request_s: once per request (admit, first reply).  host_token_s: per token of its prompt
    (receive, tokenise, hash, pass on).
    sampling_s: per step, on top of the sampling operator.
    all_reduce: algorithm inside a scale-up domain: "nccl" (rings), "tree", "custom",
    "in_network", or "switched": "custom" behind a switch and rings elsewhere.
    scheduler: the policy that a simulation runs (`genz_core.serving.simulation.policies`).
    chunk_tokens: most tokens of a step, 0 for as many as the longest prompt has.  mixed_steps:
    prompts and decodes share a step (otherwise prefill goes first and decodes wait).
    chunked_prefill: whether a prompt that does not fit into a step is prefilled in chunks; None for
    the scheduler's default.  chunking_option: whether the engine has an option for it.
    whole_tokens: most tokens of a step if chunked prefill, the default, is switched off, 0 for
    `chunk_tokens`; a step then always has room for a whole sequence.
    max_sequences: most sequences of a step.  memory_fraction: share of device memory that the
    engine uses; free_share: share of the memory left by the weights that the cache uses.
    reserve_bytes: runtime context, graphs and workspace inside that memory; less on small devices,
    see `genz_core.capacity.memory.RESERVE_SHARE`.
    shared_beside: shared experts run while the routed ones do, see `genz_core.beside`.
    kv_block_tokens: cache granularity.  reserve_output: fraction of the output length whose
    cache is reserved on admission.  kv_cache: format of the cache if the user chose only a weight
    format: that of published checkpoints with this weight format ("checkpoint"), or the model's own
    type ("model"), unless the weight format implies one.
    held_share: share of a stream interval by which the first token is delayed.  ahead_steps: steps
    that the scheduler plans ahead of the device; a new request waits for them while others run;
    none in a pipeline.
    hand_over_steps: steps that a busy decode worker runs between the arrival of a prompt's KV cache
    and its admission, because the scheduler checks for transfers once per step.
    step_jitter, delivery_jitter: of a simulation's clock, shares of a step's time; see
    `genz_core.serving.simulation.jitter`.
    eager: costs of its unfused kernels, for an engine that was measured running eagerly.
    on_cpu: {figure: value} of figures that differ on CPUs, which `genz_core.deploy` applies there;
    None for software that does not run on CPUs.
    on_start: defaults that its server chooses by the memory of a device, in order of precedence;
    `genz_core.deployment.as_server` applies them.
    loads: published checkpoints that it loads in another format.
    pads: sizes that it pads if a degree does not divide them (others are refused); and windows.
    `genz_core.deploy` tells the model.
    source: origin of the figures; assumptions: figures without a measurement, in words.
    measurements: factors and recipes by device, for `genz_core.deploy` to apply.
    measured_on: the measurements of the system at hand that were applied: "own" (the user's runs
    under load, three at least) or "own_few", "recipe" (this model and format), "device", or "".
    recipe: measured over predicted figures under load, ones where none was measured.
    neighbours: measured runs of the model, which correct figures under load.
    version: release, build or month (YYYY-MM) that runs, "" where it is not stated; era: the era
    that the version belongs to, "" for today's; unmeasured: no run of such a release was measured.
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
    floor_clock_hz: float = 0.0
    launch_s: float = 0.0
    prompt_launch_s: float = 0.0
    graph_tokens: float = math.inf
    graph_multiple: float = math.inf
    graph_models: Mapping[str, float] = field(default_factory=dict)
    graph_prompt_tokens: float = 0.0
    graph_option: str = ""
    thin_products: bool = False
    compute_efficiency: float = 1.0
    memory_efficiency: float = 1.0
    attention_efficiency: float = 1.0
    score_bytes: float = 0.0
    four_bit_efficiency: float = 1.0
    expert_efficiency: float = 1.0
    vector_weights: float = 0.0
    products: str = ""
    pass_tokens: float = 0.0
    moe_floor_s: float = 10e-6
    expert_s: float = 0.03e-6
    host_step_s: float = 5e-4
    host_sequence_s: float = 4e-6
    host_request_s: float = 0.0
    host_token_s: float = 0.0
    sampling_s: float = 0.0
    all_reduce: str = "nccl"
    scheduler: SchedulerName = "vllm"
    chunk_tokens: int = 8192
    mixed_steps: bool = True
    chunked_prefill: bool | None = None
    chunking_option: bool = True
    whole_tokens: int = 0
    shared_beside: bool = False
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

    @property
    def whole_prompts(self) -> bool:
        """Whether prompts are never prefilled in chunks: each takes a single step."""
        if self.chunked_prefill is None:
            return not cuts_prompts(self.scheduler)
        return not self.chunked_prefill

    def intake_s(self, prompt_tokens: Num) -> Num:
        """Time from a request's arrival until the scheduler has it [s].

        prompt_tokens: of its whole prompt, including cached ones.
        """
        return self.host_request_s + self.host_token_s * prompt_tokens

    def captured_tokens(self, query: Num = 1.0, sequences: Num = 0.0) -> Num:
        """Most tokens of a step of a rank that its server captured as a graph of the device.

        query: tokens of a sequence that decodes.  sequences: most in a step of a rank, 0 for the
        engine's default.
        """
        most = np.where(np.greater(sequences, 0.0), sequences, self.max_sequences)
        return np.minimum(self.graph_tokens, self.graph_multiple * most * query)

    def replayed_tokens(self, captured: Num, reads: Mask | bool) -> Num:
        """Most tokens of a step that replays a graph.

        captured: see `captured_tokens`.  reads: whether the step has prompts.
        """
        with_prompts = np.minimum(captured, self.graph_prompt_tokens)
        return np.where(reads, with_prompts, captured)

    def launching_s(
        self, operators: Num, device_s: Num, tokens: Num, reads: Mask | bool, captured: Num
    ) -> Num:
        """Time for which the device waits for the launches of a step [s].

        The host launches the operators of a step that replays no graph one by one, ahead of the
        device as long as it is slower.

        operators: that are launched.  device_s: their time.  tokens: new ones of the rank.
        reads, captured: as of `replayed_tokens`.
        """
        if not self.prompt_launch_s:
            return 0.0
        waits = np.maximum(operators * self.prompt_launch_s - device_s, 0.0)
        return np.where(np.greater(tokens, self.replayed_tokens(captured, reads)), waits, 0.0)

    @property
    def launches_decodes(self) -> bool:
        """Whether steps that only decode wait for launches beyond a number of tokens."""
        return bool(self.prompt_launch_s) and min(self.graph_tokens, self.graph_multiple) < math.inf

    def cutting_prompts(self, cut: bool) -> EngineProfile:
        """The engine with chunked prefill on or off; unchanged if that is its default.

        Raises:
            InvalidValue: it has no such option.
        """
        if not self.chunking_option:
            raise InvalidValue(
                f"chunked_prefill: {self.name} has no option for it: leave it out, or choose "
                "another engine, such as vllm, sglang or trtllm"
            )
        told = None if cut == cuts_prompts(self.scheduler) else cut
        return replace(self, chunked_prefill=told)

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


def cuts_prompts(scheduler: SchedulerName | str) -> bool:
    """Whether a scheduler cuts prompts by default."""
    return scheduler != "tensorrt_llm"


#: Fields of a profile that are not figures.
_WORDS = ("name", "version", "versions", "era", "unmeasured", "measured_on", "source")
