"""Draft and verify: the graph, memory and price of both models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import genz_core
from genz_core.capacity.memory import memory
from genz_core.engine import EngineProfile
from genz_core.errors import InvalidValue
from genz_core.models.acceptance import Acceptance
from genz_core.models.speculative import Speculation, SpeculativeModel, draft_parallelism
from genz_core.types import Group, Parallelism, Precision, Step, Workload

ENGINE = EngineProfile(host_step_s=0.0, host_sequence_s=0.0)
THREE = Acceptance((0.8, 0.6, 0.4))


def speculating(model, method="draft_model", modules=1, acceptance=THREE) -> SpeculativeModel:
    draft = None if method == "ngram" else replace(model, name="draft")
    return SpeculativeModel(model, Speculation(method, acceptance, draft, modules))


def price(model, system, group, parallelism=None):
    return genz_core.mixed(model, system, [group], parallelism, ENGINE)


def total(model, system, group, parallelism=None) -> float:
    return float(price(model, system, group, parallelism).total_s[0])


def test_ngrams_cost_a_verification(model, system):
    step = total(speculating(model, "ngram"), system, Group(8.0, 1.0, 100.0))
    alone = total(model, system, Group(8.0, 4.0, 100.0, drafted=3.0, sampled=4.0))
    assert step == pytest.approx(alone)


@pytest.mark.parametrize("degrees", [{}, {"tp": 2}, {"dp": 4}])
def test_a_step_is_a_verification_and_as_many_passes_of_the_draft_as_tokens(model, system, degrees):
    par = Parallelism(**degrees)
    sizes = 8.0 * par.dp
    step = total(speculating(model), system, Group(sizes, 1.0, 100.0), par)
    parts = (
        Group(sizes, 4.0, 100.0, drafted=3.0, sampled=4.0),
        Group(sizes, 4.0, 100.0, drafted=3.0),
        Group(sizes, 1.0, 104.0),
        Group(sizes, 1.0, 104.0),
    )
    assert step == pytest.approx(sum(total(model, system, part, par) for part in parts))


def test_every_module_in_use_reads_all_tokens_of_a_step(model, system):
    step = total(speculating(model, "mtp", modules=2), system, Group(8.0, 1.0, 100.0))
    verify = total(model, system, Group(8.0, 4.0, 100.0, drafted=3.0, sampled=4.0))
    extend = total(model, system, Group(8.0, 4.0, 100.0, drafted=3.0))
    single = total(model, system, Group(8.0, 1.0, 104.0))
    assert step == pytest.approx(verify + 2 * extend + single)


def test_a_prompt_is_read_by_both_and_drafted_for(model, system):
    step = total(speculating(model), system, Group(2.0, 500.0, 0.0))
    parts = [Group(2.0, 500.0, 0.0)] * 2 + [Group(2.0, 1.0, 500.0)] * 2
    assert step == pytest.approx(sum(total(model, system, part) for part in parts))


def test_a_step_of_both_phases_side_by_side_is_priced_as_each_alone(model, system):
    both = Group(np.array([8.0, 2.0]), np.array([1.0, 500.0]), np.array([100.0, 0.0]))
    apart = [Group(8.0, 1.0, 100.0), Group(2.0, 500.0, 0.0)]
    together = price(speculating(model), system, both).total_s
    assert together == pytest.approx([total(speculating(model), system, one) for one in apart])


@pytest.mark.parametrize("modules", [1, 2, 3])
def test_weights_and_cache_of_target_and_modules_are_held_once(model, system, modules):
    load, par = Workload(4, 100, 100), Parallelism()
    alone = memory(model, system, load, par, ENGINE)
    both = memory(speculating(model, "mtp", modules), system, load, par, ENGINE)
    assert both.weights_bytes == pytest.approx((1 + modules) * alone.weights_bytes)
    # space for the drafted tokens too, because engines reserve their slots
    assert both.kv_bytes == pytest.approx((1 + modules) * alone.kv_bytes, rel=0.03)
    assert np.all(both.kv_bytes > (1 + modules) * alone.kv_bytes)


def test_a_draft_sits_on_the_last_stage_of_a_pipeline(model, system):
    par = Parallelism(pp=2)
    step = price(speculating(model), system, Group(8.0, 1.0, 100.0), par)
    drafts = [op for op in step.graph.ops if op.name.startswith("draft")]
    assert drafts and all(op.stage == "last" and not op.layers for op in drafts)
    assert not [op for op in drafts if op.kind == "send_recv"]


def test_a_draft_that_tp_cannot_divide_is_copied(model):
    class Narrow(type(model)):
        def invalid(self, parallelism):
            return "too narrow" if parallelism.tp > 2 else None

    split = draft_parallelism(Narrow(), Parallelism(tp=np.array([1, 2, 4]), pp=4, dp=2))
    assert split.tp.tolist() == [1, 2, 1] and split.pp == 1 and split.dp == 2


def test_the_cache_of_the_draft_is_kept_in_the_targets_format(model):
    changed = speculating(model).with_precision(Precision(kv="fp8"))
    assert changed.precision.kv == changed.speculation.draft.precision.kv == "fp8"


def test_a_target_keeps_its_name_and_size_and_says_what_drafts(model):
    both = speculating(model)
    assert (both.name, both.parameters) == (model.name, model.parameters)
    assert "draft_model (draft) drafts 3 tokens per step, which yield 2.80 tokens" in both.notes[-1]


@pytest.mark.parametrize("method", ["draft_model", "eagle", "mtp"])
def test_a_method_without_its_draft_is_refused(method):
    with pytest.raises(InvalidValue, match=f"{method} needs a draft model"):
        Speculation(method, THREE)


def test_ngrams_with_a_draft_are_refused(model):
    with pytest.raises(InvalidValue, match="n-grams need no draft"):
        Speculation("ngram", THREE, model)


def test_without_speculation_nothing_changes(model, system):
    plain = model.graph(Step.decode(8.0, 100.0), Parallelism())
    assert all("drafted" not in op.dims for op in plain.ops)
