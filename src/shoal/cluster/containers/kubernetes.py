"""The provider `kubernetes`: a `RayCluster` of KubeRay's, its Secret and its network policy, through the API.

It makes, changes and deletes only what carries its labels. What the pods do is KubeRay's and Kubernetes' business.
"""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shoal.cluster.base import Door, Joined, NodeStatus, Tell
from shoal.cluster.containers import inside, kuberay, pods
from shoal.cluster.containers.container_groups import image_of, layout_of
from shoal.cluster.containers.documents import Versions, installed
from shoal.cluster.containers.kubernetes_client import (
    GROUP,
    PLURAL,
    REQUEST_TIMEOUT_S,
    VERSION,
    Api,
    KubernetesDoor,
    is_missing,
    reach,
    speaking,
)
from shoal.cluster.head_requests import Detached
from shoal.errors import ClusterError
from shoal.model import Node
from shoal.spec import Cluster

READY_TIMEOUT_S = 600.0
GONE_TIMEOUT_S = 180.0
LOOK_EVERY_S = 0.5


class KubernetesProvider:
    """Implements `Provider`. Pods of a group are interchangeable: a host of the file is whichever pod comes first."""

    is_here = False
    is_started = True
    driven_from_inside = True
    hosts = None

    def __init__(
        self,
        cluster: Cluster,
        file: str,
        *,
        versions: Versions | None = None,
        ready_timeout_s: float = READY_TIMEOUT_S,
        gone_timeout_s: float = GONE_TIMEOUT_S,
    ) -> None:
        self._cluster = cluster
        self._file = file
        self._layout = layout_of(cluster)
        self._versions = versions
        self._ready_timeout_s = ready_timeout_s
        self._gone_timeout_s = gone_timeout_s
        self._name = kuberay.target_of(cluster, "", Versions("", "", "")).name
        self._reached: Api | None = None

    @property
    def _api(self) -> Api:
        if self._reached is None:
            self._reached = reach(self._cluster)
        return self._reached

    def up(self, tell: Tell, hosts: Sequence[str] | None = None) -> Mapping[str, str]:
        target = kuberay.target_of(self._cluster, image_of(self._cluster), self._versions or installed())
        target = target._replace(namespace=self._api.namespace)
        present = self._ray_cluster()  # First, because it says whether KubeRay is there at all.
        self._ensure_secret(target, tell)
        self._put("network policy", self._api.networking(), "network_policy", kuberay.network_policy(target))
        document = kuberay.ray_cluster(self._cluster, target)
        self._set_replicas(document, present, hosts)
        self._put_ray_cluster(document, present, tell)
        self._wait_for_head(tell)
        return {
            status.host: status.why
            for status in self.status()
            if status.state == "lost" or (status.state == "starting" and ":" in status.why)
        }

    def down(self, tell: Tell, hosts: Sequence[str] | None = None) -> None:
        if hosts is not None:
            self._take_away(hosts, tell)
            return
        selector = f"{kuberay.CLUSTER_LABEL}={self._name},app.kubernetes.io/managed-by=shoal"
        if self._ray_cluster() is not None:
            with speaking("delete the RayCluster"):
                self._api.custom().delete_namespaced_custom_object(
                    *self._place(), _request_timeout=REQUEST_TIMEOUT_S
                )
            tell(f"{self._name}: deleted the RayCluster in namespace {self._api.namespace}.")
        with speaking("delete the network policy"):
            self._api.networking().delete_collection_namespaced_network_policy(
                self._api.namespace, label_selector=selector, _request_timeout=REQUEST_TIMEOUT_S
            )
        self._wait_until_gone()
        with speaking("delete the Secret"):
            self._api.core().delete_collection_namespaced_secret(
                self._api.namespace, label_selector=selector, _request_timeout=REQUEST_TIMEOUT_S
            )

    def status(self) -> list[NodeStatus]:
        present = self._ray_cluster()
        found = self._pods() if present is not None else []
        return pods.statuses(self._layout, found, None if present is None else _replicas(present))

    def inventory(self) -> list[Node]:
        return [status.node for status in self.status() if status.state != "lost"]

    def join(self, tell: Tell) -> Joined:
        return inside.join(self._name, "Kubernetes", "kuberay")

    def detached(self) -> Detached:
        return inside.detached(self._name, self._cluster, self.door())

    def door(self) -> Door:
        head = next((pod for pod in self._pods() if _is_head(pod) and pods.is_ready(pod)), None)
        if head is None:
            raise ClusterError(
                f"{self._name}: its head is not up.", hint=f"Use shoal cluster up {self._file}."
            )
        return KubernetesDoor(self._api, head.metadata.name)

    def _place(self) -> tuple[str, str, str, str, str]:
        return GROUP, VERSION, self._api.namespace, PLURAL, self._name

    def _ray_cluster(self) -> dict[str, Any] | None:
        with speaking("look at RayClusters"):
            found: dict[str, Any] | None = _or_none(
                lambda: self._api.custom().get_namespaced_custom_object(
                    *self._place(), _request_timeout=REQUEST_TIMEOUT_S
                )
            )
        return found

    def _pods(self) -> list[Any]:
        with speaking("look at pods"):
            found = self._api.core().list_namespaced_pod(
                self._api.namespace,
                label_selector=f"{pods.CLUSTER}={self._name}",
                _request_timeout=REQUEST_TIMEOUT_S,
            )
        return list(found.items)

    def _ensure_secret(self, target: kuberay.Target, tell: Tell) -> None:
        """The token is made once, here, and is nowhere but in the Secret."""
        core, namespace = self._api.core(), self._api.namespace
        with speaking("look at Secrets"):
            present = _or_none(
                lambda: core.read_namespaced_secret(
                    target.name, namespace, _request_timeout=REQUEST_TIMEOUT_S
                )
            )
        if present is not None:
            if not (present.data or {}).get(kuberay.TOKEN_KEY):
                raise ClusterError(
                    f"The Secret {target.name} in namespace {namespace} has no key {kuberay.TOKEN_KEY}.",
                    hint="It is somebody else's, or was made by hand: delete it, or give the cluster another name.",
                )
            return
        token = base64.b64encode(secrets.token_hex(32).encode()).decode()
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": target.metadata(),
            "type": "Opaque",
            "data": {kuberay.TOKEN_KEY: token},
        }
        with speaking("make the Secret with the token"):
            core.create_namespaced_secret(namespace, body, _request_timeout=REQUEST_TIMEOUT_S)
        tell(f"{target.name}: made a token, in the Secret {target.name}.")

    def _put(self, what: str, api: Any, method: str, body: dict[str, Any]) -> None:
        """Make an object, or bring it to what it should be."""
        from kubernetes.client.rest import ApiException

        namespace, name = self._api.namespace, body["metadata"]["name"]
        with speaking(f"make the {what}"):
            try:
                getattr(api, f"create_namespaced_{method}")(
                    namespace, body, _request_timeout=REQUEST_TIMEOUT_S
                )
            except ApiException as error:
                if error.status != 409:
                    raise
                patch = getattr(api, f"patch_namespaced_{method}")
                patch(name, namespace, body, _request_timeout=REQUEST_TIMEOUT_S)

    def _put_ray_cluster(self, body: dict[str, Any], present: dict[str, Any] | None, tell: Tell) -> None:
        custom = self._api.custom()
        if present is None:
            with speaking("make the RayCluster"):
                custom.create_namespaced_custom_object(
                    *self._place()[:4], body, _request_timeout=REQUEST_TIMEOUT_S
                )
            tell(f"{self._name}: made the RayCluster in namespace {self._api.namespace}.")
            return
        if present["metadata"].get("labels", {}).get(kuberay.CLUSTER_LABEL) != self._name:
            raise ClusterError(
                f"There is a RayCluster {self._name} in namespace {self._api.namespace} that Shoal did not make.",
                hint="Give this cluster another name.",
            )
        with speaking("change the RayCluster"):
            custom.patch_namespaced_custom_object(*self._place(), body, _request_timeout=REQUEST_TIMEOUT_S)

    def _set_replicas(
        self, body: dict[str, Any], present: dict[str, Any] | None, hosts: Sequence[str] | None
    ) -> None:
        """What runs stays, and the hosts that are asked for come to it; all of the file where none are named."""
        now = {} if present is None else _replicas(present)
        by_name = {group.name: group for group in self._layout.workers}
        for spec in body["spec"]["workerGroupSpecs"]:
            group = by_name[spec["groupName"]]
            wanted = group.least if hosts is None else sum(host in hosts for host in group.hosts)
            replicas = min(group.most, max(wanted, now.get(group.name, 0)))
            spec["replicas"] = replicas
            if self._cluster.scale is None:  # KubeRay keeps to minReplicas, whatever replicas says.
                spec["minReplicas"] = min(group.least, replicas)

    def _take_away(self, hosts: Sequence[str], tell: Tell) -> None:
        """Fewer replicas, and the names of the pods that go."""
        present = self._ray_cluster()
        if present is None:
            return
        names = pods.names_of(self._layout, self._pods(), hosts)
        groups = present["spec"]["workerGroupSpecs"]
        for spec in groups:
            leaving = names.get(spec["groupName"])
            if leaving:
                spec["replicas"] = max(0, spec.get("replicas", 0) - len(leaving))
                spec["minReplicas"] = min(spec.get("minReplicas", 0), spec["replicas"])
                spec["scaleStrategy"] = {"workersToDelete": leaving}
                tell(f"{self._name}: {', '.join(leaving)} will go.")
        with speaking("change the RayCluster"):
            self._api.custom().patch_namespaced_custom_object(
                *self._place(), {"spec": {"workerGroupSpecs": groups}}, _request_timeout=REQUEST_TIMEOUT_S
            )

    def _wait_for_head(self, tell: Tell) -> None:
        deadline, said = time.monotonic() + self._ready_timeout_s, ""
        while True:
            head = next((pod for pod in self._pods() if _is_head(pod)), None)
            if head is not None and pods.is_ready(head):
                tell(f"{self._name}: the head is up, as pod {head.metadata.name}.")
                return
            why = pods.trouble(head) if head is not None else "KubeRay has not made its pod yet"
            if why and why != said:
                tell(f"{self._name}: waiting for the head: {why}.")
                said = why
            if time.monotonic() > deadline or (head is not None and pods.is_hopeless(head)):
                raise ClusterError(
                    f"{self._name}: its head does not come up: {why or 'no reason is given'}.",
                    hint=f"Look with: kubectl describe pods -n {self._api.namespace} -l {pods.CLUSTER}={self._name}",
                )
            time.sleep(LOOK_EVERY_S)

    def _wait_until_gone(self) -> None:
        deadline = time.monotonic() + self._gone_timeout_s
        while left := self._pods():
            if time.monotonic() > deadline:
                names = ", ".join(pod.metadata.name for pod in left)
                raise ClusterError(
                    f"{self._name}: some pods do not go: {names}.",
                    hint="Is KubeRay's operator running? Try again.",
                )
            time.sleep(LOOK_EVERY_S)


def _is_head(pod: Any) -> bool:
    return bool((pod.metadata.labels or {}).get(pods.TYPE) == "head")


def _replicas(present: Mapping[str, Any]) -> dict[str, int]:
    return {
        spec["groupName"]: spec.get("replicas", 0) for spec in present["spec"].get("workerGroupSpecs", [])
    }


def _or_none(ask: Callable[[], Any]) -> Any:
    """The object, or None where it is not there; that its whole kind is unknown is an error."""
    from kubernetes.client.rest import ApiException

    try:
        return ask()
    except ApiException as error:
        if is_missing(error):
            return None
        raise
