"""Page Modules: entries are found, evaluated and placed under the roofline."""

from __future__ import annotations

import hardware_db
from app.dashboard.panels import modules
from model_registry.modules import read_entry
from model_registry.modules.store import stored_names
from tests.app.pages import charts, opened
from tests.rules import for_every


def test_a_linear_at_typed_sizes_has_the_counts_of_its_products():
    """2 m n k and its bias; reads and writes 16-bit values."""
    app = opened("modules", find="linear.Linear", module_batch=2, module_new_tokens=8,
                 module_in_features=16, module_out_features=32)  # fmt: skip
    assert not app.exception and app.subheader[0].value == "Linear"
    named = {metric.label: metric.value for metric in app.metric}
    assert named["FLOPs"] == "16.9 kFLOP"  # 2 x 2 x 8 x 16 x 32 + 2 x 8 x 32
    assert named["Bytes written"] == "1.02 kB"
    assert len(app.latex) == 4 and len(charts(app)) == 1


def test_a_name_that_no_entry_has_says_what_to_try():
    app = opened("modules", find="no such class")
    assert not app.exception and "try attention" in app.info[0].value


@for_every([(name,) for name in stored_names()])
def test_every_entry_has_its_bound_on_the_roofline_or_no_arithmetic(name):
    entry, system = read_entry(*name), hardware_db.load("h100")
    figures = entry.evaluate(**{s: modules.USUAL.get(s, 1024) for s in entry.symbols})
    for row in modules.on_roofline(entry, figures, system, "bf16"):
        moved = figures["read_bytes"] + figures["write_bytes"]
        limits = figures["flops"] / system.peak("bf16"), moved / system.memory_bytes_per_s
        assert row["time_s"] == max(limits)
        assert row["flops_per_s"] <= system.peak("bf16") * (1 + 1e-12)
    for formula in entry.formulas.values():
        written = modules.latex(formula.text()).replace(r"\mathit{", "").replace("^{", "")
        assert "{" not in written
