"""Every addition that CONTRIBUTING describes, made in a copy of the repository.

Each test first shows the error of a forgotten step, then that the addition works.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tracked files; the additions of all tests accumulate in it."""
    folder = tmp_path_factory.mktemp("copy")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in listed.stdout.decode().split("\0"):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def run(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the Python of this environment on the files of the copy."""
    path = os.pathsep.join((str(copy), str(copy / "app" / "python")))
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=copy, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip


def ridgeline(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(copy, "-m", "app.cli", *arguments)


def works(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def fails(done: subprocess.CompletedProcess[str], reason: str) -> None:
    assert done.returncode != 0
    told = " ".join((done.stdout + done.stderr).split())
    assert reason in told, told[-2000:]


def replace_once(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, (path, old, text.count(old))
    path.write_text(text.replace(old, new), encoding="utf-8")


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")


def test_a_gpu_is_a_yaml_file(copy: Path):
    estimate = (
        "estimate",
        "meta-llama/Llama-3.1-8B",
        "--system",
        "new-gpu",
        "--isl",
        "512",
        "--osl",
        "64",
    )
    fails(ridgeline(copy, *estimate), "unknown system 'new-gpu'")
    path = copy / "hardware_db" / "systems" / "new-gpu.yaml"
    path.write_text("include: h100-sxm5-80gb\nname: New GPU\naliases: [NEW-1]\n")
    fails(ridgeline(copy, "systems", "check", str(path)), "id")
    append(path, "id: new-gpu\n")
    works(ridgeline(copy, *estimate))
    assert "New GPU" in works(run(copy, "-m", "hardware_db.report"))


FAMILY = '''"""A family for a test: Mixtral's layers under another name."""

from model_registry.architectures.mixtral import mixtral
from model_registry.architectures.registry import architecture

new_family = architecture("new_family")(mixtral)
'''


def test_a_model_family_is_a_file_of_architectures(copy: Path):
    configs = copy / "model_registry" / "configs"
    published = (configs / "mistralai--Mixtral-8x7B-v0.1.json").read_text(encoding="utf-8")
    renamed = published.replace('"model_type": "mixtral"', '"model_type": "new_family"')
    renamed = renamed.replace('"mistralai/Mixtral-8x7B-v0.1"', '"new/Model"')
    renamed = renamed.replace('["mistralai/Mixtral-8x7B", "mistralai/Mixtral"]', "[]")
    (configs / "new--Model.json").write_text(renamed, encoding="utf-8")
    fails(
        ridgeline(copy, "ops", "new/Model"),
        "no architecture is registered for model_type 'new_family'",
    )
    (copy / "model_registry" / "architectures" / "new_family.py").write_text(FAMILY)
    assert "inactive experts" in works(ridgeline(copy, "ops", "new/Model"))
    assert "new/Model" in works(run(copy, "-m", "model_registry.reports.models_page"))


KIND = '''

@operator_kind("new_kind", "pointwise")
def new_operator(name: str, tokens: Num, **where: Any) -> Op:
    """An operator for a test."""
    return pointwise(name, "new_kind", tokens * 64, 1.0, **where)
'''
PRICE = """
from genz_core.engine import EngineProfile
from genz_core.latency.pricer import Pricer
from genz_core import operators
from tests.genz_core.operator_cases import SYSTEM
print(Pricer(SYSTEM, EngineProfile()).expected_s(operators.new_operator("x", 8.0)))
"""


def test_an_operator_kind_is_a_function_and_the_name_of_its_price(copy: Path):
    operators = copy / "genz_core" / "operators"
    append(operators / "_pointwise.py", KIND)
    fails(run(copy, "-c", PRICE), "has no attribute 'new_operator'")
    replace_once(operators / "__init__.py", "    norm,\n", "    new_operator,\n    norm,\n")
    fails(run(copy, "-c", PRICE), "'new_kind in prefill'")
    replace_once(
        copy / "genz_core" / "latency" / "pointwise.py",
        '"norm", "rope"',
        '"new_kind", "norm", "rope"',
    )
    assert float(works(run(copy, "-c", PRICE)).strip("[] \n")) > 0
    covered = (
        "-m",
        "pytest",
        "-q",
        "-n0",
        "-k",
        "every_kind",
        "tests/genz_core/latency/test_pricer.py",
    )
    fails(run(copy, *covered), "new_kind")


def test_an_engine_is_a_yaml_file(copy: Path):
    estimate = ("estimate", "meta-llama/Llama-3.1-8B", "--system", "h100", "--engine", "new-engine")
    fails(ridgeline(copy, *estimate), "unknown engine 'new-engine'")
    engines = copy / "hardware_db" / "engines"
    generic = (engines / "generic.yaml").read_text(encoding="utf-8")
    generic = generic.replace("id: generic", "id: new-engine", 1)
    path = engines / "new-engine.yaml"
    path.write_text(generic.replace("kernel_floor_us", "kernel_flor_us", 1), encoding="utf-8")
    fails(ridgeline(copy, *estimate), "kernel_f")
    path.write_text(generic, encoding="utf-8")
    works(ridgeline(copy, *estimate))


def test_a_scheduler_is_a_file_with_a_name_and_a_case(copy: Path):
    simulate = (
        "simulate", "meta-llama/Llama-3.1-8B", "--system", "h100", "--rate", "1",
        "--requests", "20", "--scheduler", "one_by_one",
    )  # fmt: skip
    fails(ridgeline(copy, *simulate), "one_by_one")
    replace_once(copy / "genz_core" / "engine.py", '"tensorrt_llm", "static"]',
                 '"tensorrt_llm", "static", "one_by_one"]')  # fmt: skip
    fails(ridgeline(copy, *simulate), "the scheduler 'one_by_one' has no case in `scheduler_of`")
    simulation = copy / "genz_core" / "serving" / "simulation"
    (simulation / "policies" / "one_by_one.py").write_text(
        '"""A scheduler for a test: one request at a time."""\n\n'
        "from functools import partial\n\n"
        "from genz_core.serving.simulation.policies.static_batch import StaticBatch\n\n"
        "OneByOne = partial(StaticBatch, 1)\n"
    )
    replace_once(
        simulation / "deployment.py",
        '    if policy == "vllm":\n',
        '    if policy == "one_by_one":\n'
        "        from genz_core.serving.simulation.policies.one_by_one import OneByOne\n\n"
        "        return OneByOne()\n"
        '    if policy == "vllm":\n',
    )
    works(ridgeline(copy, *simulate))


READER = '''"""A format for a test: the name and the microseconds of a kernel per line."""

from pathlib import Path

from profilers.readers import ncu_csv
from profilers.schema import Report


def sniff(head: bytes) -> bool:
    return head.startswith(b"NEWFORMAT")


def read(path: Path) -> Report:
    raise NotImplementedError("the reader of the new format was called")
'''
READ = "import sys; from profilers.readers import read_report; read_report('new.report')"


def test_a_report_format_is_a_reader_and_its_line(copy: Path):
    (copy / "new.report").write_text("NEWFORMAT\nkernel 5\n")
    readers = copy / "profilers" / "readers"
    (readers / "new_format.py").write_text(READER)
    fails(run(copy, "-c", READ), "this is not a report that can be read; readable are:")
    replace_once(
        readers / "__init__.py",
        "    ncu_rep,\n    nsys_csv,",
        "    ncu_rep,\n    new_format,\n    nsys_csv,",
    )
    replace_once(
        readers / "__init__.py", "    for module in (ncu_rep, nsys_rep):",
        "    for module in (ncu_rep, nsys_rep, new_format):",
    )  # fmt: skip
    fails(run(copy, "-c", READ), "the reader of the new format was called")


TOOL = '''"""A benchmark tool for a test: one run, with its mean TTFT."""

from typing import Any

from profilers.serving_results.documents import Content
from profilers.serving_results.measurement import (
    MeasuredLoad,
    Percentiles,
    ServingMeasurement,
    Subject,
)

NAME = "new-tool"


def knows(document: Any) -> bool:
    return isinstance(document, dict) and "new_tool_version" in document


def read(content: Content) -> list[ServingMeasurement]:
    load = MeasuredLoad(concurrency=content.first["users"])
    ttft = Percentiles(mean=content.first["ttft"])
    return [ServingMeasurement(format=NAME, subject=Subject(tool=NAME), load=load, ttft_s=ttft)]
'''
RESULTS = (
    "from profilers.serving_results.result_files import read_results;"
    "print(read_results('new.json')[0].subject.tool)"
)


def test_a_benchmark_tool_is_a_file_and_its_format(copy: Path):
    (copy / "new.json").write_text('{"new_tool_version": 1, "users": 4, "ttft": 0.2}')
    results = copy / "profilers" / "serving_results"
    (results / "new_tool.py").write_text(TOOL)
    fails(run(copy, "-c", RESULTS), "new.json")
    replace_once(results / "result_files.py", "    mlperf,\n", "    mlperf,\n    new_tool,\n")
    replace_once(
        results / "result_files.py", "_JSON = (\n",
        "_JSON = (\n    Format(new_tool.NAME, new_tool.knows, new_tool.read),\n",
    )  # fmt: skip
    assert works(run(copy, "-c", RESULTS)).strip() == "new-tool"


FIELD = """    new_target_s: float | None = parameter(
        "number", None, "A target for a test.", unit="s", least=0.0, label="New target",
    )  # fmt: skip
"""


def test_a_parameter_is_a_field(copy: Path):
    assert "--new-target-s" not in works(ridgeline(copy, "plan", "--help"))
    decisions = copy / "app" / "question" / "decisions.py"
    replace_once(decisions, "    ttft_target_s: float", FIELD + "    ttft_target_s: float")
    assert "--new-target-s" in works(ridgeline(copy, "plan", "--help"))
    stub = ("-m", "pytest", "-q", "-n0", "-k", "stub", "tests/app/python")
    fails(run(copy, *stub), "new_target_s")
    works(run(copy, "-m", "ridgeline._stub"))
    works(run(copy, *stub))


PAGE = """
from streamlit.testing.v1 import AppTest
app = AppTest.from_file("app/main.py", default_timeout=300)
app.switch_page("views/new_page.py").run()
print([title.value for title in app.title], app.exception)
"""


def test_a_page_is_a_view_and_its_line(copy: Path):
    (copy / "app" / "views" / "new_page.py").write_text(
        '"""A page for a test."""\n\nimport streamlit as st\n\nst.title("New page")\n'
    )
    covered = ("-m", "pytest", "-q", "-n0", "-k", "every_page_has_its_tests", "tests/app/views")
    fails(run(copy, *covered), "new_page")
    replace_once(
        copy / "app" / "main.py", '        page("library", "Library", "dns"),\n',
        '        page("library", "Library", "dns"),\n        page("new_page", "New", "star"),\n',
    )  # fmt: skip
    assert "New page" in works(run(copy, "-c", PAGE))
