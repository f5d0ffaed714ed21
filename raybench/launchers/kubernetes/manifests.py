"""The objects of a run: an Indexed Job with a headless Service, or a RayJob of KubeRay. Pure."""

from collections.abc import Sequence
from typing import Any

from raybench.launchers.command_words import says_nodes
from raybench.launchers.kubernetes.request import KubernetesRequest, toleration
from raybench.metadata import installed_version

TORCHRUN_PORT = 29500
JOB_VARIABLE, QUEUE_VARIABLE = "RAYBENCH_KUBERNETES_JOB", "RAYBENCH_KUBERNETES_QUEUE"  # see documents/run/scheduler.py
RUN_LABEL = "raybench.dev/run"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
CONTAINER = "raybench"
_KEPT_SECONDS = 24 * 3600  # so that results can be fetched; then the objects go by themselves
_GRACE_SECONDS = 60


def manifests(request: KubernetesRequest, job: str, words: Sequence[str]) -> list[dict[str, Any]]:
    """The objects that run ``raybench WORDS``, all of the name ``job``."""
    return _rayjob(request, job, words) if request.form == "rayjob" else _indexed_job(request, job, words)


def kind_of(request: KubernetesRequest) -> str:
    """What the objects' first is, as kubectl names it."""
    return "rayjob" if request.form == "rayjob" else "job"


def _metadata(request: KubernetesRequest, job: str, *, queued: bool = False) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "raybench", RUN_LABEL: job}
    if queued and request.queue is not None:
        labels[QUEUE_LABEL] = request.queue
    namespace = {} if request.namespace is None else {"namespace": request.namespace}
    return {"name": job, **namespace, "labels": labels}


def _indexed_job(request: KubernetesRequest, job: str, words: Sequence[str]) -> list[dict[str, Any]]:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(request, job),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,  # the ranks meet before anything is ready
            "selector": {RUN_LABEL: job},
            "ports": [{"name": "torchrun", "port": TORCHRUN_PORT}],
        },
    }
    pod = _pod(request, job, _pod_words(request, job, words))
    pod["spec"] |= {"restartPolicy": "Never", "subdomain": job}
    spec: dict[str, Any] = {
        "completions": request.nodes,
        "parallelism": request.nodes,
        "completionMode": "Indexed",
        "backoffLimit": 0,  # a run that broke is looked at, not begun again
        "activeDeadlineSeconds": request.time_limit_seconds,
        "ttlSecondsAfterFinished": _KEPT_SECONDS,
        "template": pod,
    }
    if request.queue is not None:
        spec["suspend"] = True  # until Kueue admits it
    metadata = _metadata(request, job, queued=True)
    return [{"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}, service]


def _pod_words(request: KubernetesRequest, job: str, words: Sequence[str]) -> list[str]:
    place = ("--nodes", str(request.nodes), "--ranks-per-node", str(request.ranks_per_node))
    meeting = ("--master-address", f"{job}-0.{job}", "--master-port", str(TORCHRUN_PORT))
    return ["python", "-P", "-m", "raybench.launchers.kubernetes.pod_task", *place, *meeting, "--", *words]


def _rayjob(request: KubernetesRequest, job: str, words: Sequence[str]) -> list[dict[str, Any]]:
    started = {"num-gpus": str(request.gpus_per_node)} if request.gpus_per_node else {}
    head = {"rayStartParams": {"dashboard-host": "0.0.0.0", **started}, "template": _pod(request, job, None)}  # noqa: S104 - in a pod
    workers = {
        "groupName": "workers",
        "replicas": request.nodes - 1,
        "minReplicas": request.nodes - 1,
        "maxReplicas": request.nodes - 1,
        "rayStartParams": started,
        "template": _pod(request, job, None),
    }
    words = [*words] if says_nodes(words) else [*words, "--nodes", str(request.nodes)]
    spec: dict[str, Any] = {
        "entrypoint": _quoted(["python", "-P", "-m", "raybench.launchers.kubernetes.pod_task", "--", *words]),
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": _KEPT_SECONDS,
        "activeDeadlineSeconds": request.time_limit_seconds,
        "backoffLimit": 0,
        "rayClusterSpec": {
            **({"rayVersion": version} if (version := installed_version("ray")) else {}),  # as the image has it
            "headGroupSpec": head,
            **({"workerGroupSpecs": [workers]} if request.nodes > 1 else {}),
        },
    }
    if request.queue is not None:
        spec["suspend"] = True
    metadata = _metadata(request, job, queued=True)
    return [{"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "spec": spec}]


def _quoted(words: Sequence[str]) -> str:
    import shlex

    return shlex.join(words)


def _pod(request: KubernetesRequest, job: str, words: list[str] | None) -> dict[str, Any]:
    """A pod template. Without ``words`` KubeRay says what its container runs."""
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": request.image,
        "env": _variables(request, job),
        "resources": _resources(request),
        # RDMA pins its buffers, and the limit of a container's locked memory is that of its runtime
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108 - where it is
    }
    if words is not None:
        container["command"] = words
        container["ports"] = [{"name": "torchrun", "containerPort": TORCHRUN_PORT}]
    spec: dict[str, Any] = {
        "containers": [container],
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(request.shared_memory_bytes)}}],
        "affinity": {"podAntiAffinity": _apart(job)},
    }
    if request.tolerations:
        spec["tolerations"] = [toleration(text) for text in request.tolerations]
    if request.node_selector:
        spec["nodeSelector"] = dict(request.node_selector)
    if request.pull_secret is not None:
        spec["imagePullSecrets"] = [{"name": request.pull_secret}]
    if request.host_network:
        spec |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    return {"metadata": {"labels": {"app.kubernetes.io/name": "raybench", RUN_LABEL: job}}, "spec": spec}


def _apart(job: str) -> dict[str, Any]:
    """Each pod on a node of its own: two on one would measure no network."""
    term = {"labelSelector": {"matchLabels": {RUN_LABEL: job}}, "topologyKey": "kubernetes.io/hostname"}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _resources(request: KubernetesRequest) -> dict[str, Any]:
    own = dict(request.resources)
    if request.gpus_per_node:
        own[request.gpu_resource] = str(request.gpus_per_node)
    return {"limits": own, "requests": dict(own)} if own else {}


def _variables(request: KubernetesRequest, job: str) -> list[dict[str, str]]:
    told = {JOB_VARIABLE: job, "PYTHONUNBUFFERED": "1", "RAY_worker_niceness": "0"}
    if request.queue is not None:
        told[QUEUE_VARIABLE] = request.queue
    return [{"name": name, "value": value} for name, value in told.items()]


def as_yaml(objects: Sequence[dict[str, Any]]) -> str:
    """For kubectl."""
    import yaml

    return "---\n".join(yaml.safe_dump(one, sort_keys=False, default_flow_style=False, width=1000) for one in objects)
