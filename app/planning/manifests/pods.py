"""Parts of pods: containers that serve a model, and what they mount.

Fields: Kubernetes API v1, https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
"""

from collections.abc import Mapping, Sequence
from typing import Any

from app.planning.launch import Server
from app.planning.manifests.deployment import Deployed, literal
from app.planning.manifests.stacks import image, resource

Document = dict[str, Any]
PORT = 8000
#: An optional secret with the hub's token.
TOKEN: Document = {
    "name": "HF_TOKEN",
    "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "HF_TOKEN", "optional": True}},
}
#: Probe attempts: loading may take two hours, 240 times half a minute.
_STARTUP = {"periodSeconds": 30, "failureThreshold": 240}


def server_container(
    deployed: Deployed, pool: Server, words: Sequence[str], port: int = PORT
) -> Document:
    """The container of a server of a pool.  words: its command, port included."""
    return {
        "name": "server",
        "image": image(deployed.engine, pool.vendor)[0],
        "command": [literal(word) for word in words],
        "env": [TOKEN, *_environment(deployed, pool)],
        "ports": [{"name": "http", "containerPort": port}],
        "resources": devices(pool),
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
        **probes(port),
    }


def probes(port: int) -> Document:
    """Probes of a server's /health: it may take two hours to load, and must answer after that."""
    asked = {"httpGet": {"path": "/health", "port": port}}
    return {
        "startupProbe": {**asked, **_STARTUP},
        "readinessProbe": {**asked, "periodSeconds": 5},
        "livenessProbe": {**asked, "periodSeconds": 20, "failureThreshold": 3},
    }


def devices(pool: Server) -> Document:
    """Resources of a server's node: its devices, exclusively."""
    return {"limits": {resource(pool.vendor): str(pool.devices_per_node)}}


def _environment(deployed: Deployed, pool: Server) -> list[Document]:
    """Address where other nodes reach NIXL:
    https://docs.vllm.ai/en/stable/features/nixl_connector_usage/
    """
    if deployed.engine != "vllm" or not pool.role:
        return []
    address = {"fieldRef": {"fieldPath": "status.podIP"}}
    return [{"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "valueFrom": address}]


def template(
    deployed: Deployed, labels: Mapping[str, str], containers: Sequence[Document], **spec: Any
) -> Document:
    """A pod template with the plan's figures as annotations, and shared memory without a limit."""
    return {
        "metadata": {"labels": dict(labels), "annotations": dict(deployed.annotations)},
        "spec": {
            **spec,
            "containers": list(containers),
            "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
        },
    }


def metadata(deployed: Deployed, name: str, component: str = "") -> Document:
    """Name, labels and the plan's figures."""
    labels, notes = deployed.labels(component), dict(deployed.annotations)
    return {"name": name, "labels": labels, "annotations": notes}


def service(deployed: Deployed, name: str, selector: Mapping[str, str]) -> Document:
    """A service that forwards port 8000 of a name to pods with given labels."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": deployed.labels()},
        "spec": {
            "selector": dict(selector),
            "ports": [{"name": "http", "port": PORT, "targetPort": PORT}],
        },
    }
