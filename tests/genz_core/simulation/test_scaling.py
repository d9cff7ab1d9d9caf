"""Autoscalers say what their documentation says."""

from __future__ import annotations

import pytest

from genz_core.errors import InvalidValue
from genz_core.serving.simulation.scaling import DynamoPlanner, Hpa, Kalman, Keda, Last, Observed


def seen(now=0.0, replicas=4, ready=None, open_=0, **more) -> Observed:
    return Observed(now, replicas, replicas if ready is None else ready, open_, **more)


# ------------------------------------------------------------------------------- Kubernetes


def test_twice_the_target_doubles_the_replicas_and_half_of_it_halves_them():
    assert Hpa(10).wanted(seen(open_=80)) == 8
    assert Hpa(10, stabilization_s=0.0).wanted(seen(now=1.0, open_=20)) == 4  # the first advice
    quick = Hpa(10, stabilization_s=0.0)
    quick.wanted(seen(open_=40))
    assert quick.wanted(seen(now=15.0, open_=20)) == 2


@pytest.mark.parametrize("open_", [37, 40, 43])
def test_nothing_happens_within_ten_percent_of_the_target(open_: int):
    assert Hpa(10).wanted(seen(open_=open_)) == 4


def test_replicas_leave_only_after_five_minutes_of_less_advice():
    hpa = Hpa(10)
    hpa.wanted(seen(now=0.0, open_=40))
    assert [hpa.wanted(seen(now=15.0 * at, open_=10)) for at in range(1, 21)] == [4] * 20
    assert hpa.wanted(seen(now=315.0, open_=10)) == 1


def test_a_peak_inside_the_window_keeps_its_replicas():
    hpa = Hpa(10)
    hpa.wanted(seen(now=0.0, open_=40))
    hpa.wanted(seen(now=200.0, open_=30))
    assert hpa.wanted(seen(now=400.0, open_=10)) == 3


def test_at_most_four_more_or_twice_as_many_in_a_period():
    assert Hpa(1).wanted(seen(replicas=2, open_=1000)) == 6
    assert Hpa(1).wanted(seen(replicas=10, open_=1000)) == 20


def test_replicas_that_start_count_as_idle_on_the_way_up():
    """Ready ones alone would ask for ceil(3.0 x 2) = 6; four that start are counted with 0."""
    assert Hpa(10).wanted(seen(replicas=6, ready=2, open_=60)) == 6
    assert Hpa(10).wanted(seen(replicas=6, ready=2, open_=90)) == 9


def test_replicas_that_start_count_as_busy_on_the_way_down():
    hpa = Hpa(10, stabilization_s=0.0)
    hpa.wanted(seen(replicas=6, open_=60))
    assert hpa.wanted(seen(now=15.0, replicas=6, ready=4, open_=20)) == 4


def test_limits_hold_whatever_the_metric_says():
    assert Hpa(1, least=2, most=5).wanted(seen(replicas=4, open_=1000)) == 5
    quick = Hpa(1, least=2, most=5, stabilization_s=0.0)
    quick.wanted(seen(replicas=4, open_=4))
    assert quick.wanted(seen(now=15.0, replicas=4, open_=0)) == 2


def test_requests_that_no_replica_has_taken_are_seen_by_keda_alone():
    held = seen(open_=80, waiting=60, held=40)
    assert (Hpa(10).wanted(held), Keda(10).wanted(held)) == (4, 8)
    assert (Hpa(5, metric="waiting").wanted(held), Keda(5, metric="waiting").wanted(held)) == (4, 8)


# ------------------------------------------------------------------------------- KEDA


def test_keda_starts_from_zero_at_its_next_look_and_goes_back_after_the_cooldown():
    keda = Keda(10)
    assert keda.wanted(seen(now=0.0, replicas=0)) == 0
    assert keda.wanted(seen(now=15.0, replicas=0, open_=3)) == 0  # looked at every 30 s
    assert keda.wanted(seen(now=30.0, replicas=0, open_=3)) == 1
    assert keda.wanted(seen(now=45.0, replicas=1, ready=0, open_=3)) == 1
    quiet = [keda.wanted(seen(now=60.0 + 15.0 * at, replicas=1)) for at in range(20)]
    assert quiet[:18] == [1] * 18 and quiet[-1] == 0


def test_keda_divides_the_metric_of_the_whole_deployment_by_the_threshold():
    assert Keda(10).wanted(seen(replicas=4, open_=75)) == 8
    assert Keda(10).wanted(seen(replicas=4, ready=1, open_=75)) == 8  # starting ones change nothing


def test_keda_cannot_start_from_zero_by_the_use_of_a_cache():
    with pytest.raises(InvalidValue, match="choose open or waiting, or keep one replica"):
        Keda(0.5, metric="kv_use")
    assert Keda(0.5, 1, metric="kv_use").wanted(seen(kv_use=0.75)) == 6


# ------------------------------------------------------------------------------- Dynamo


def test_the_planner_divides_the_rate_by_that_of_a_replica():
    planner = DynamoPlanner(lambda isl, osl: 2.0 if isl < 1000 else 0.5)
    assert planner.wanted(seen(arrived=0, seconds=0.0)) == 4  # it has seen nothing
    told = {"seconds": 180.0, "isl": 500.0, "osl": 100.0}
    assert planner.wanted(seen(now=180.0, arrived=1800, **told)) == 5
    assert planner.wanted(seen(now=360.0, arrived=1800, **{**told, "isl": 2000.0})) == 20
    assert planner.wanted(seen(now=540.0, arrived=0, **told)) == 1


def test_the_trend_filter_follows_a_ramp_where_the_last_value_lags():
    trend, last = Kalman(), Last()
    values = [100.0 + 20.0 * at for at in range(30)]
    ahead = [trend.next(value) for value in values]
    assert ahead[-1] == pytest.approx(values[-1] + 20.0, rel=0.02)
    assert last.next(values[-1]) == values[-1]


def test_the_trend_filter_is_that_of_matrices():
    import numpy as np

    f, h = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]])
    x, p, q = np.zeros((2, 1)), np.eye(2) * 1000.0, np.diag([1.0, 0.1])
    p = p.copy()
    trend = Kalman()
    for at, value in enumerate(np.random.default_rng(3).uniform(50, 150, 40)):
        x, p = f @ x, f @ p @ f.T + q
        gain = p @ h.T / (h @ p @ h.T + 10.0)
        x, p = x + gain * (value - h @ x), (np.eye(2) - gain @ h) @ p
        found = trend.next(float(value))
        expected = value if at < 4 else max(float((f @ x)[0, 0]), 0.0)
        assert found == pytest.approx(expected, rel=1e-6)
