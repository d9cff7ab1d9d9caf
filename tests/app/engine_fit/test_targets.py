"""The measurements of a fit: the newest release of each model."""

from app.engine_fit.targets import Target, _add_newest
from tests.app.engine_fit.synthetic_engine import synthetic


def releases(*runs):
    """Data of served runs, (model, release) each."""
    data = synthetic()
    data.targets = [
        Target(at, "tpot_s", 1.0, {"set": "serving", "named": model, "release": release})
        for at, (model, release) in enumerate(runs)
    ]
    return data


def test_the_newest_release_of_each_model_is_told_apart():
    data = releases(
        ("7b", "0.9.2"), ("7b", "0.10.0"), ("7b", "nightly-5b8c"), ("7b", ""),
        ("70b", "1.2.0rc6.post2"), ("70b", "1.2.0rc6.post3"), ("70b", "1.2.0rc6.post3"),
        ("400b", "0.9.2"), ("400b", "0.9.2"),
    )  # fmt: skip
    _add_newest(data)
    assert [target.facts["newest"] for target in data.targets] == [
        "", "7b", "", "", "", "70b", "70b", "", "",
    ]  # fmt: skip
