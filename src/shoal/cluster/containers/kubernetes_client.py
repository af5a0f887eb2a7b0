"""Talking to a Kubernetes cluster through its official client: which one, as whom, and what its refusals mean."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from shoal.errors import ClusterError
from shoal.spec import Cluster

GROUP, VERSION, PLURAL = "ray.io", "v1", "rayclusters"
REQUEST_TIMEOUT_S = (5.0, 30.0)
"""To connect, and to answer."""
INSTALLING = (
    "Install it once: helm repo add kuberay https://ray-project.github.io/kuberay-helm/, "
    "then helm install kuberay-operator kuberay/kuberay-operator."
)


class Api(NamedTuple):
    """One cluster, and the namespace to work in."""

    configuration: Any
    namespace: str

    def client(self) -> Any:
        """A client of its own: opening a stream changes a client for a moment, so threads must not share one."""
        from kubernetes.client import ApiClient

        return ApiClient(self.configuration)

    def core(self) -> Any:
        from kubernetes.client import CoreV1Api

        return CoreV1Api(self.client())

    def custom(self) -> Any:
        from kubernetes.client import CustomObjectsApi

        return CustomObjectsApi(self.client())

    def networking(self) -> Any:
        from kubernetes.client import NetworkingV1Api

        return NetworkingV1Api(self.client())


def reach(cluster: Cluster) -> Api:
    """The cluster that `context:` names, else the current one of the kubeconfig, else the one we run in."""
    try:
        from kubernetes import client, config
    except ImportError:
        raise ClusterError(
            "The Python client of Kubernetes is not installed.",
            hint="Install it with: pip install 'shoal[k8s]'.",
        ) from None
    configuration = client.Configuration()
    try:
        contexts, active = config.list_kube_config_contexts()
        config.load_kube_config(context=cluster.context, client_configuration=configuration)
    except config.ConfigException as error:
        namespace = _inside(config, configuration)
        if namespace is None or cluster.context:
            raise _no_config(cluster, error) from error
    else:
        chosen = next((each for each in contexts if each["name"] == cluster.context), active)
        namespace = chosen["context"].get("namespace", "default")
    configuration.retries = False  # What is not there now is said now.
    return Api(configuration, cluster.namespace or namespace)


def _inside(config: Any, configuration: Any) -> str | None:
    """The namespace of the pod that this is, if it is one."""
    try:
        config.load_incluster_config(client_configuration=configuration)
        with open("/var/run/secrets/kubernetes.io/serviceaccount/namespace", encoding="utf-8") as file:
            return file.read().strip()
    except (config.ConfigException, OSError):
        return None


def _no_config(cluster: Cluster, error: Exception) -> ClusterError:
    if cluster.context and "context" in str(error).lower():
        return ClusterError(
            f"{cluster.name}: there is no context {cluster.context!r} in the kubeconfig.",
            hint="kubectl config get-contexts lists them.",
        )
    return ClusterError(
        f"{cluster.name}: it is not known where Kubernetes is: {str(error).rstrip('.')}.",
        hint="Make `kubectl get pods` work first: put a kubeconfig at ~/.kube/config, or name one with KUBECONFIG.",
    )


@contextmanager
def speaking(what: str) -> Iterator[None]:
    """What the cluster refuses, as an error that says what to do; `what` is what was being done."""
    from kubernetes.client.rest import ApiException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ApiException as error:
        raise refusal(what, error) from error
    except HTTPError as error:
        raise ClusterError(
            f"Kubernetes cannot be reached to {what}: {_first_line(error)}.",
            hint="Look with kubectl get nodes. Is the network up, and does context: name the right cluster?",
        ) from error


def refusal(what: str, error: Any) -> ClusterError:
    """What an answer with an error code means."""
    if is_missing_kind(error):
        return ClusterError(
            "KubeRay is not installed in this cluster: it does not know RayCluster.", hint=INSTALLING
        )
    said = _said(error)
    if error.status == 401:
        return ClusterError(
            f"Kubernetes does not accept the credentials: {said}.",
            hint="Log in again; kubectl get pods must work.",
        )
    if error.status == 403:
        return ClusterError(
            f"Kubernetes does not let you {what}: {said}.",
            hint="Ask whoever runs the cluster for a role that may, or name another namespace:.",
        )
    hint = "Another up or down may be at work: wait for it, and try again." if error.status == 409 else None
    return ClusterError(f"Kubernetes could not {what}: {said}.", hint=hint)


def is_missing(error: Any) -> bool:
    """Whether an object is not there, and not its kind."""
    return error.status == 404 and not is_missing_kind(error)


def is_missing_kind(error: Any) -> bool:
    """Whether the server does not know the kind at all: then it answers with text, not with a status."""
    return error.status == 404 and _status(error).get("reason") != "NotFound"


def _said(error: Any) -> str:
    return str(_status(error).get("message") or error.reason or f"code {error.status}").rstrip(".")


def _status(error: Any) -> dict[str, Any]:
    try:
        found = json.loads(error.body or "")
    except (ValueError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
