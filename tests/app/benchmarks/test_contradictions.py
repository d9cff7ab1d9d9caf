"""Results that were changed until they contradict themselves: none is used for calibration, none
crashes, and each error names the sum that fails.  The slow tests change a thousand of them.
"""

import json
import random
import re
from dataclasses import replace

import pytest

import profilers
from app.benchmarks import calibration
from app.benchmarks.comparison import compare
from app.benchmarks.deployment import deployment
from app.benchmarks.document import of_comparison
from app.benchmarks.names import look_up
from app.benchmarks.report import reports
from app.calibration import from_reports
from genz_core.errors import InvalidValue, RidgelineError
from profilers.comparison import account
from profilers.comparison.profile_account import of_report
from profilers.serving_results import read_results
from tests.app.benchmarks.conftest import HARDWARE, RUN
from tests.app.pages import QWEN
from tests.draws import cases, seed
from tests.profilers.fuzz.mutations import mutated
from tests.profilers.serving_results.conftest import RESULTS


def given(measurement):
    """Parameters that the file does not state, or states in an unknown name."""
    names = {"model": "meta-llama/Llama-3.1-8B", "engine": "vllm", **HARDWARE}
    subject = measurement.subject
    told = {"model": subject.model, "system": subject.device, "engine": subject.engine}
    known = {kind for kind, stated in told.items() if look_up(kind, stated)}
    return {name: value for name, value in names.items() if name not in known}


#: Figures by the keys that hold them in the files below.
GROUPS = {
    "gaps": re.compile(r"tpot|itl|inter_token|inter_chunk|time_per_output"),
    "request": re.compile(r"e2el|e2e_latency|request_latency"),
    "output rate": re.compile(r"^output_(?:token_)?throughput|output_tokens_per_second"),
    "answers": re.compile(r"output_len|output_sequence_length|output_token_count|output_tokens$"),
}
#: Figures of each file that enter a sum which the file satisfies.
FILES = {
    "run.json": ("gaps", "request", "output rate", "answers"),
    "aiperf/profile_export_aiperf.json": ("gaps", "request", "output rate", "answers"),
    "aiperf/aiperf_0.13_poisson.json": ("gaps", "request", "output rate", "answers"),
    "sglang/llama_405b_online_output.jsonl": ("output rate",),  # no mean TPOT, no open requests
}


def text_of(name):
    return json.dumps(RUN) if name == "run.json" else (RESULTS / name).read_text()


def scaled(value, keys, factor, inside=False):
    """The document with every number under a key of a group multiplied, shares and counts too."""
    if isinstance(value, dict):
        return {
            name: scaled(entry, keys, factor, inside or bool(keys.search(name)))
            for name, entry in value.items()
        }
    if isinstance(value, list):
        return [scaled(entry, keys, factor, inside) for entry in value]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not inside or not is_number:
        return value
    return type(value)(value * factor) if isinstance(value, float) else max(int(value * factor), 1)


def contradicting(name, group, factor):
    lines = text_of(name).splitlines() if name.endswith("l") else [text_of(name)]
    documents = (scaled(json.loads(line), GROUPS[group], factor) for line in lines if line.strip())
    return "\n".join(map(json.dumps, documents))


@pytest.mark.parametrize("count", [10, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_result_that_contradicts_itself_teaches_nothing_and_names_its_sum(
    own_data, tmp_path, count
):
    rng = random.Random(seed(20261124 + count))
    for _ in range(count):
        name = rng.choice(list(FILES))
        group, times = rng.choice(FILES[name]), rng.uniform(2.0, 10.0)
        factor = rng.choice((times, 1.0 / times))
        path = tmp_path / name.rpartition("/")[2]
        path.write_text(contradicting(name, group, factor))
        for one in read_results(path):
            check(one, f"{name}: {group} x {factor:.3g}")
    assert not (own_data / "recipes.csv").exists()


def check(measurement, words):
    failing = account.failed(account.of_result(measurement))
    assert failing, words
    assert all(one.why and one.left == one.left and one.right == one.right for one in failing)
    one = deployment(measurement, given(measurement))
    with pytest.raises(InvalidValue, match="check") as refusal:
        calibration.calibrate([one])
    assert failing[0].name.partition(",")[0] in str(refusal.value), words
    compared = compare([one])
    found = of_comparison(compared)
    assert not {"gap", "cause"} & {finding["kind"] for finding in found["findings"]}, words
    assert not reports(compared), words


@pytest.mark.parametrize("name", FILES)
def test_the_files_meet_their_sums_as_they_are(name, tmp_path):
    path = tmp_path / name.rpartition("/")[2]
    path.write_text(text_of(name))
    for one in read_results(path):
        assert not account.failed(account.of_result(one))


def renumbered(data, _other, rng):
    """One number of a file times a factor."""
    places = [match.span() for match in re.finditer(rb"(?<=: )\d+\.?\d*", data)]
    start, end = rng.choice(places)
    number = float(data[start:end]) * 10 ** rng.uniform(-2, 2)
    return data[:start] + f"{number:.6g}".encode() + data[end:]


@pytest.mark.slow
@pytest.mark.draws
def test_a_damaged_result_crashes_nothing_and_what_fails_teaches_nothing(own_data, tmp_path):
    rng = random.Random(seed(20261125))
    names, failed, path = list(FILES), 0, tmp_path / "result"
    for _ in range(cases(10)):
        name, other = rng.choice(names), rng.choice(names)
        damaged = rng.choice((renumbered, mutated))
        path.write_bytes(damaged(text_of(name).encode(), text_of(other).encode(), rng))
        try:
            runs = [deployment(one, given(one)) for one in read_results(path)]
            compared = compare(runs)
            of_comparison(compared)
        except RidgelineError as error:
            assert "\n" not in str(error)
            continue
        for point in (point for point in compared.points if point.failed):
            failed += 1
            with pytest.raises(RidgelineError):
                calibration.calibrate([point.deployment])
    assert not (own_data / "recipes.csv").exists()
    assert failed, "some of what can still be read contradicts itself"


@pytest.mark.draws
def test_a_report_that_contradicts_itself_teaches_nothing(own_data):
    """Times of a wrong clock: kernels that overlap on their stream, or exceed the peak."""
    report = profilers.read_report(QWEN)
    rng = random.Random(seed(20261126))
    assert not account.failed(of_report(report))
    for _ in range(cases(2)):
        factor = rng.choice((rng.uniform(1.5, 20.0), rng.uniform(0.01, 0.2)))
        wrong = replace(
            report, kernels=report.kernels.assign(duration_s=report.kernels["duration_s"] * factor)
        )
        with pytest.raises(InvalidValue, match=r"checks fail|faster than physics"):
            from_reports.fit([wrong])
