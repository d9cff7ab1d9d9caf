"""The run configuration: all settings of a measurement, composed from presets and overrides.

    compose(["model=qwen3-8b", "profile=quick", "run.batch=4", "isl=256"]).run.isl  # 256

`model=`, `dataset=`, `runtime=`, `hardware=`, `profile=` and `output=` name presets (a model
without a preset is taken as a model's name, hardware without one as the system to predict with).
Any other key is a field, by its full name or by its last part where that is unambiguous.  Values
are parsed as YAML.  presets/base.yaml explains each field and holds its default.
"""

from __future__ import annotations

import copy
import dataclasses
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from genz_core.errors import InvalidValue, UnknownName
from genz_core.limits import checked_duration, checked_size
from profilers.collect.nsight import Counters
from profilers.runs.config_tree import Tree, lay_over, read_tree, set_field

_FOLDER = Path(__file__).parents[1] / "presets"
GROUPS = ("model", "dataset", "runtime", "hardware", "profile", "output")
_LONGEST_OVERRIDE = 1000


# ------------------------------------------------------------------------------- the sections


@dataclass(frozen=True, slots=True)
class ModelSection:
    """Which model runs.  path: a file or folder of this machine instead of a name, "" for none.
    layers: number of layers to keep, 0 for all.
    """

    name: str
    path: str
    checkpoint: bool
    layers: int

    def __post_init__(self) -> None:
        checked_size("layers", self.layers)


@dataclass(frozen=True, slots=True)
class RunSection:
    """One workload and how it is timed.  threads: of the CPU, 0 for all that are free."""

    batch: int
    isl: int
    osl: int
    device: str
    dtype: str
    attention: str
    compile: bool
    nvtx: bool
    warmup: int
    repeats: int
    threads: int

    def __post_init__(self) -> None:
        for name in ("batch", "isl", "osl", "warmup", "repeats", "threads"):
            checked_size(name, getattr(self, name))


@dataclass(frozen=True, slots=True)
class TorchProfilerSection:
    """Whether operators are profiled, and whether the trace is kept.

    activities: what the profiler records, "cpu", "cuda" and "xpu"; () for the device's usual ones.
    memory, stack: whether the trace holds allocations and source lines.
    """

    enable: bool
    trace: bool
    activities: tuple[str, ...]
    memory: bool
    stack: bool

    def __post_init__(self) -> None:
        for name in self.activities:
            if name not in ("cpu", "cuda", "xpu"):
                raise InvalidValue(f"activities = {name[:40]!r}: choose cpu, cuda, xpu")


@dataclass(frozen=True, slots=True)
class StaticAnalysisSection:
    """Whether FLOPs and bytes of the model's operators are written beside the run."""

    enable: bool


@dataclass(frozen=True, slots=True)
class NsysSection:
    """Nsight Systems around the run: APIs to trace, CPU sampling, the range to record."""

    enable: bool
    trace: tuple[str, ...]
    sample: str
    capture: str
    nvtx_capture: str


@dataclass(frozen=True, slots=True)
class NcuSection:
    """Nsight Compute around the run.  topk: number of kernels to profile, chosen from the nsys
    timeline where nsys runs too.

    metrics, sections, set, replay: what it counts and how, as `Counters.of` reads them.
    """

    enable: bool
    nvtx_expr: str
    topk: int
    metrics: str
    sections: str
    set: str
    replay: str

    def __post_init__(self) -> None:
        checked_size("kernels", self.topk, "topk")
        self.counters()

    def counters(self) -> Counters:
        """The counters that this section asks for."""
        return Counters.of(self.metrics, self.sections, self.set, self.replay)


@dataclass(frozen=True, slots=True)
class SweepSection:
    """A grid of single steps.  batches, lengths: "1:8:x2" or "1,2,4"; batches "": no sweep."""

    batches: str
    lengths: str
    phases: str
    rounds: int

    def __post_init__(self) -> None:
        checked_size("rounds", self.rounds)


@dataclass(frozen=True, slots=True)
class RanksSection:
    """Processes that share the model.  tp: their number, 0 for a run without ranks."""

    tp: int
    timeout_s: float

    def __post_init__(self) -> None:
        checked_size("ranks", self.tp, "tp")
        checked_duration("timeout_s", self.timeout_s)


@dataclass(frozen=True, slots=True)
class PromptsSection:
    """Prompts instead of one workload.  files: JSONL, see `profilers.prompt_sizes`.

    lengths: a distribution instead of files, "" for none.  samples: number of prompts, 0 for all.
    shuffle: run them in an order drawn from `seed`.
    """

    files: tuple[str, ...]
    lengths: str
    samples: int
    shuffle: bool
    seed: int

    def __post_init__(self) -> None:
        checked_size("prompts", self.samples, "samples")


