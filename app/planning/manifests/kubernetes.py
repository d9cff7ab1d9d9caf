"""Plans as plain Kubernetes: Deployments, LeaderWorkerSets where a server spans nodes, Services.

LeaderWorkerSet: https://lws.sigs.k8s.io, fields as in `stacks.yaml`.
"""

import shlex
from collections.abc import Sequence

from app.planning.launch import Server, engine_flags
from app.planning.manifests.deployment import Deployed, Words, literal
from app.planning.manifests.pods import (
    PORT,
    TOKEN,
    Document,
    metadata,
    probes,
    server_container,
    service,
    template,
)
from app.planning.manifests.stacks import image, stacks
from genz_core.errors import InvalidValue

_LEADER = {"role": "leader"}


def documents(deployed: Deployed) -> list[Document]:
    """Workloads and services of a plan; requests go to the service named after it, port 8000.

    Raises:
        InvalidValue: a plan whose engine has no proxy for prefill servers.
    """
    if not deployed.split:
        (pool,) = deployed.pools
        selector = deployed.labels("server")
        if pool.nodes > 1:
            selector = {**selector, **_LEADER}
        return [_workload(deployed, pool), service(deployed, deployed.name, selector)]
    if "front_line" not in engine_flags()[deployed.engine]:
        raise InvalidValue(
            f"{deployed.engine} has no proxy that routes prompts to prefill servers: choose dynamo "
            "or llm-d"
        )
    made = [document for pool in deployed.pools for document in _named_pool(deployed, pool)]
    return [*made, *_router(deployed)]


def notes(deployed: Deployed) -> list[str]:
    """Notes on what the documents leave open."""
    found = [image(deployed.engine, pool.vendor)[1] for pool in deployed.pools]
    if any(pool.nodes > 1 for pool in deployed.pools):
        found.append("LeaderWorkerSets need their controller in the cluster: lws.sigs.k8s.io")
    if len({pool.system for pool in deployed.pools}) > 1:
        found.append("give each pool a nodeSelector: the system of its pods is an annotation")
    if not deployed.split and deployed.pools[0].count > 1:
        found.append("a Service spreads connections at random; the plan assumes equal loads")
    return list(dict.fromkeys(filter(None, found)))


def _workload(deployed: Deployed, pool: Server) -> Document:
    """The workload that starts the servers of a pool under one name."""
    component = pool.role or "server"
    name = f"{deployed.name}-{pool.role}" if pool.role else deployed.name
    if pool.nodes > 1:
        return _leader_worker_set(deployed, pool, name)
    labels = deployed.labels(component)
    container = server_container(deployed, pool, listening(deployed, pool.words))
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(deployed, name, component),
        "spec": {
            "replicas": pool.count,
            "selector": {"matchLabels": labels},
            "template": template(deployed, labels, [container]),
        },
    }


def _named_pool(deployed: Deployed, pool: Server) -> list[Document]:
    """Servers with individual names that a router can address: NAME-0.NAME ..."""
    made = _workload(deployed, pool)
    if pool.nodes > 1:
        return [made]  # the naming of a LeaderWorkerSet's leaders
    name = made["metadata"]["name"]
    headless = service(deployed, name, deployed.labels(pool.role))
    headless["spec"] |= {"clusterIP": "None", "publishNotReadyAddresses": True}
    spec = {**made["spec"], "serviceName": name, "podManagementPolicy": "Parallel"}
    return [{**made, "kind": "StatefulSet", "spec": spec}, headless]


def listening(deployed: Deployed, words: Words, port: int = PORT) -> Words:
    """A server's command, reachable from other pods.

    vLLM listens on every address by default; SGLang on 127.0.0.1.
    """
    host = ("--host", "0.0.0.0") if deployed.engine == "sglang" else ()
    return (*words, *host, "--port", str(port))


def _leader_worker_set(deployed: Deployed, pool: Server, name: str) -> Document:
    component = pool.role or "server"
    labels = deployed.labels(component)
    serving = listening(deployed, pool.words)
    leader = server_container(deployed, pool, ())
    worker = {key: leader[key] for key in leader if key not in (*probes(PORT), "ports")}
    commands = _of_nodes(deployed, serving)
    templates = {
        "leaderTemplate": template(
            deployed, {**labels, **_LEADER}, [{**leader, "command": commands[0]}]
        ),
        "workerTemplate": template(deployed, labels, [{**worker, "command": commands[1]}]),
    }
    return {
        "apiVersion": stacks()["leader_worker_set"]["api"],
        "kind": "LeaderWorkerSet",
        "metadata": metadata(deployed, name, component),
        "spec": {
            "replicas": pool.count,
            "leaderWorkerTemplate": {
                "size": pool.nodes,
                "restartPolicy": "RecreateGroupOnPodRestart",
                **templates,
            },
        },
    }


def _of_nodes(deployed: Deployed, serving: Words) -> tuple[list[str], list[str]]:
    """Commands of the first node and of the others.

    vLLM's nodes form a Ray cluster with its own script, then the first one serves; SGLang's nodes
    all run the same line with their own ranks.  The words of the plan are passed literally: no
    shell reads them.
    Sources: docs/examples/vllm and docs/examples/sglang of LeaderWorkerSet.
    """
    if deployed.engine == "sglang":
        ranked = [literal(word) for word in serving]
        ranked[ranked.index("--node-rank") + 1] = "$(LWS_WORKER_INDEX)"
        ranked[ranked.index("--dist-init-addr") + 1] = "$(LWS_LEADER_ADDRESS):50000"
        return ranked, ranked
    script = shlex.quote(stacks()["engines"]["vllm"]["nodes_script"])
    first = f'bash {script} leader --ray_cluster_size="$LWS_GROUP_SIZE" && exec "$@"'
    leader = ["sh", "-c", first, "serve", *map(literal, serving)]
    return leader, ["bash", script, "worker", "--ray_address=$(LWS_LEADER_ADDRESS)"]


def _router(deployed: Deployed) -> list[Document]:
    """The router in front of prefill and decode servers, and its service."""
    flags = engine_flags()[deployed.engine]
    addresses = {
        pool.role: " ".join(
            flags["front_server"][pool.role].format(port=PORT).replace("localhost", host)
            for host in _hosts(deployed, pool)
        )
        for pool in deployed.pools
    }
    line = flags["front_line"].format(port=PORT, **addresses)
    labels = deployed.labels("router")
    container = {
        "name": "router",
        "image": image(deployed.engine, deployed.pools[0].vendor)[0],
        "command": [*shlex.split(line), "--host", "0.0.0.0"],
        "env": [TOKEN],
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": {"tcpSocket": {"port": PORT}},
    }
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata(deployed, f"{deployed.name}-router", "router"),
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": template(deployed, labels, [container]),
            },
        },
        service(deployed, deployed.name, labels),
    ]


def _hosts(deployed: Deployed, pool: Server) -> Sequence[str]:
    """Host names of a pool's servers: a StatefulSet's pods, or a LeaderWorkerSet's leaders."""
    name = f"{deployed.name}-{pool.role}"
    return [f"{name}-{at}.{name}" for at in range(pool.count)]
