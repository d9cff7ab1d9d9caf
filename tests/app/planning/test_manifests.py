"""Deployment files of a plan: valid by the schemas of the tools that apply them, safe, and
validated.
"""

from __future__ import annotations

import copy
import json
import re
import shlex
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from typer.testing import CliRunner

from app.cli import cli
from app.planning.manifests.bundle import KINDS, bundle
from app.planning.manifests.deployment import deployed, dns_label, label_value
from app.planning.manifests.stacks import stacks
from genz_core.errors import InvalidValue
from tests.app.planning.asking import plan
from tests.app.planning.launch_faults import faults
from tests.rules import for_every

FIXTURES = Path(__file__).parents[2] / "fixtures" / "deployments"
VERSION = kubernetes_validate.latest_version()
DNS = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
MODEL = "Qwen/Qwen3-32B"
ASKED: dict[str, dict[str, Any]] = {
    "replicas": dict(devices=8, tp=2, pp=1, rate=10, kind="aggregated", rank="tpot"),
    "one": dict(devices=4, tp=4, concurrency=8, weights="fp8", kv="fp8"),
    "nodes": dict(devices=16, tp=8, pp=2, rate=1),
    "pools": dict(devices=8, rate=4, kind="disaggregated", tp=2, pp=1),
    "pools over nodes": dict(devices=32, rate=1, kind="disaggregated", tp=8, pp=2),
    "drafts": dict(devices=4, tp=4, concurrency=2, speculation="ngram", kind="aggregated",
                   draft_tokens=3, acceptance="0.9", rank="tpot"),
    "amd": dict(systems="mi300x", devices=2, tp=2, rate=1),
}  # fmt: skip
CASES = [(case, engine, kind) for case in ASKED for engine in ("vllm", "sglang") for kind in KINDS]


@cache
def planned(case: str, engine: str) -> dict[str, Any]:
    given = {"systems": "h100", "simulate": False, "top": 1, **ASKED[case], "engine": engine}
    found = plan(MODEL, **given).to_dict()
    if not found["plans"]:
        pytest.skip("nothing runs so")
    return found


def made(case: str, engine: str, kind: str) -> dict[str, list[Any]]:
    """Parsed files of a plan; skipped if the kind does not apply to it."""
    try:
        files = bundle(planned(case, engine), kind).files
    except InvalidValue as refused:
        assert str(refused).count("choose") == 1
        pytest.skip(str(refused))
    return {name: list(yaml.safe_load_all(text)) for name, text in files.items()}


def parsed(case: str, engine: str, kind: str) -> list[dict[str, Any]]:
    return [document for found in made(case, engine, kind).values() for document in found]


