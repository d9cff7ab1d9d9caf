"""Rewrites from the reference code's operators to an engine's: named, and disabled by name."""

import numpy as np
import pytest

from genz_core.errors import InvalidValue
from genz_core.graphs import Model
from genz_core.types import Parallelism, Step
from model_registry.reports.symbolic import analysed, graph_total
from model_registry.tracing import REWRITES, trace
from tests.model_registry.tracing_cases import tiny

pytestmark = pytest.mark.usefixtures("transformers")

#: Config keys of latent attention with routed experts.
USED = {
    "fused_activation", "fused_norm", "kv_append", "last_token_head", "merged_projections",
    "mla_absorbed", "rotary", "routed_experts",
}  # fmt: skip


def test_a_graph_names_the_rewrites_that_changed_something() -> None:
    model = trace(tiny("deepseek_v3"))
    assert set(model.program.rewrites) == USED
    named = {note.partition(": ")[0] for note in model.notes if note.partition(": ")[0] in REWRITES}
    assert named == USED


@pytest.mark.parametrize("name", sorted(USED))
def test_a_rewrite_that_is_switched_off_is_not_named(name: str) -> None:
    model = trace(tiny("deepseek_v3"), without=[name])
    assert set(model.program.rewrites) == USED - {name}


def test_without_its_rewrite_latent_attention_expands_and_every_expert_runs() -> None:
    config, step = tiny("deepseek_v3"), Step.decode(4.0, 500.0)

    def flops(without: tuple[str, ...], *classes: str) -> float:
        return graph_total(
            trace(config, without=without).graph(step, Parallelism()), "flops", classes
        )

    assert flops(("mla_absorbed",)) > 3 * flops(())
    assert flops(("routed_experts",), "moe") == pytest.approx(2 * flops((), "moe"))


def test_leaving_a_rewrite_out_leads_to_the_trace() -> None:
    config, at = tiny("mixtral"), {"batch": 1, "new_tokens": 1, "context": 8}
    whole, less = (analysed(config, **at, without=w) for w in ((), ("routed_experts",)))
    assert (whole["source"], less["source"]) == ("builder", "trace")
    assert less["total"]["flops"] > whole["total"]["flops"]


def test_an_unknown_rewrite_is_refused() -> None:
    with pytest.raises(InvalidValue, match="no rewrite is called 'magic'"):
        trace(tiny("llama"), without=["magic"])


def test_a_prefill_runs_the_head_once_a_sequence_unless_told_otherwise() -> None:
    step = Step.prefill(2.0, 50.0)

    def rows(model: Model) -> float:
        head = next(op for op in model.graph(step, Parallelism()).ops if op.name == "lm_head")
        return float(np.asarray(head.dims["m"]))

    assert rows(trace(tiny("llama"))) == 2.0
    assert rows(trace(tiny("llama"), without=["last_token_head"])) == 100.0