@dataclass(frozen=True, slots=True)
class PredictSection:
    """What the run is compared with.  system: a slug, or "auto" for the device that ran."""

    system: str


# ------------------------------------------------------------------------------- the whole


@dataclass(frozen=True, slots=True)
class RunConfig:
    """All settings of a measurement, section by section as in a run file."""

    model: ModelSection
    run: RunSection
    torch_profiler: TorchProfilerSection
    static_analysis: StaticAnalysisSection
    nsys: NsysSection
    ncu: NcuSection
    sweep: SweepSection
    ranks: RanksSection
    prompts: PromptsSection
    predict: PredictSection

    @classmethod
    def from_tree(cls, tree: Mapping[str, Mapping[str, Any]]) -> RunConfig:
        """The configuration that a complete mapping of sections holds."""
        sections = typing.get_type_hints(cls)
        return cls(**{name: sections[name](**_frozen(tree[name])) for name in sections})

    def to_dict(self) -> Tree:
        """Mappings, lists and plain values, in the order of a run file."""
        return {
            section.name: {
                key: list(value) if isinstance(value, tuple) else value
                for key, value in dataclasses.asdict(getattr(self, section.name)).items()
            }
            for section in dataclasses.fields(self)
        }

    def with_fields(self, **sections: Mapping[str, Any]) -> RunConfig:
        """The configuration with some fields replaced, as in with_fields(run={"batch": 4})."""
        changed = {
            name: dataclasses.replace(getattr(self, name), **_frozen(fields))
            for name, fields in sections.items()
        }
        return dataclasses.replace(self, **changed)


def _frozen(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a section, lists as tuples."""
    return {
        key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()
    }


def presets(group: str) -> list[str]:
    """Names of the presets of a group of `GROUPS`."""
    return sorted(path.stem for path in (_FOLDER / group).glob("*.yaml"))


def compose(overrides: Sequence[str] = (), file: Path | None = None) -> RunConfig:
    """The run configuration: the base, then a run file, presets and single fields, each over the
    previous.

    Args:
        overrides: "GROUP=NAME" or "field=value"; presets come before fields, in their order.
        file: a run file, complete or partial.

    Raises:
        InvalidValue: an unknown field, a value of another type or outside its limits, or invalid
            YAML.
        UnknownName: no such preset.
    """
    base = read_tree(_FOLDER / "base.yaml")
    tree = copy.deepcopy(base)
    if file is not None:
        lay_over(tree, read_tree(file), base, file.name)
        _resolve_beside(tree, file)
    pairs = [_key_and_text(text) for text in overrides]
    for group, name in (pair for pair in pairs if pair[0] in GROUPS):
        lay_over(tree, _preset(group, name), base, f"{group}={name}")
    for key, text in (pair for pair in pairs if pair[0] not in GROUPS):
        set_field(tree, key, text, base)
    return RunConfig.from_tree(tree)


def _resolve_beside(tree: Tree, file: Path) -> None:
    """Resolve a relative model path against the folder of the run file, if the model
    exists there.
    """
    path = tree["model"]["path"]
    if isinstance(path, str) and path and not Path(path).is_absolute():
        beside = file.parent / path
        tree["model"]["path"] = str(beside.absolute()) if beside.exists() else path
    tree["prompts"]["files"] = [
        str((file.parent / name).absolute()) if (file.parent / name).is_file() else name
        for name in tree["prompts"]["files"]
    ]


def dump(config: RunConfig) -> str:
    """The configuration as a run file that `compose` reads back."""
    return yaml.safe_dump(config.to_dict(), sort_keys=False)


def _key_and_text(override: str) -> tuple[str, str]:
    if len(override) > _LONGEST_OVERRIDE:
        raise InvalidValue(f"{override[:40]!r}… is too long for an override; write field=value")
    key, separator, value = override.partition("=")
    if not (separator and key.strip()):
        raise InvalidValue(f"{override!r} is not an override; write field=value")
    return key.strip(), value.strip()


def _preset(group: str, name: str) -> Tree:
    """The partial tree of a preset; a model without a preset is taken as a model's name."""
    if name in presets(group):
        return read_tree(_FOLDER / group / f"{name}.yaml")
    if group == "model" and name:
        return {"model": {"name": name}}
    if group == "hardware" and name:
        return {"predict": {"system": name}}
    raise UnknownName(group, name, presets(group), f"there are {', '.join(presets(group))}")