def only(documents: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [document for document in documents if document.get("kind") == kind]
    return found


def check(document: dict[str, Any]) -> None:
    """Validate against Kubernetes' own schema, or a resource's published types."""
    known = stacks()
    match document["kind"]:
        case "LeaderWorkerSet":
            fields, spec = known["leader_worker_set"]["fields"], document["spec"]
            group = spec["leaderWorkerTemplate"]
            assert set(spec) <= set(fields["spec"])
            assert set(group) <= set(fields["leaderWorkerTemplate"])
            templates = [group["leaderTemplate"], group["workerTemplate"]]
        case "DynamoGraphDeployment":
            fields, spec = known["dynamo"]["fields"], document["spec"]
            assert set(spec) <= set(fields["spec"])
            for one in spec["components"]:
                assert set(one) <= set(fields["component"]) and one["type"] in fields["types"]
                assert one["podTemplate"]["spec"]["containers"][0]["name"] == "main"
                assert one.get("multinode", {"nodeCount": 2})["nodeCount"] >= 2
            templates = [one["podTemplate"] for one in spec["components"]]
        case _:
            kubernetes_validate.validate(document, VERSION, strict=True)
            templates = []
    for template in templates:
        whole = {"apiVersion": "v1", "kind": "PodTemplate", "template": template}
        kubernetes_validate.validate(whole, VERSION, strict=True)


@pytest.mark.by_day(7)
@pytest.mark.parametrize(("case", "engine", "kind"), CASES)
def test_every_document_is_valid_by_its_schema(case, engine, kind):
    documents = parsed(case, engine, kind)
    for document in documents:
        if "kind" in document:
            check(document)
            assert DNS.fullmatch(document["metadata"]["name"])
    assert only(documents, "Job")


@for_every(["replicas", "one", "drafts", "amd"])
def test_values_of_the_chart_are_valid_by_its_schema(case):
    schema = json.loads((FIXTURES / "production_stack_values.schema.json").read_text())
    (values,) = made(case, "vllm", "helm")["values.yaml"]
    jsonschema.validate(values, schema)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("case", ASKED)
def test_as_many_devices_are_asked_for_as_planned(case, engine):
    plan = planned(case, engine)["plans"][0]
    for kind in KINDS:
        try:
            documents = bundle(planned(case, engine), kind).files
        except InvalidValue:
            continue
        found = sum(_devices(one) for text in documents.values() for one in _documents(text))
        assert found == plan["devices"], kind


def _documents(text: str) -> list[Any]:
    return list(yaml.safe_load_all(text))


def _devices(document: dict[str, Any]) -> int:
    """The number of devices that a document requests."""
    match document.get("kind"):
        case "LeaderWorkerSet":
            spec = document["spec"]
            group = spec["leaderWorkerTemplate"]
            leader, worker = group["leaderTemplate"], group["workerTemplate"]
            each = _limit(leader["spec"]) + (group["size"] - 1) * _limit(worker["spec"])
            return spec["replicas"] * each
        case "Deployment" | "StatefulSet":
            return document["spec"]["replicas"] * _limit(document["spec"]["template"]["spec"])
        case "DynamoGraphDeployment":
            return sum(
                one["replicas"] * one.get("multinode", {"nodeCount": 1})["nodeCount"]
                * _limit(one["podTemplate"]["spec"])
                for one in document["spec"]["components"]
            )  # fmt: skip
        case None if "servingEngineSpec" in document:
            (spec,) = document["servingEngineSpec"]["modelSpec"]
            return spec["replicaCount"] * int(*spec["resources"]["limits"].values())
    return 0


def _limit(pod: dict[str, Any]) -> int:
    limits = pod["containers"][0].get("resources", {}).get("limits", {})
    return int(*limits.values()) if limits else 0


@for_every(["vllm", "sglang"])
def test_servers_are_started_by_the_launch_line(engine):
    """Every option is known to its program, and no option of the plan is lost."""
    launched = planned("replicas", engine)["plans"][0]["launch"].splitlines()[0]
    server = only(parsed("replicas", engine, "kubernetes"), "Deployment")
    (container,) = server["spec"]["template"]["spec"]["containers"]
    assert not faults(shlex.join(container["command"]))
    line = shlex.split(launched)
    assert set(line[: line.index("--port")]) <= set(container["command"])


def test_a_router_asks_every_server_by_its_name():
    documents = parsed("pools", "sglang", "kubernetes")
    words = only(documents, "Deployment")["spec"]["template"]["spec"]["containers"][0]["command"]
    assert not faults(shlex.join(words))
    for pool in [document for document in documents if document["kind"] == "StatefulSet"]:
        name = pool["metadata"]["name"]
        assert pool["spec"]["serviceName"] == name
        for at in range(pool["spec"]["replicas"]):
            assert f"http://{name}-{at}.{name}:8000" in words


def test_every_node_of_a_server_has_its_part():
    group = only(parsed("nodes", "vllm", "kubernetes"), "LeaderWorkerSet")["spec"]
    leader, worker = (
        group["leaderWorkerTemplate"][f"{role}Template"]["spec"]["containers"][0]["command"]
        for role in ("leader", "worker")
    )
    assert 'ray_cluster_size="$LWS_GROUP_SIZE"' in leader[2] and leader[4:7] == [
        "vllm", "serve", MODEL,
    ]  # fmt: skip
    assert worker[-1] == "--ray_address=$(LWS_LEADER_ADDRESS)"
    group = only(parsed("nodes", "sglang", "kubernetes"), "LeaderWorkerSet")["spec"]
    ranked = group["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["command"]
    assert ranked[ranked.index("--node-rank") + 1] == "$(LWS_WORKER_INDEX)"
    assert ranked[ranked.index("--nnodes") + 1] == "2"


def test_figures_are_annotations():
    plan = planned("replicas", "vllm")["plans"][0]
    notes = only(parsed("replicas", "vllm", "kubernetes"), "Deployment")["metadata"]["annotations"]
    assert float(notes["ridgeline/ttft-s"]) == pytest.approx(plan["ttft_s"], rel=1e-3)
    assert float(notes["ridgeline/usd-per-mtok"]) == pytest.approx(plan["usd_per_mtok"], rel=1e-3)
    low, high = map(float, notes["ridgeline/tpot-80-percent-s"].split(" to "))
    assert low <= plan["tpot_s"] <= high
    split = parsed("pools", "vllm", "dynamo")[0]["metadata"]["annotations"]
    assert split["ridgeline/ttft-80-percent-s"] == "not validated"


# ------------------------------------------------------------------------------- the check


def test_the_guard_of_the_job_passes_what_was_predicted_and_fails_what_is_slower(tmp_path):
    plan = planned("replicas", "vllm")["plans"][0]
    pod = only(parsed("replicas", "vllm", "kubernetes"), "Job")["spec"]["template"]["spec"]
    load, words = pod["initContainers"][0]["command"], pod["containers"][0]["command"]
    assert not faults(shlex.join(load))
    assert load[load.index("--base-url") + 1] == "http://vllm-qwen3-32b:8000"
    assert words[:3] == ["ridgeline", "guard", "plan.json"]
    replicas, rate = plan["replicas"], float(load[load.index("--request-rate") + 1])
    assert replicas > 1 and words[words.index("--replicas") + 1] == str(replicas)
    assert float(words[words.index("--rate") + 1]) == pytest.approx(rate)
    for slower, outcome in ((1.0, 0), (3.0, 1)):
        path = tmp_path / "plan.json"
        path.write_text(json.dumps(_result(plan, rate, slower)))
        judged = CliRunner().invoke(cli, ["guard", str(path), *words[3:]])
        assert judged.exit_code == outcome, judged.output


def _result(plan: dict[str, Any], rate: float, slower: float) -> dict[str, Any]:
    """What vLLM's client writes for a run `slower` times as slow as predicted."""
    figures = {
        f"{kind}_{name}_ms": plan[f"{name}_s"] * 1e3 * slower
        for name in ("ttft", "tpot") for kind in ("mean", "median")
    }  # fmt: skip
    return {
        "date": "20261122-120000", "backend": "openai", "model_id": MODEL, "tokenizer_id": MODEL,
        "num_prompts": 600, "request_rate": rate, "duration": 60.0, "completed": 600,
        "total_input_tokens": 600 * 1024, "total_output_tokens": 600 * 256,
        "request_throughput": rate, "output_throughput": rate * 256,
        **figures,
    }  # fmt: skip


def test_nothing_is_judged_that_no_measured_run_validates():
    pod = only(parsed("pools", "vllm", "dynamo"), "Job")["spec"]["template"]["spec"]
    assert pod["containers"][0]["command"] == ["ridgeline", "import", "plan.json", "--json"]
    assert any("validates" in note for note in bundle(planned("pools", "vllm"), "dynamo").notes)


# ------------------------------------------------------------------------------- names


HOSTILE = (
    'a"; rm -rf / #', "x\n---\nkind: Secret", "{{ .Values }}", "$(cat /etc/passwd)", "$(HF_TOKEN)",
    "*anchor", "&a !!python/object:os.system", "../../etc/passwd", "a" * 5_000, "ÄÖ/ü", "-", "123",
    "null", "yes: [", "\u202etxt", "'; DROP", "a\tb\\n",
)  # fmt: skip


@for_every(product(HOSTILE, KINDS), by_day=18)
def test_a_hostile_name_stays_one_word(name, kind):
    """A model's name is never interpreted by YAML, Kubernetes or a shell."""
    engine, case = "vllm", "pools" if kind == "llm-d" else "one"
    named = copy.deepcopy(planned(case, engine))
    named["model"] = name
    for server in named["plans"][0]["launch_servers"]:
        server["command"] = server["command"].replace(MODEL, shlex.quote(name))
    plan = named["plans"][0]
    plan["launch_model"] = name
    plan["benchmark"] = plan["benchmark"].replace(MODEL, shlex.quote(name))
    plan["guard"] = plan["guard"].replace(MODEL, shlex.quote(name))
    expected = name.replace("$(", "$$(")
    for file, text in bundle(named, kind).files.items():
        assert "!!" not in text.replace("!!python/object:os.system", ""), file
        for document in yaml.safe_load_all(text):
            if "kind" in document:
                assert document["kind"] not in ("Secret",)
                check(document)
                assert DNS.fullmatch(document["metadata"]["name"])
                assert all(map(LABEL.fullmatch, document["metadata"]["labels"].values()))
                if document["kind"] == "Job":
                    load = document["spec"]["template"]["spec"]["initContainers"][0]["command"]
                    assert load[load.index("--model") + 1] == expected


@for_every([*HOSTILE, MODEL, "meta-llama/Llama-3.1-8B", "Kimi-K2.5_x"])
def test_names_are_dns_labels_and_values_of_labels(name):
    assert DNS.fullmatch(dns_label(f"vllm-{name}")) and DNS.fullmatch(dns_label(name or "x"))
    assert LABEL.fullmatch(label_value(name))


# ------------------------------------------------------------------------------- refusals


def test_what_a_kind_is_not_for_is_refused_in_a_sentence():
    with pytest.raises(InvalidValue, match="kubernetes, helm, dynamo, llm-d"):
        bundle(planned("one", "vllm"), "swarm")
    with pytest.raises(InvalidValue, match="nothing to deploy"):
        bundle(planned("one", "vllm"), "helm", 1)
    with pytest.raises(InvalidValue, match="dynamo or llm-d"):
        bundle(planned("pools", "vllm"), "kubernetes")
    with pytest.raises(InvalidValue, match="--engine vllm,sglang"):
        deployed({"model": "m"}, {"engine": "trtllm"})
    with pytest.raises(InvalidValue, match="NVIDIA"):
        bundle(planned("amd", "vllm"), "dynamo")


def test_the_command_line_writes_the_files(tmp_path):
    words = ["plan", MODEL, "--devices", "4", "--tp", "4", "--rate", "1", "--engine", "vllm",
             "--no-simulate", "--output", str(tmp_path / "made"), "--deployment"]  # fmt: skip
    answered = CliRunner().invoke(cli, [*words, "kubernetes"])
    assert answered.exit_code == 0, answered.output
    assert {file.name for file in (tmp_path / "made").iterdir()} == {
        "deployment.yaml",
        "check.yaml",
    }
    refused = CliRunner().invoke(cli, [*words[:-4], "--deployment", "swarm"])
    assert refused.exit_code and "unknown deployment 'swarm'" in str(refused.exception)
