"""`import ridgeline` as users see it: signatures, help, a type stub, old names."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import ridgeline
from ridgeline import _stub

from app.answers.table import to_json
from app.question.verbs import parameters_of
from genz_core.errors import InvalidValue, RidgelineError

ROOT = Path(__file__).parents[3]
MODEL = "meta-llama/Llama-3.1-8B"
VERBS = ("estimate", "serve", "simulate", "sweep", "plan", "sensitivity", "economics", "compare",
         "guard")  # fmt: skip


def test_the_stub_that_editors_read_is_that_of_the_declarations():
    text = _stub.TARGET.read_text(encoding="utf-8")
    assert text == _stub.text(), "run `python -m ridgeline._stub`"
    assert (_stub.TARGET.parent / "py.typed").exists()
    compile(text, str(_stub.TARGET), "exec")


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_every_argument_with_what_it_means(verb: str):
    called = getattr(ridgeline, verb)
    shown = " ".join(pydoc.render_doc(called, renderer=pydoc.plaintext).split())
    assert f"{verb}(" in shown and "Returns:" in shown and "Raises:" in shown
    for one in parameters_of(verb).values():
        assert f" {one.name}: {one.help.split()[0]}" in shown, one.name
    kinds = {one.kind for one in inspect.signature(called).parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds


def test_arguments_without_a_name_are_few():
    with pytest.raises(TypeError, match=r"estimate\(\) takes 1 argument without a name \(model\)"):
        ridgeline.estimate(MODEL, "h100")
    with pytest.raises(TypeError, match="got model twice"):
        ridgeline.estimate(MODEL, model=MODEL)
    with pytest.raises(TypeError, match="needs reports"):
        ridgeline.compare()
    with pytest.raises(TypeError, match="needs model"):
        ridgeline.estimate(batch=4)


@pytest.mark.parametrize(
    ("verb", "names"),
    [("estimate", ["model"]), ("routing", ["model", "statistics"]),
     ("compare", ["reports", "model"]), ("guard", ["results", "model"]),
     ("watch", ["source", "model"])],
)  # fmt: skip
def test_help_shows_arguments_without_a_name_in_the_order_of_a_call(verb: str, names: list[str]):
    shown = inspect.signature(getattr(ridgeline, verb)).parameters.values()
    unnamed = [one.name for one in shown if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    assert unnamed == names


def test_a_misspelled_argument_says_which_is_near():
    with pytest.raises(InvalidValue, match="'bacth' is not a parameter: did you mean batch"):
        ridgeline.estimate(MODEL, bacth=4)


@pytest.mark.parametrize("verb", ["estimate", "ops", "plan", "sensitivity", "simulate", "sweep"])
@pytest.mark.parametrize("name", ["model", "system", "engine"])
def test_an_object_that_is_no_model_system_or_engine_is_refused_by_name(verb: str, name: str):
    if name not in parameters_of(verb):
        return
    load = {"rate": 1} if verb in ("plan", "simulate") else {}
    with pytest.raises(InvalidValue, match=f"^{name} = <object object .*: give a name"):
        getattr(ridgeline, verb)(**{"model": MODEL, name: object(), **load})


@pytest.mark.parametrize("function", ["model", "system", "engine"])
@pytest.mark.parametrize("given", [object(), 3])
def test_what_names_nothing_is_refused_where_models_systems_and_engines_are_read(function, given):
    with pytest.raises(InvalidValue, match=f"^{function} = .*: give a name"):
        getattr(ridgeline, function)(given)


@pytest.mark.parametrize("given", [{"trace": object()}, {"rate": 1, "lengths": [[1, object()]]}])
def test_objects_that_hold_no_requests_are_refused_with_what_is_accepted(given):
    name = "lengths" if "lengths" in given else "trace"
    with pytest.raises(InvalidValue, match=f"^{name} = .*: give a path, or "):
        ridgeline.simulate(MODEL, **given)


OLD: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("plan", {"systems": "h100", "pays": False, "kind": "aggregated"},
     {"system": "h100", "break_even": False, "pools": "aggregated"}),
    ("serve", {"concurrency": 4, "shared_prompt": 100}, {"concurrency": 4, "shared_tokens": 100}),
    ("simulate", {"concurrency": 2, "requests": 8, "osl": 8, "ttft_target": 0.5},
     {"concurrency": 2, "requests": 8, "osl": 8, "ttft_target_s": 0.5}),
]  # fmt: skip


@pytest.mark.parametrize(("verb", "old", "own"), OLD, ids=[verb for verb, _, _ in OLD])
def test_calls_of_earlier_releases_mean_the_same(verb: str, old: dict, own: dict):
    load = {"rate": 2, "simulate": False} if verb == "plan" else {}
    answers = [getattr(ridgeline, verb)(MODEL, **given, **load) for given in (old, own)]
    assert to_json(answers[0].rows) == to_json(answers[1].rows)


def test_a_trace_that_is_served_is_simulated(tmp_path: Path):
    path = tmp_path / "trace.csv"
    path.write_text("arrival_s,input_tokens,output_tokens\n0,500,20\n0.1,900,30\n")
    served = ridgeline.serve(MODEL, trace=str(path), tp=2)
    assert served.to_dict() == ridgeline.simulate(MODEL, trace=path, tp=2).to_dict()
    with pytest.raises(InvalidValue, match="cp does not apply to simulate"):
        ridgeline.serve(MODEL, trace=path, cp=2)


def test_users_are_a_whole_number_in_every_table():
    given = {"model": MODEL, "system": "h100", "engine": "vllm"}
    tables = [ridgeline.serve(**given, concurrency=[1, 16]),
              ridgeline.sweep(**given, concurrency=[1, 16])]  # fmt: skip
    for table in tables:
        assert [repr(row["concurrency"]) for row in table.rows] == ["1", "16"]
    assert repr(ridgeline.serve(**given, rate=4).to_dict()["rate"]) == "4.0"


def test_no_request_is_a_wrong_number_of_requests():
    """0 was read as the default, 1,000."""
    for verb, load in ((ridgeline.simulate, {"rate": 1}), (ridgeline.serve, {"concurrency": 4})):
        with pytest.raises(InvalidValue, match="requests = 0: give a whole number from 1"):
            verb(MODEL, requests=0, **load)


def test_a_configuration_or_a_line_that_there_is_not_is_refused_in_a_sentence():
    answer = ridgeline.estimate(MODEL, batch=[1, 8])
    with pytest.raises(InvalidValue, match="config = -1: give 0 to 1"):
        answer.explain("attention", config=-1)  # it was a mixture of two configurations
    with pytest.raises(InvalidValue, match="config = 2: give 0 to 1"):
        answer.operators("decode", 2)
    with pytest.raises(InvalidValue, match="config = 5: give 0 to 1"):
        answer.explain("attention", config=5)
    with pytest.raises(InvalidValue, match="line = 3: give a question as a text"):
        ridgeline.ask(3)


def test_an_unknown_schema_is_refused_with_those_that_there_are():
    with pytest.raises(RidgelineError, match="Documents: arch, modules, ops, step"):
        ridgeline.schema("steps of a model")


def test_one_served_load_is_a_dictionary_and_several_are_a_frame():
    one = ridgeline.serve(MODEL, concurrency=4)
    assert one.to_dict() == one.rows[0]
    with pytest.raises(InvalidValue, match="2 configurations have no single value"):
        ridgeline.serve(MODEL, concurrency=[4, 8]).to_dict()


def test_objects_files_and_names_stand_for_each_other(tmp_path: Path):
    import yaml

    import hardware_db

    named = ridgeline.estimate(MODEL, system="h100", engine="vllm").to_dict()
    objects = ridgeline.estimate(
        ridgeline.model(MODEL), system=ridgeline.system("h100"), engine=ridgeline.engine("vllm")
    )
    assert objects.to_dict() == named
    shipped = Path(hardware_db.__file__).parent / "systems" / "h100-sxm5-80gb.yaml"
    (first, *_) = yaml.safe_load_all(shipped.read_text(encoding="utf-8"))
    own = tmp_path / "own.yaml"
    own.write_text(yaml.safe_dump({**first, "id": "own-h100", "name": "Own", "aliases": []}))
    found = ridgeline.estimate(MODEL, system=str(own))
    assert found.to_dict()["system"] == "own-h100"


@pytest.mark.parametrize(
    "same", [{"length_ratio": [1, 1, 1]}, {"max_num_batched_tokens": [512] * 3}]
)
def test_an_array_that_moves_no_figure_has_a_row_for_each_of_its_values(same):
    rows = ridgeline.estimate(MODEL, batch=16, **same).rows
    assert len(rows) == 3 and rows[0] == rows[2]


def test_results_of_a_benchmark_are_judged():
    path = ROOT / "app" / "samples" / "sglang_llama-3.1-405b.jsonl"
    given = {"system": "h200", "tp": 8, "weights": "fp8"}
    judged = ridgeline.guard(path, "meta-llama/Llama-3.1-405B", baseline=path, **given)
    compared = ridgeline.compare(str(path), "meta-llama/Llama-3.1-405B", level=95, **given)
    assert judged.verdicts and judged.level == compared.level == 0.95
    assert all(one.outcome == "pass" for one in judged.verdicts if one.judge == "baseline")


@pytest.mark.slow
def test_a_type_checker_accepts_what_may_be_given_and_refuses_what_may_not(tmp_path: Path):
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np\nimport ridgeline\n"
        'good = ridgeline.estimate("m", system="h100", batch=[1, 8], isl="10k", tp=np.array([1]))\n'
        'uneven = ridgeline.routing("m", [[3, 1]], tp=2, ep=2, copies=[0, 2])\n'
        'plans = ridgeline.plan("m", rate=4, system=["h100", "h200"], price={"h100": 2.5})\n'
        'wrong = ridgeline.estimate("m", bacth=4)\n'
        'other = ridgeline.serve("m", concurrency=4, burst_start="yes")\n'
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--follow-imports=silent", str(program)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if "program.py" in line and "error" in line]
    assert [int(line.split(":")[1]) for line in lines] == [6, 7], done.stdout
