"""Values for the vLLM production stack's chart (vllm/vllm-stack), for plans with one node per
replica.

Schema: helm/values.schema.json of github.com/vllm-project/production-stack at 01eaf92, an excerpt
of which is kept with the tests.
"""

from collections.abc import Callable, Mapping
from typing import Any

from app.planning.manifests.deployment import Deployed, Words
from app.planning.manifests.pods import Document, devices
from app.planning.manifests.stacks import image
from genz_core.errors import InvalidValue

_PORT = 80
#: Fields of vllmConfig by vLLM's options; the others are extraArgs.
_FIELDS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "--tensor-parallel-size": ("tensorParallelSize", int),
    "--max-model-len": ("maxModelLen", int),
    "--max-num-seqs": ("maxNumSeqs", int),
    "--gpu-memory-utilization": ("gpuMemoryUtilization", float),
}


def values(deployed: Deployed) -> Document:
    """The chart's values.

    Raises:
        InvalidValue: the chart does not support it: another engine, a prefill pool, several nodes.
    """
    (pool, *others) = deployed.pools
    if deployed.engine != "vllm" or others or pool.nodes > 1:
        raise InvalidValue(
            "the Helm chart of the vLLM production stack needs a vLLM plan without a prefill pool "
            "whose replicas fit into a node: choose kubernetes or dynamo, or plan with --engine "
            "vllm --pools aggregated"
        )
    repository, tag = image(deployed.engine, pool.vendor)[0].rsplit(":", 1)
    return {
        "servingEngineSpec": {
            "modelSpec": [
                {
                    "name": deployed.name,
                    "annotations": dict(deployed.annotations),
                    "podAnnotations": dict(deployed.annotations),
                    "repository": repository,
                    "tag": tag,
                    "modelURL": deployed.model,
                    "replicaCount": pool.count,
                    "resources": devices(pool),
                    "vllmConfig": _config(pool.words),
                }
            ]
        }
    }


def address(deployed: Deployed) -> str:
    """Address of the chart's router, if the chart is installed under the plan's name."""
    return f"http://{deployed.name}-router-service:{_PORT}"


def notes(deployed: Deployed) -> list[str]:
    """Notes on what the values leave open."""
    return [
        "helm repo add vllm https://vllm-project.github.io/production-stack; helm install "
        f"{deployed.name} vllm/vllm-stack -f values.yaml",
        "a gated model needs hf_token under modelSpec",
    ]


def _config(words: Words) -> Document:
    """Options after `vllm serve MODEL`: those that are fields of the chart, and the rest."""
    found: Document = {}
    rest: list[str] = []
    options = list(words[3:])
    while options:
        option = options.pop(0)
        if option in _FIELDS and options:
            name, read = _FIELDS[option]
            found[name] = read(options.pop(0))
        else:
            rest.append(option)
    return {**found, **({"extraArgs": rest} if rest else {})}
