"""Plans with a prefill pool for llm-d: model servers with its labels and sidecar, router values.

Sources, in github.com/llm-d/llm-d: guides/recipes/modelserver/base/single-host
(pd-disaggregatedset/base/disaggregatedset.yaml at b266d24, pd/vllm/patch-sidecar.yaml at 9829045,
pd/sglang/patch-sidecar.yaml at b2abbc3) and
guides/pd-disaggregation/router/pd-disaggregation.values.yaml at 83bb7c1.
"""

from typing import Any

import yaml

from app.planning.launch import Server
from app.planning.manifests.deployment import Deployed, label_value
from app.planning.manifests.kubernetes import listening
from app.planning.manifests.pods import PORT, Document, metadata, server_container, template
from app.planning.manifests.stacks import stacks
from genz_core.errors import InvalidValue

#: Port where the sidecar of a decode server reaches it.
_BEHIND = 8200
_CONFIG = "pd-config.yaml"


def documents(deployed: Deployed) -> list[Document]:
    """Model servers of both roles.

    Raises:
        InvalidValue: a plan without prefill servers, or servers that span nodes.
    """
    if not deployed.split:
        raise InvalidValue(
            "llm-d needs a plan with a prefill pool: plan with --pools disaggregated, or choose "
            "kubernetes or helm"
        )
    if any(pool.nodes > 1 for pool in deployed.pools):
        raise InvalidValue(
            "a server spans several nodes: choose dynamo, or plan with a lower tp or pp"
        )
    return [_servers(deployed, pool) for pool in deployed.pools]


def router_values(deployed: Deployed) -> Document:
    """Values of llm-d's router chart: its servers, with separate prefill servers."""
    filters = [{"type": name} for name in ("prefill-filter", "decode-filter")]
    handler: Document = {
        "type": "disagg-profile-handler",
        "parameters": {"deciders": {"prefill": "always-disagg-pd-decider"}},
    }
    plugins = [
        {"type": "always-disagg-pd-decider"}, handler, *filters,
        {"type": "inflight-load-producer"}, {"type": "active-request-scorer"},
        {"type": "max-score-picker"},
    ]  # fmt: skip
    profiles = [
        {
            "name": role,
            "plugins": [
                {"pluginRef": name}
                for name in (f"{role}-filter", "active-request-scorer", "max-score-picker")
            ],
        }
        for role in ("prefill", "decode")
    ]
    config = {
        "apiVersion": "llm-d.ai/v1",
        "kind": "EndpointPickerConfig",
        "plugins": plugins,
        "schedulingProfiles": profiles,
    }
    port = {"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8081}
    return {
        "router": {
            "extraServicePorts": [port],
            "epp": {
                "replicas": 1,
                "pluginsConfigFile": _CONFIG,
                "pluginsCustomConfig": {_CONFIG: yaml.safe_dump(config, sort_keys=False)},
            },
            "modelServers": {"matchLabels": {"llm-d.ai/guide": deployed.name}},
        }
    }


def address(deployed: Deployed) -> str:
    """Address of the router, if its chart is installed under the plan's name in standalone mode."""
    return f"http://{deployed.name}-epp"


def notes(deployed: Deployed) -> list[str]:
    """Notes on what the documents leave open."""
    return [
        f"install llm-d's router chart (standalone) as {deployed.name} with router-values.yaml, "
        "see guides/pd-disaggregation of llm-d"
    ]


def _labels(deployed: Deployed, pool: Server) -> dict[str, str]:
    return {
        **deployed.labels(pool.role),
        "llm-d.ai/inference-serving": "true",
        "llm-d.ai/guide": deployed.name,
        "llm-d.ai/role": pool.role,
        "llm-d.ai/model": label_value(deployed.model.rsplit("/", 1)[-1]) or deployed.name,
        "inference.networking.k8s.io/engine-type": deployed.engine,
    }


def _servers(deployed: Deployed, pool: Server) -> Document:
    labels, behind = _labels(deployed, pool), pool.role == "decode"
    port = _BEHIND if behind else PORT
    words = listening(deployed, pool.words, port)
    container = server_container(deployed, pool, words, port)
    spec: dict[str, Any] = {"initContainers": [_sidecar(deployed)]} if behind else {}
    named = metadata(deployed, f"{deployed.name}-{pool.role}", pool.role)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**named, "labels": labels},
        "spec": {
            "replicas": pool.count,
            "selector": {"matchLabels": labels},
            "template": template(deployed, labels, [container], **spec),
        },
    }


def _sidecar(deployed: Deployed) -> Document:
    """The sidecar that takes a decode server's requests and has their prompts read first."""
    known = stacks()["llm_d"]
    options = {
        "port": PORT, "kv-connector": known["connectors"][deployed.engine],
        "secure-serving": "false",
    }  # fmt: skip
    return {
        "name": "routing-proxy",
        "image": known["sidecar_image"],
        "args": [f"--{name}={value}" for name, value in options.items()],
        "ports": [{"name": "sidecar", "containerPort": PORT}],
        "restartPolicy": "Always",
        "securityContext": {"allowPrivilegeEscalation": False, "runAsNonRoot": True},
    }
