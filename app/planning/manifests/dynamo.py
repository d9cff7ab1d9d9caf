"""Plans as graphs of NVIDIA Dynamo: a DynamoGraphDeployment (nvidia.com/v1beta1).

Fields: deploy/operator/api/v1beta1 of ai-dynamo/dynamo at 0fddc01 and 006b6e1 (named in
`stacks.yaml`).  Commands: examples/backends/vllm/deploy/v1beta1/disagg-multinode.yaml at 04521f4
and examples/backends/sglang/deploy/v1beta1/disagg.yaml at 2ac51dd of the same repository.
"""

from app.planning.launch import Server
from app.planning.manifests.deployment import Deployed, Words, literal
from app.planning.manifests.pods import TOKEN, Document, devices, metadata
from app.planning.manifests.stacks import stacks
from genz_core.errors import InvalidValue

_NIXL = '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'
_BOOTSTRAP = "12345"
#: Options that the operator itself gives to nodes, and those of roles; the value says whether an
#: argument follows.
_DROPPED = {
    "--distributed-executor-backend": True, "--kv-transfer-config": True,
    "--nnodes": True, "--node-rank": True, "--dist-init-addr": True,
}  # fmt: skip


def graph(deployed: Deployed) -> Document:
    """The graph: a frontend, and workers or a prefill and a decode pool.

    Raises:
        InvalidValue: devices that Dynamo's images are not made for.
    """
    if deployed.vendors != {"NVIDIA"}:
        raise InvalidValue("Dynamo's images are for NVIDIA devices only: choose kubernetes")
    known = stacks()["dynamo"]
    frontend = {
        "name": "Frontend",
        "type": "frontend",
        "replicas": 1,
        "podTemplate": _template(deployed, {"env": [TOKEN]}),
    }
    return {
        "apiVersion": known["api"],
        "kind": "DynamoGraphDeployment",
        "metadata": metadata(deployed, deployed.name),
        "spec": {
            "backendFramework": deployed.engine,
            "components": [frontend, *(_component(deployed, pool) for pool in deployed.pools)],
        },
    }


def address(deployed: Deployed) -> str:
    """Address of the graph's frontend, by the operator's name for its service."""
    return f"http://{deployed.name}-frontend:8000"


def notes() -> list[str]:
    """Notes on what the graph leaves open."""
    images = stacks()["dynamo"]["images"]
    version = next(iter(images.values())).rsplit(":", 1)[-1]
    return [
        f"needs Dynamo's operator in the cluster; images are those of Dynamo {version}, whose "
        "engine may be older than the options: check its start-up log"
    ]


def _component(deployed: Deployed, pool: Server) -> Document:
    role = pool.role or "worker"
    container = {
        "command": ["python3", "-m", f"dynamo.{deployed.engine}"],
        "args": [literal(word) for word in arguments(deployed, pool)],
        "env": [TOKEN],
        "resources": devices(pool),
    }
    made: Document = {
        "name": role.capitalize(),
        "type": role,
        "replicas": pool.count,
        "podTemplate": _template(deployed, container),
    }
    if pool.nodes > 1:
        made["multinode"] = {"nodeCount": pool.nodes}
    return made


def arguments(deployed: Deployed, pool: Server) -> Words:
    """A server's options as Dynamo's worker of the engine takes them."""
    words = _without_dropped(pool.words)
    if deployed.engine == "vllm":
        model, options = words[2], words[3:]  # vllm serve MODEL ...
        roles = ("--disaggregation-mode", pool.role, "--kv-transfer-config", _NIXL)
        return ("--model", model, *options, *(roles if pool.role else ()))
    options = words[3:]  # python3 -m sglang.launch_server ...
    named = ("--served-model-name", deployed.model)
    roles = ("--disaggregation-bootstrap-port", _BOOTSTRAP, "--host", "0.0.0.0")
    return (*options, *named, *(roles if pool.role else ()))


def _without_dropped(words: Words) -> Words:
    kept: list[str] = []
    skipping = False
    for word in words:
        if not skipping and word not in _DROPPED:
            kept.append(word)
        skipping = not skipping and _DROPPED.get(word, False)
    return tuple(kept)


def _template(deployed: Deployed, container: Document) -> Document:
    picture = stacks()["dynamo"]["images"][deployed.engine]
    return {
        "metadata": {"annotations": dict(deployed.annotations)},
        "spec": {"containers": [{"name": "main", "image": picture, **container}]},
    }
