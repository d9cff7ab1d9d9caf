"""`trace`: from a Hugging Face config to a `TracedModel` that the engine prices like any other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from genz_core.errors import InvalidValue, RidgelineError, UnsupportedModel
from genz_core.graphs import Graph
from genz_core.types import Parallelism, Precision, Step
from model_registry.blocks.frame import DeviceFrame
from model_registry.graph.parallel_limits import fillable, invalid_reason
from model_registry.kinds import refuse_other_kinds
from model_registry.quantization.resolve import resolve_precision
from model_registry.spec import Block, FeedForward, Layer, ModelSpec
from model_registry.tracing import program_cache
from model_registry.tracing.calls import Program, ProgramCall
from model_registry.tracing.checks import checked_config
from model_registry.tracing.lowering import lower_block
from model_registry.tracing.meta_model import build_on_meta, one_line, quiet
from model_registry.tracing.mixers import spec_block
from model_registry.tracing.named_class import check_named_class
from model_registry.tracing.rewrites import REWRITES

_SIXTEEN_BIT = Precision(source="16 bit")


@dataclass(frozen=True)
class TracedModel:
    """A model known only from its trace; satisfies `genz_core.graphs.Model`.

    program: its operators.  precision: its checkpoint's formats.  remarks: notes on its config and
    its formats, from before the trace.  filled: as in `DescribedModel`.
    """

    name: str
    program: Program
    precision: Precision = _SIXTEEN_BIT
    max_context: int | None = None
    source: str = "trace"
    remarks: tuple[str, ...] = ()
    filled: frozenset[str] = frozenset()
    _spec: ModelSpec = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        table = next((c for c in _calls(self.program) if c.operator == "embedding"), None)
        width, rows = (table.size("width"), table.size("rows")) if table else (0.0, 0.0)
        stream = next(
            (c.size("width") for c in _calls(self.program) if c.name == "pipeline_send"), width
        )
        layers = _layers(self.program)
        spec = ModelSpec(self.name, self.program.model_type, int(stream), int(rows), layers)
        object.__setattr__(self, "_spec", spec)

    def __repr__(self) -> str:
        weights = " and ".join(sorted(set(self.precision.weights.values())))
        return (
            f"TracedModel({self.name[:80]!r}: {len(self._spec.layers)} layers, "
            f"{self.parameters:,.0f} parameters, weights {weights}, cache {self.precision.kv})"
        )

    @property
    def parameters(self) -> float:
        """Parameters of the language model, tied embeddings once."""
        return self.program.parameters

    @property
    def active_parameters(self) -> float:
        """Parameters used for one token: all but the experts that it is not routed to."""
        return self.program.active

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks, rewrites, assumptions, and keys that the class ignored or filled in."""
        rewritten = tuple(f"{name}: {REWRITES[name]}" for name in self.program.rewrites)
        keys = []
        if self.program.ignored:
            ignored = ", ".join(self.program.ignored)
            keys.append(f"keys of the config that the class ignores: {ignored}")
        if self.program.defaulted:
            keys.append(f"keys it took a default for: {', '.join(self.program.defaulted)}")
        origin = f"traced from {self.program.class_name}"
        return (*self.remarks, origin, *rewritten, *self.program.notes, *keys)

    def padded(self, what: frozenset[str]) -> TracedModel:
        """The same model under an engine that pads experts; nothing else is padded."""
        useful = what & fillable(self._spec) & {"experts"}
        return self if useful <= self.filled else replace(self, filled=self.filled | useful)

    def with_precision(self, precision: Precision) -> TracedModel:
        """The same trace in other number formats; its notes are unchanged."""
        return replace(self, precision=precision)

    def graph(self, step: Step, parallelism: Parallelism) -> Graph:
        """The operators of one step on one device of the split."""
        frame = DeviceFrame.for_step(self._spec, self.precision, step, parallelism)
        ops = tuple(op for block in self.program.blocks for op in lower_block(block, frame))
        return Graph(ops, self.program.layers, self.notes)

    def invalid(self, parallelism: Parallelism) -> str | None:
        """Why these (scalar) degrees cannot split the model, with the nearest that can."""
        return invalid_reason(self._spec, parallelism, self.filled)


def _layers(program: Program) -> tuple[Layer, ...]:
    """The blocks of all layers that a split divides, in the form of a builder's."""
    layers: dict[int, Layer] = {}
    for block in program.blocks:
        parts = tuple(part for call in block.calls for part in _divided_blocks(call))
        layers |= dict.fromkeys(block.layers, Layer(parts))
    return tuple(layers[at] for at in sorted(layers))


def _divided_blocks(call: ProgramCall) -> Iterator[Block]:
    if call.block:
        yield spec_block(call)
    elif call.operator == "gemm" and call.role == "mlp.down":
        yield FeedForward(int(call.size("k")))


def _calls(program: Program) -> list[ProgramCall]:
    return [call for block in program.blocks for call in block.calls]


def trace(
    config: Mapping[str, Any],
    *,
    name: str = "",
    hf_quant_config: Mapping[str, Any] | None = None,
    without: Collection[str] = (),
    use_cache: bool = True,
) -> TracedModel:
    """The model of a Hugging Face config, traced without weights, GPU or network.

    hf_quant_config: the checkpoint's quantisation map, where there is one.
    without: names of `REWRITES` to leave out.  use_cache: read and store programs on disk.

    Raises:
        NotADecoder: the config is of another kind than a decoder.
        UnsupportedModel: transformers has no class for it, or the class needs remote code.
        InvalidValue: a config that does not describe a model.
        MissingSpec: torch or transformers is not installed.
    """
    unknown = sorted(set(without) - set(REWRITES))
    if unknown:
        raise InvalidValue(f"no rewrite is called {unknown[0]!r}; known: {', '.join(REWRITES)}")
    plain = checked_config(config)
    refuse_other_kinds(plain, name)
    label = name or str(plain.get("_name_or_path") or plain.get("model_type", "traced model"))
    precision = resolve_precision(plain, hf_quant_config)
    stored = program_cache.program_key(plain, without) if use_cache else ""
    program = program_cache.read_program(stored) if use_cache else None
    if program is None:
        program = _program(plain, without)
        if use_cache:
            program_cache.write_program(stored, program)
    return TracedModel(label, program, precision, _context(plain))


def is_kept(config: Mapping[str, Any]) -> bool:
    """Whether `trace` finds the program of a config on disk.

    Raises:
        InvalidValue: a config that does not describe a model.
    """
    stored = program_cache.program_key(checked_config(config), ())
    return program_cache.read_program(stored) is not None


def _program(plain: dict[str, Any], without: Collection[str]) -> Program:
    from model_registry.tracing.assembly import assemble

    instance = build_on_meta(plain)
    try:
        with quiet():
            check_named_class(plain, instance.config, instance.model)
            return assemble(instance, without)
    except RidgelineError:
        raise
    except Exception as error:  # noqa: BLE001
        raise UnsupportedModel(
            f"{type(instance.model).__name__} cannot be run without weights: {one_line(error)}"
        ) from None


def _context(plain: Mapping[str, Any]) -> int | None:
    """Tokens that the positions allow, None where the config does not state them."""
    text = plain.get("text_config")
    for source in (plain, text if isinstance(text, dict) else {}):
        for key in ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length"):
            value = source.get(key)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None
