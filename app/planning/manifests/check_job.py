"""The job that checks a plan: the planned load, then `ridgeline guard` on its result."""

from __future__ import annotations

from app.planning.check_commands import RESULT
from app.planning.manifests.deployed import Deployed, Words, literal
from app.planning.manifests.pods import TOKEN, Document, metadata
from app.planning.manifests.stacks import image

#: Built of the Dockerfile of this project; no registry holds it.
RIDGELINE_IMAGE = "ridgeline:latest"
#: How long the benchmark waits for the first answer: a model loads meanwhile.
_READY_S = 7200
_RESULTS = {"name": "results", "mountPath": "/results"}
NOTES = (
    f"{RIDGELINE_IMAGE} stands for an image of this project's Dockerfile in your registry",
    "pods that load a gated model read its token from a secret: kubectl create secret generic "
    "hf-token --from-literal=HF_TOKEN=...",
)


def check_job(deployed: Deployed, address: str) -> Document:
    """A job that ends well where the deployment is as fast as predicted.

    address: of the deployment's front.  Where nothing measured validates the prediction of its
    kind, the figures are printed and nothing is judged.
    """
    containers = {
        "benchmark": (image("vllm", "NVIDIA")[0], benchmark(deployed, address), [TOKEN]),
        "judge": (RIDGELINE_IMAGE, judge(deployed), []),
    }
    made = {
        name: {
            "name": name,
            "image": picture,
            "command": [literal(word) for word in words],
            **({"env": environment} if environment else {}),
            "workingDir": "/results",
            "volumeMounts": [_RESULTS],
        }
        for name, (picture, words, environment) in containers.items()
    }
    pod = {
        "restartPolicy": "Never",
        "initContainers": [made["benchmark"]],
        "containers": [made["judge"]],
        "volumes": [{"name": "results", "emptyDir": {}}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(deployed, f"{deployed.name}-check", "check"),
        "spec": {
            "backoffLimit": 0,
            "template": {"metadata": {"labels": deployed.labels("check")}, "spec": pod},
        },
    }


def benchmark(deployed: Deployed, address: str) -> Words:
    """The planned load on an address, once it answers.

    Source: https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/benchmarks/serve.py
    """
    words = list(deployed.benchmark)
    words[words.index("--base-url") + 1] = address
    return (*words, "--ready-check-timeout-sec", str(_READY_S))


def judge(deployed: Deployed) -> Words:
    """What reads the result: a guard, or where nothing could judge the figures alone."""
    return deployed.guard or ("ridgeline", "import", RESULT, "--json")


def judge_note(deployed: Deployed) -> tuple[str, ...]:
    """A note where nothing is judged."""
    if deployed.guard:
        return ()
    return (
        "no measured run validates deployments of this kind: the job prints the figures; judge "
        "later runs by an earlier one, ridgeline guard --baseline",
    )
