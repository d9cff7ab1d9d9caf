"""The job that checks a plan: it runs the planned load, then `ridgeline guard` on the result."""

from app.planning.check_commands import RESULT
from app.planning.manifests.deployment import Deployed, Words, literal
from app.planning.manifests.pods import TOKEN, Document, metadata
from app.planning.manifests.stacks import image

#: Image built from this project's Dockerfile; it is in no registry.
RIDGELINE_IMAGE = "ridgeline:latest"
#: Time that the benchmark waits for the first answer, while the model loads.
_READY_S = 7200
_RESULTS = {"name": "results", "mountPath": "/results"}
NOTES = (
    f"{RIDGELINE_IMAGE} stands for an image of this project's Dockerfile in your registry",
    "pods that load a gated model read its token from a secret: kubectl create secret generic "
    "hf-token --from-literal=HF_TOKEN=...",
)


def check_job(deployed: Deployed, address: str) -> Document:
    """A job that succeeds if the deployment is as fast as predicted.

    address: of the deployment's front end.  Where no measurement validates predictions of this
    kind, the figures are printed without a judgement.
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
    """A command that runs the planned load on an address, once that answers.

    Source: https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/benchmarks/serve.py
    """
    words = list(deployed.benchmark)
    words[words.index("--base-url") + 1] = address
    return (*words, "--ready-check-timeout-sec", str(_READY_S))


def judge(deployed: Deployed) -> Words:
    """The command that reads the result: a guard, or where there is no interval, only the
    figures.
    """
    return deployed.guard or ("ridgeline", "import", RESULT, "--json")


def judge_note(deployed: Deployed) -> tuple[str, ...]:
    """A note where the result is not judged."""
    if deployed.guard:
        return ()
    return (
        "no measured run validates deployments of this kind, so the job only prints the figures; "
        "compare later runs with an earlier one by ridgeline guard --baseline",
    )
