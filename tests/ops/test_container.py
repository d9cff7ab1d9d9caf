"""The container: the compose file matches the Dockerfile, the program and the proxy examples."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from app.cli import cli

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
DRY_RUN = ROOT / ".ci" / "docker_dry_run.py"
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: Keys of the compose specification that are allowed here
#: (https://github.com/compose-spec/compose-spec/blob/main/schema/compose-spec.json).
TOP = {"name", "services", "volumes", "secrets"}
SERVICE = {
    "image", "build", "command", "environment", "volumes", "healthcheck", "depends_on", "ports",
    "restart", "profiles", "secrets",
}  # fmt: skip
CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load((EXAMPLES / "compose.yaml").read_text(encoding="utf-8"))


def command_options(words: list[str]) -> set[str]:
    command = typer.main.get_command(cli).commands[words[1]]
    return {name for p in command.params for name in (*p.opts, *p.secondary_opts)}


def test_the_compose_file_has_keys_of_the_specification_alone(compose: dict[str, Any]):
    assert set(compose) <= TOP
    for name, service in compose["services"].items():
        assert set(service) <= SERVICE and service["image"], name
        for needed, how in service.get("depends_on", {}).items():
            assert needed in compose["services"] and how["condition"] in CONDITIONS
            waits = how["condition"] == "service_healthy"
            assert not waits or "healthcheck" in compose["services"][needed]
        for held in service.get("secrets", []):
            assert held in compose["secrets"]


def test_every_command_of_the_compose_file_is_one_of_the_program(compose: dict[str, Any]):
    ours = [s for s in compose["services"].values() if s["image"] == "ridgeline"]
    assert len(ours) == 2
    for service in ours:
        words = service["command"]
        given = {word for word in words if word.startswith("--")}
        assert words[0] == "ridgeline" and given <= command_options(words)
        port = words[words.index("--port") + 1]
        asked = service["healthcheck"]["test"]
        assert asked[0] == "CMD" and f"127.0.0.1:{port}/" in asked[-1]
        compile(asked[-1], "healthcheck", "exec")


def test_the_volume_of_the_compose_file_is_the_data_folder_of_the_image(compose: dict[str, Any]):
    (folder,) = re.findall(r"^VOLUME (\S+)$", DOCKERFILE, re.MULTILINE)
    assert f"RIDGELINE_DATA={folder}" in DOCKERFILE
    for name in ("dashboard", "api"):
        (mounted,) = compose["services"][name]["volumes"]
        source, target, *_ = mounted.split(":")
        assert source in compose["volumes"] and target == folder


def test_the_extras_of_the_image_are_extras_of_the_project(compose: dict[str, Any]):
    (default,) = re.findall(r"^ARG EXTRAS=(\S*)$", DOCKERFILE, re.MULTILINE)
    asked = compose["services"]["dashboard"]["build"]["args"]["EXTRAS"]
    assert {*default.split(","), *asked.split(",")} <= set(PROJECT["optional-dependencies"])


def test_what_the_compose_file_mounts_and_builds_lies_beside_it(compose: dict[str, Any]):
    context = EXAMPLES / compose["services"]["dashboard"]["build"]["context"]
    assert (context / "Dockerfile").resolve() == ROOT / "Dockerfile"
    for name in ("proxy", "prometheus"):
        for mounted in compose["services"][name]["volumes"]:
            assert (EXAMPLES / mounted.split(":")[0]).is_file()


@pytest.mark.parametrize("example", ["nginx.conf", "Caddyfile", "prometheus.yml"])
def test_an_example_beside_the_compose_file_asks_its_services(
    example: str, compose: dict[str, Any]
):
    text = (EXAMPLES / example).read_text(encoding="utf-8")
    asked = set(re.findall(r"\b(dashboard|api):(\d+)", text))
    assert asked
    for service, port in asked:
        assert port in compose["services"][service]["command"]
    if example != "prometheus.yml":
        assert compose["services"]["proxy"]["ports"] == ["8080:8080"] and "8080" in text


def test_the_document_shows_the_lines_of_nginx_that_the_example_has():
    document = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    example = (EXAMPLES / "nginx.conf").read_text(encoding="utf-8").splitlines()
    block = document.partition("```nginx\n")[2].partition("```")[0]
    lines = {line.strip() for line in block.splitlines() if line.strip()}
    assert lines and lines <= {line.strip() for line in example}


def test_the_login_of_the_examples_has_what_a_login_needs():
    from app.commands.library.dashboard_server import check_login

    check_login(EXAMPLES / "login.toml")


@pytest.mark.skipif(sys.platform != "linux", reason="roots of stages need a Unix")
@pytest.mark.parametrize("given", ["", "api,hub", None])
def test_a_dry_run_gives_the_stage_the_argument_that_it_asks_for(given: str | None, tmp_path: Path):
    """The built program is healthy if and only if the argument reached RUN."""
    wanted = "auth" if given is None else given
    programs = {
        "serve": "exec sleep 30",
        "well": f"grep -qxF '.[{wanted}]' $(dirname $0)/../extras",
    }
    (tmp_path / "bin").mkdir()
    for name, line in programs.items():
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\n{line} && test -z "$EXTRAS"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "Dockerfile").write_text("""
ARG BASE=one
FROM ${BASE} AS build
ARG EXTRAS=auth
RUN mkdir -p /opt/bin && echo ".[${EXTRAS}]" > /opt/extras
FROM ${BASE}
COPY --from=build /opt /opt
COPY bin /opt/bin
ENV PATH="/opt/bin:$PATH"
WORKDIR /home
EXPOSE 8501
HEALTHCHECK --interval=1s CMD ["well"]
CMD ["serve"]
""")
    asked = [] if given is None else ["--build-arg", f"EXTRAS={given}"]
    done = subprocess.run(
        [sys.executable, str(DRY_RUN), *asked, str(tmp_path / "Dockerfile")],
        check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "healthy after" in done.stdout


def test_a_dry_run_refuses_an_argument_that_no_stage_asks_for(tmp_path: Path):
    (tmp_path / "Dockerfile").write_text("FROM one\nARG EXTRAS=auth\n")
    done = subprocess.run(
        [sys.executable, str(DRY_RUN), "--build-arg", "EXTRA=api",
         str(tmp_path / "Dockerfile")],
        check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode and "asks for no argument EXTRA" in done.stderr
