"""A Kubernetes cluster through its official client: which one, as whom, its refusals; and a door to a pod."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, NamedTuple

from shoal.cluster.base import Done
from shoal.cluster.containers.kuberay import DASHBOARD_PORT
from shoal.cluster.containers.tunnels import listen
from shoal.errors import ClusterError
from shoal.spec import Cluster

GROUP, VERSION, PLURAL = "ray.io", "v1", "rayclusters"
REQUEST_TIMEOUT_S = (5.0, 30.0)
"""To connect, and to answer."""
INSTALLING = (
    "Install it once: helm repo add kuberay https://ray-project.github.io/kuberay-helm/, "
    "then helm install kuberay-operator kuberay/kuberay-operator."
)
CONTAINER = "ray-head"
WITH_INPUT = 'n="$1"; shift; head -c "$n" | "$@"'
"""A stream cannot be closed in one direction, so the command behind this is given just as many bytes as there are."""
PIECE = 1 << 16
TURN_S = 1.0
LAST_BYTES_S = 2.0
"""How long an answer may still come after a client has said all it will."""

__all__ = ["DASHBOARD_PORT", "KubernetesDoor"]


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


class KubernetesDoor:
    """Implements `Door` for one pod."""

    def __init__(self, api: Api, pod: str, container: str = CONTAINER) -> None:
        self._api = api
        self._pod = pod
        self._container = container

    def run(self, arguments: Sequence[str], *, stdin: bytes = b"", timeout_s: float | None = None) -> Done:
        output, errors = bytearray(), bytearray()
        code = self._follow(arguments, output.extend, errors.extend, stdin, timeout_s)
        return Done(code, bytes(output), bytes(errors))

    def attach(self, arguments: Sequence[str]) -> int:
        return self._follow(arguments, _writer(sys.stdout.buffer), _writer(sys.stderr.buffer))

    def _follow(
        self,
        arguments: Sequence[str],
        output: Callable[[bytes], Any],
        errors: Callable[[bytes], Any],
        stdin: bytes = b"",
        timeout_s: float | None = None,
    ) -> int:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        stream = self._open(arguments, stdin)
        try:
            for start in range(0, len(stdin), PIECE):
                stream.write_stdin(stdin[start : start + PIECE])
            while stream.is_open():
                stream.update(timeout=TURN_S)
                _pass_on(stream, output, errors)
                if deadline is not None and time.monotonic() > deadline:
                    raise ClusterError(f"{arguments[0]} on {self._pod} took longer than {timeout_s:g} s.")
            _pass_on(stream, output, errors)
            code = stream.returncode
        finally:
            stream.close()
            stream.sock.shutdown()  # Which the client leaves open where the other side was the first to close.
        if code is None:
            raise ClusterError(f"The connection to {self._pod} broke.", hint="Look with kubectl get pods.")
        return int(code)

    def _open(self, arguments: Sequence[str], stdin: bytes) -> Any:
        from kubernetes.stream import stream

        command = ["sh", "-c", WITH_INPUT, "sh", str(len(stdin)), *arguments] if stdin else list(arguments)
        core = self._api.core()
        with speaking(f"run a command in {self._pod}"):
            return stream(
                core.connect_get_namespaced_pod_exec,
                self._pod,
                self._api.namespace,
                command=command,
                container=self._container,
                stdin=bool(stdin),
                stdout=True,
                stderr=True,
                tty=False,
                binary=True,
                _preload_content=False,
            )

    def forward(self, port: int) -> tuple[int, Callable[[], None]]:
        return listen(lambda connection: self._lead(connection, port))

    def _lead(self, connection: socket.socket, port: int) -> None:
        from kubernetes.stream import portforward

        core = self._api.core()
        try:
            tunnel = portforward(
                core.connect_get_namespaced_pod_portforward, self._pod, self._api.namespace, ports=str(port)
            )
        except Exception:  # noqa: BLE001 - whatever it is, the client sees a connection that ends
            connection.close()
            return
        inner = tunnel.socket(port)
        back = threading.Thread(target=_back, args=(inner, connection), name="shoal-forward", daemon=True)
        back.start()
        _pump(connection, inner)
        back.join(LAST_BYTES_S)
        tunnel.close()
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        back.join()
        connection.close()
        _end(tunnel)


def _pump(source: Any, target: Any) -> None:
    """Bytes from one to the other, until there are no more. The tunnel knows no end of one direction alone."""
    with suppress(OSError):
        while data := source.recv(PIECE):
            target.sendall(data)


def _end(tunnel: Any) -> None:
    """The client's tunnel ends by a thread of its own, and leaves its socket open where the pod closed first."""
    deadline = time.monotonic() + TURN_S
    while tunnel.websocket.connected and time.monotonic() < deadline:
        time.sleep(0.01)
    tunnel.websocket.shutdown()


def _back(inner: Any, connection: socket.socket) -> None:
    """What the pod sends, and then the end: a client may wait for it before it closes its side."""
    _pump(inner, connection)
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _pass_on(stream: Any, output: Callable[[bytes], Any], errors: Callable[[bytes], Any]) -> None:
    for peek, read, sink in (
        (stream.peek_stdout, stream.read_stdout, output),
        (stream.peek_stderr, stream.read_stderr, errors),
    ):
        if peek():
            sink(read(timeout=0))


def _writer(file: BinaryIO) -> Callable[[bytes], None]:
    def write(data: bytes) -> None:
        file.write(data)
        file.flush()

    return write
