"""The conditions of every test: one thread per process, no network, no file of the user's."""

import gc
import os
import tempfile
from collections.abc import Hashable
from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test, settings
from hypothesis import seed as seeded

from tests import draws

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ["HF_HUB_OFFLINE"] = "1"

# The same examples every time and no deadline: a busy machine must not fail a law.
settings.register_profile(
    "repeatable", deadline=None, derandomize=True, database=None, max_examples=draws.cases(25)
)
settings.load_profile("repeatable")

# An empty folder for user data and caches, set before any test could be collected with the real
# one.
_USER = tempfile.TemporaryDirectory(prefix="ridgeline-tests-", ignore_cleanup_errors=True)
os.environ.pop("RIDGELINE_DATA", None)
for variable in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
    os.environ[variable] = str(Path(_USER.name) / variable.lower())

# Objects made while collecting stay until the end: searching them for garbage takes a sixth of that
# time.
gc.disable()

TESTS = Path(__file__).parent
#: The tests that run without -m, see pyproject.toml.
BY_DAY = "not benchmark and not browser and not slow and not gpu"
# In parallel one worker runs a file, so what a module sets up is set up once. (With pytest 9.2
# these groups are ignored silently by pytest-xdist 3.8, which is why an older pytest is pinned.)
#: Groups of the most seconds, which start first: none of them is left to one worker at the end.
#: pytest-xdist keeps this order with --no-loadscope-reorder, and else takes those of most tests.
LONGEST = (
    "app/views/test_pages.py",
    "measured rows",
    "test_packaging.py",
    "app/commands/test_compare.py",
    "app/calibration/test_machine.py",
    "app/api/test_rest.py",
    "app/views/test_plan.py",
    "app/jobs/test_jobs.py",
    "model_registry/tracing/test_agreement.py",
    "app/commands/test_cli.py",
    "test_documents.py",
    "ops/test_network.py",
    "app/api/test_openapi_client.py",
    "app/watching/test_watch.py",
    "test_documentation_site.py",
)
#: Files that price every measured row; in one worker they are priced once.
MEASURED = (
    "app/accuracy/test_documents.py",
    "app/accuracy/test_measured_points.py",
    "app/commands/test_validate.py",
    "app/test_bounds_of_measurements.py",
    "app/views/test_accuracy.py",
)
for name in (*LONGEST, *MEASURED):
    assert not name.endswith(".py") or (TESTS / name).is_file(), f"{name} was renamed or removed"


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Run the whole suite on as many processes as there are cores, at most eight.

    Applies if no test is selected, `-n` is not given and pytest-xdist is installed.
    """
    chosen = config.args_source is not pytest.Config.ArgsSource.TESTPATHS or any(
        config.getoption(option, False) for option in ("keyword", "collectonly", "usepdb", "lf")
    )
    if chosen or config.option.markexpr != BY_DAY:
        return
    config.option.benchmark_disable = True
    if hasattr(config, "workerinput"):  # this reads the command line, not what is set below
        config.option.loadgroup = True
    elif getattr(config.option, "numprocesses", 0) is None:
        config.option.numprocesses = min(8, os.cpu_count() or 1)
        config.option.dist = "loadgroup"
        config.option.loadscopereorder = False


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def leave_to_the_night(items: list[pytest.Item]) -> None:
    """Mark all cases of a test as slow, except for the n that its by_day(n) keeps.

    In the n cases the values of each parameter take turns (`draws.turns`). Cases that are marked
    slow anyway are not among them.
    """
    tests: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in items:
        if marker := item.get_closest_marker("by_day"):
            tests.setdefault((item.nodeid.partition("[")[0], marker.args[0]), []).append(item)
    for (_, number), cases in tests.items():
        mine = [item for item in cases if not item.get_closest_marker("slow")]
        by_day = {mine[place] for place in draws.turns(list(map(values_of, mine)), number)}
        for item in cases:
            if item not in by_day:
                item.add_marker("slow")


def values_of(item: pytest.Item) -> tuple[Hashable, ...]:
    """The values of an item's parameters, in the order of their names."""
    params = item.callspec.params  # type: ignore[attr-defined]
    values = [params[name] for name in sorted(params)]
    return tuple(value if isinstance(value, str | int | float) else repr(value) for value in values)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Add the markers of benchmarks/, browser/ and random draws, before -m selects."""
    leave_to_the_night(items)
    places: dict[str, int] = {}
    for item in items:
        test = getattr(item, "function", None)
        if is_hypothesis_test(test):
            item.add_marker(pytest.mark.draws)
            if draws.SEED:
                seeded(draws.SEED)(test)
        if not item.path.is_relative_to(TESTS):
            continue
        inside = item.path.relative_to(TESTS)
        folder, group = inside.parts[0], str(inside)
        if folder == "browser":
            item.add_marker("browser")
        elif group in MEASURED:
            group = "measured rows"
        elif folder == "benchmarks":
            item.add_marker("benchmark")
        if item.config.pluginmanager.hasplugin("xdist"):
            item.add_marker(pytest.mark.xdist_group(group))
            places[item.nodeid] = LONGEST.index(group) if group in LONGEST else len(LONGEST)
    if places:
        items.sort(key=lambda item: places.get(item.nodeid, len(LONGEST)))
