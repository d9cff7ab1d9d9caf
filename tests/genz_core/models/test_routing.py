"""The busiest rank of routed experts by hand, and the effect of copies."""

import numpy as np
import pytest

from genz_core.errors import InvalidValue
from genz_core.models.routing import busiest_rank


def test_the_busiest_rank_by_hand():
    """Ranks of two experts: 8 and 4 rows, 6 on average."""
    assert busiest_rank([6, 2, 2, 2], 2) == pytest.approx(8 / 6)
    assert busiest_rank([1, 1, 1, 1], 4) == 1.0
    assert busiest_rank([9, 0, 0, 0], 4) == 4.0
    assert busiest_rank([9, 1, 0, 2], 1) == 1.0


def test_copies_go_to_the_expert_with_most_rows_a_copy():
    """Six slots for [6, 2, 2, 2]: three copies of the first with two rows each, on two ranks of
    three.
    """
    assert busiest_rank([6, 2, 2, 2], 2, 2) == pytest.approx(1.0)
    # Four ranks, eight slots of [8, 4, 2, 2]: 2, 2, 2, 2 / 2, 2 / 2 / 2 after four copies.
    assert busiest_rank([8, 4, 2, 2], 4, 4) == pytest.approx(1.0)


def test_ranks_wait_in_every_step_and_layer():
    """Balanced over the run, unbalanced in each step: copies placed by the whole run do
    not help.
    """
    steps = [[[4, 0]], [[0, 4]]]
    assert busiest_rank(steps, 2) == 2.0
    assert busiest_rank([[4, 0], [0, 4]], 2) == 2.0
    assert busiest_rank(np.sum(steps, axis=0), 2) == 1.0


def test_copies_never_make_random_loads_much_worse_and_many_even_them_out():
    draw = np.random.default_rng(3)
    for _ in range(50):
        counts = draw.pareto(1.2, size=(3, 32)) + 1e-3
        alone, some, many = (busiest_rank(counts, 4, copies) for copies in (0, 4, 96))
        assert 1.0 - 1e-12 <= many <= 1.01 * some <= 1.02 * alone
        assert many < 1.15


@pytest.mark.parametrize(
    ("counts", "ranks", "copies", "sentence"),
    [
        ([1, 2, 3], 2, 0, "use 1 copies"),
        ([[-1, 2]], 2, 0, "negative or missing number"),
        ([[0, 0], [1, 1]], 2, 0, "layer 0 of the routing counts has no tokens"),
        ([[[[1]]]], 1, 0, "4 axes"),
        ([1, 1], 0, 0, "0 ranks"),
    ],
)
def test_what_is_no_routing_is_refused(counts, ranks, copies, sentence):
    with pytest.raises(InvalidValue, match=sentence):
        busiest_rank(counts, ranks, copies)
