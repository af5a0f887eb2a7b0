"""The provider `kubernetes`, against a small API server, and against a real kube-apiserver where there is one.

`SHOAL_KUBE_APISERVER` names the program; it needs `etcd` beside it. What no test here has: KubeRay's operator and a
kubelet. A thread of the test stands in for the operator, and makes the pods that a RayCluster asks for.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import kubernetes
import pytest
import yaml
from kubernetes.client.rest import ApiException

from servers.processes import free_ports
from shoal import spec
from shoal.cluster.containers.documents import Versions
from shoal.cluster.containers.kubernetes import KubernetesProvider
from shoal.errors import ClusterError

SERVERS = ["small", pytest.param("real", marks=pytest.mark.machine)]
SMALL = Path(__file__).parent / "small_api_server.py"
NAMESPACE = "default"
VERSIONS = Versions("3.11", "2.60.0", "0.1.0")
LAB = """
kind: cluster
name: lab
provider: kubernetes
image: registry.example/lab:1
nodes:
  - {host: node0, cpu: 2, memory: 8GiB, labels: {tier: cloud}}
  - {host: node1, cpu: 4, memory: 16GiB, labels: {tier: cloud}}
  - {host: node2, cpu: 4, memory: 16GiB, labels: {tier: cloud}}
  - {host: node3, cpu: 8, gpu: 1, memory: 32GiB, labels: {tier: edge}}
"""


class Server(NamedTuple):
    """Where an API server is, and the tokens it knows."""

    url: str
    admin: str
    nobody: str
    certificate: str | None = None


@contextlib.contextmanager
def started(command: list[str], **settings: Any) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, text=True, **settings)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()


@contextlib.contextmanager
def small(*options: str) -> Iterator[Server]:
    with started([sys.executable, str(SMALL), *options], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield Server(f"http://127.0.0.1:{int(process.stdout.readline())}", "admin", "nobody")


@contextlib.contextmanager
def real(folder: Path, crds: list[dict[str, Any]]) -> Iterator[Server]:
    """A kube-apiserver and its etcd."""
    program, etcd = os.environ.get("SHOAL_KUBE_APISERVER"), shutil.which("etcd")
    if not program or not etcd:
        pytest.skip("no kube-apiserver: SHOAL_KUBE_APISERVER does not name one, or etcd is not installed")
    client, peer, port = free_ports(3)
    (folder / "tokens.csv").write_text('admin,admin,1,"system:masters"\nnobody,nobody,2,"nobodies"\n')
    key = folder / "key.pem"
    subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
    database = [
        etcd,
        f"--data-dir={folder}/etcd",
        f"--listen-client-urls=http://127.0.0.1:{client}",
        f"--advertise-client-urls=http://127.0.0.1:{client}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-cluster=default=http://127.0.0.1:{peer}",
    ]
    server = [
        program,
        f"--etcd-servers=http://127.0.0.1:{client}",
        f"--cert-dir={folder}/certs",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-account-issuer=https://127.0.0.1",
        f"--token-auth-file={folder}/tokens.csv",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.1.0.0/24",
        "--disable-admission-plugins=ServiceAccount",
    ]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with started(database, **quiet), started(server, **quiet):
        certificate = folder / "certs" / "apiserver.crt"
        until(certificate.exists)
        found = Server(f"https://127.0.0.1:{port}", "admin", "nobody", str(certificate))
        extensions = kubernetes.client.ApiextensionsV1Api(client_of(found))
        until(lambda: extensions.list_custom_resource_definition() is not None)
        for crd in crds:
            extensions.create_custom_resource_definition(crd)
        if crds:
            custom = kubernetes.client.CustomObjectsApi(extensions.api_client)
            until(lambda: custom.list_namespaced_custom_object("ray.io", "v1", NAMESPACE, "rayclusters"))
        until(lambda: kubernetes.client.CoreV1Api(extensions.api_client).read_namespace(NAMESPACE))
        yield found


def until(condition: Callable[[], Any], timeout_s: float = 60.0) -> Any:
    """Wait until it is true, and neither refused nor unreachable."""
    import urllib3

    deadline = time.monotonic() + timeout_s
    while True:
        with contextlib.suppress(ApiException, urllib3.exceptions.HTTPError):
            if found := condition():
                return found
        assert time.monotonic() < deadline, "it did not come to be in time"
        time.sleep(0.05)


def client_of(server: Server) -> Any:
    configuration = kubernetes.client.Configuration()
    configuration.host, configuration.retries = server.url, False
    configuration.ssl_ca_cert = server.certificate
    configuration.api_key = {"authorization": f"Bearer {server.admin}"}
    return kubernetes.client.ApiClient(configuration)


def crd_of(schema: Any) -> dict[str, Any]:
    """The resource as an old API server takes it: without rules that are younger than it."""
    younger = ("x-kubernetes-validations", "x-kubernetes-list-type", "x-kubernetes-list-map-keys")

    def plain(each: Any) -> Any:
        if isinstance(each, list):
            return [plain(one) for one in each]
        if not isinstance(each, dict):
            return each
        kept = {
            name: value for name, value in each.items() if name not in (*younger, "x-kubernetes-map-type")
        }
        return {n: plain(v) for n, v in kept.items() if n != "default" or isinstance(v, dict)}

    names = {
        "kind": "RayCluster",
        "plural": "rayclusters",
        "singular": "raycluster",
        "listKind": "RayClusterList",
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": plain(schema)}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "rayclusters.ray.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": "ray.io",
            "scope": "Namespaced",
            "names": names,
            "versions": [{**version, "subresources": {"status": {}}}],
        },
    }


@pytest.fixture(scope="module", params=SERVERS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, crd_schemas: Any
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("api")
    if request.param == "real":
        with real(folder, [crd_of(crd_schemas.plain("RayCluster"))]) as found:
            yield found
        return
    schema = folder / "schema.json"
    schema.write_text(json.dumps(crd_schemas.strict("RayCluster")))
    with small("--schema", str(schema)) as found:
        yield found


@pytest.fixture(scope="module")
def small_server() -> Iterator[Server]:
    with small() as found:
        yield found


@pytest.fixture
def use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes a server the current one of the kubeconfig."""

    def choose(server: Server, token: str | None = None) -> None:
        trusted = {"certificate-authority": server.certificate} if server.certificate else {}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [
                {"name": "test", "context": {"cluster": "test", "user": "me", "namespace": NAMESPACE}}
            ],
            "clusters": [{"name": "test", "cluster": {"server": server.url, **trusted}}],
            "users": [{"name": "me", "user": {"token": token or server.admin}}],
        }
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(document))
        monkeypatch.setenv("KUBECONFIG", str(path))
        monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(path))

    return choose


def provider(text: str = LAB, **settings: Any) -> KubernetesProvider:
    cluster = spec.loads(text, folder=".", label="lab.yaml", kind="cluster")
    assert isinstance(cluster, spec.Cluster)
    settings = {"ready_timeout_s": 30.0, "gone_timeout_s": 30.0} | settings
    return KubernetesProvider(cluster, "lab.yaml", versions=VERSIONS, **settings)


class Operator:
    """Does for RayClusters what KubeRay's operator and a kubelet do, as far as the API shows it."""

    def __init__(self, server: Server) -> None:
        client = client_of(server)
        self.core = kubernetes.client.CoreV1Api(client)
        self.custom = kubernetes.client.CustomObjectsApi(client)
        self.trouble: dict[str, str] = {}
        """By type of node: why its pods do not start."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Operator:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._ended.wait(0.1):
            with contextlib.suppress(ApiException):
                self._reconcile()

    def _reconcile(self) -> None:
        clusters = self.custom.list_namespaced_custom_object("ray.io", "v1", NAMESPACE, "rayclusters")[
            "items"
        ]
        wanted: dict[str, tuple[str, str, str]] = {}
        for each in clusters:
            name = each["metadata"]["name"]
            wanted[f"{name}-head"] = (name, "head", "headgroup")
            for group in each["spec"]["workerGroupSpecs"]:
                gone = group.get("scaleStrategy", {}).get("workersToDelete", [])
                names = (f"{name}-{group['groupName']}-{number}" for number in range(100))
                left = [pod for pod in names if pod not in gone][: group["replicas"]]
                wanted |= dict.fromkeys(left, (name, "worker", group["groupName"]))
        there = {pod.metadata.name: pod for pod in self.core.list_namespaced_pod(NAMESPACE).items}
        for pod in there.keys() - wanted.keys():
            self.core.delete_namespaced_pod(pod, NAMESPACE, grace_period_seconds=0)
        for pod in sorted(wanted.keys() - there.keys()):
            self._make(pod, *wanted[pod])

    def _make(self, pod: str, cluster: str, kind: str, group: str) -> None:
        labels = {"ray.io/cluster": cluster, "ray.io/node-type": kind, "ray.io/group": group}
        container = {"name": f"ray-{kind}", "image": "registry.example/lab:1"}
        body = {"metadata": {"name": pod, "labels": labels}, "spec": {"containers": [container]}}
        self.core.create_namespaced_pod(NAMESPACE, body)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        why = self.trouble.get(kind)
        condition = {"type": "Ready", "status": "False" if why else "True", "lastTransitionTime": now}
        status: dict[str, Any] = {"phase": "Pending" if why else "Running", "conditions": [condition]}
        if why:
            waiting = {"waiting": {"reason": why, "message": "see the registry"}}
            status["containerStatuses"] = [
                {**container, "imageID": "", "ready": False, "restartCount": 0, "state": waiting}
            ]
        self.core.patch_namespaced_pod_status(pod, NAMESPACE, {"status": status})


@pytest.fixture
def operator(server: Server, use: Callable[..., None]) -> Iterator[Operator]:
    """An operator, and a cluster that nothing of an earlier test is left in."""
    use(server)
    with Operator(server) as found:
        provider().down(lambda line: None)
        yield found
        found.trouble.clear()
        provider().down(lambda line: None)


def states(of: KubernetesProvider) -> dict[str, str]:
    return {status.host: status.state for status in of.status()}


def test_up_makes_everything_and_down_leaves_nothing(operator: Operator) -> None:
    lab, told = provider(), list[str]()
    assert states(lab) == dict.fromkeys(("node0", "node1", "node2", "node3"), "down")
    assert lab.up(told.append) == {}
    until(lambda: set(states(lab).values()) == {"up"})
    head, *workers = lab.status()
    assert head.head
    assert head.node.cpu == 0, "a small head does no work"
    assert [status.node.cpu for status in workers] == [4, 4, 8]
    assert all(status.requested_s and status.ready_s for status in workers)
    assert lab.inventory() == [status.node for status in lab.status()]
    secret = operator.core.read_namespaced_secret("lab", NAMESPACE)
    assert len(secret.data["auth_token"]) > 40
    lab.down(told.append)
    assert states(lab) == dict.fromkeys(("node0", "node1", "node2", "node3"), "down")
    selector = {"label_selector": "shoal.cluster=lab"}
    assert operator.core.list_namespaced_secret(NAMESPACE, **selector).items == []
    policies = kubernetes.client.NetworkingV1Api(operator.core.api_client)
    assert policies.list_namespaced_network_policy(NAMESPACE, **selector).items == []
    assert secret.data["auth_token"] not in "".join(told)


def test_up_and_down_may_be_repeated_and_the_token_stays(operator: Operator) -> None:
    provider().up(lambda line: None)
    token = operator.core.read_namespaced_secret("lab", NAMESPACE).data
    provider().up(lambda line: None)
    assert operator.core.read_namespaced_secret("lab", NAMESPACE).data == token
    provider().down(lambda line: None)
    provider().down(lambda line: None)


def test_nodes_come_and_go_one_by_one(operator: Operator) -> None:
    lab = provider()
    lab.up(lambda line: None, ["node0", "node1"])
    until(lambda: states(lab) == {"node0": "up", "node1": "up", "node2": "down", "node3": "down"})
    lab.up(lambda line: None, ["node3"])
    until(lambda: states(lab) == {"node0": "up", "node1": "up", "node2": "down", "node3": "up"})
    lab.down(lambda line: None, ["node3"])
    until(lambda: states(lab) == {"node0": "up", "node1": "up", "node2": "down", "node3": "down"})


def test_the_pod_that_goes_is_the_one_that_was_named(operator: Operator) -> None:
    lab = provider()
    lab.up(lambda line: None)
    until(lambda: set(states(lab).values()) == {"up"})
    first = next(status.why for status in lab.status() if status.host == "node1")
    second = next(status.why for status in lab.status() if status.host == "node2")
    lab.down(lambda line: None, ["node1"])
    until(lambda: list(states(lab).values()).count("up") == 3)
    left = {status.why for status in lab.status()}
    assert first not in left
    assert second in left


def test_pods_that_the_autoscaler_added_are_nodes_too(operator: Operator) -> None:
    scaled = provider(LAB + "scale: {min: 1, max: 6, idle: 30s}\n")
    scaled.up(lambda line: None)
    assert states(scaled)["node1"] == "down", "none but the head is there at the start"
    found = operator.custom.get_namespaced_custom_object("ray.io", "v1", NAMESPACE, "rayclusters", "lab")
    assert found["spec"]["enableInTreeAutoscaling"] is True
    groups = found["spec"]["workerGroupSpecs"]
    groups[0]["replicas"] = 3
    operator.custom.patch_namespaced_custom_object(
        "ray.io", "v1", NAMESPACE, "rayclusters", "lab", {"spec": {"workerGroupSpecs": groups}}
    )
    until(lambda: list(states(scaled).values()).count("up") == 4)
    assert [host for host in states(scaled) if re.fullmatch(r"lab-cpu4-\d+", host)]
    scaled.up(lambda line: None)
    found = operator.custom.get_namespaced_custom_object("ray.io", "v1", NAMESPACE, "rayclusters", "lab")
    assert found["spec"]["workerGroupSpecs"][0]["replicas"] == 3, "what runs stays"


def test_a_head_that_cannot_start_is_an_error_with_the_reason(operator: Operator) -> None:
    operator.trouble["head"] = "InvalidImageName"
    with pytest.raises(
        ClusterError, match="head does not come up: InvalidImageName: see the registry"
    ) as error:
        provider().up(lambda line: None)
    assert "kubectl describe pods" in str(error.value.hint)


def test_workers_that_do_not_start_are_named_with_the_reason(operator: Operator) -> None:
    operator.trouble["worker"] = "ImagePullBackOff"
    lab = provider()
    lab.up(lambda line: None)
    until(lambda: list(states(lab).values()).count("starting") == 3)
    assert until(lambda: lab.up(lambda line: None)).keys() == {"node1", "node2", "node3"}
    assert {status.why for status in lab.status()[1:]} == {"ImagePullBackOff: see the registry"}
    lab.down(lambda line: None, ["node3", "node2"])
    until(lambda: states(lab) == {"node0": "up", "node1": "starting", "node2": "down", "node3": "down"})


def test_a_cluster_of_somebody_else_is_left_alone(operator: Operator) -> None:
    provider().up(lambda line: None)
    change = {"metadata": {"labels": {"shoal.cluster": None}}}
    operator.custom.patch_namespaced_custom_object("ray.io", "v1", NAMESPACE, "rayclusters", "lab", change)
    with pytest.raises(ClusterError, match="that Shoal did not make"):
        provider().up(lambda line: None)


def test_a_secret_without_a_token_is_an_error(operator: Operator) -> None:
    body = {"metadata": {"name": "lab", "labels": {"made": "by-hand"}}, "data": {"other": "eA=="}}
    operator.core.create_namespaced_secret(NAMESPACE, body)
    try:
        with pytest.raises(ClusterError, match="has no key auth_token"):
            provider().up(lambda line: None)
    finally:
        operator.core.delete_namespaced_secret("lab", NAMESPACE)


def test_a_user_without_rights_is_told_so(server: Server, use: Callable[..., None]) -> None:
    use(server, server.nobody)
    with pytest.raises(ClusterError, match=r"does not let you look at RayClusters: .*forbidden"):
        provider().up(lambda line: None)


def test_a_wrong_token_is_told_so(server: Server, use: Callable[..., None]) -> None:
    use(server, "wrong")
    with pytest.raises(ClusterError, match="does not accept the credentials"):
        provider().status()


@pytest.mark.parametrize("which", SERVERS)
def test_without_kuberay_it_says_how_to_install_it(
    which: str, use: Callable[..., None], tmp_path: Path
) -> None:
    with small("--without-kuberay") if which == "small" else real(tmp_path, []) as server:
        use(server)
        with pytest.raises(ClusterError, match="KubeRay is not installed") as error:
            provider().up(lambda line: None)
        assert "helm install" in str(error.value.hint)
        assert kubernetes.client.CoreV1Api(client_of(server)).list_namespaced_secret(NAMESPACE).items == []


def test_without_a_kubeconfig_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = str(tmp_path / "none")
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", nowhere)
    with pytest.raises(ClusterError, match="it is not known where Kubernetes is") as error:
        provider().status()
    assert "kubectl get pods" in str(error.value.hint)


def test_an_unknown_context_is_named(small_server: Server, use: Callable[..., None]) -> None:
    use(small_server)
    with pytest.raises(ClusterError, match="no context 'other'"):
        provider(LAB + "context: other\n").status()


def test_a_server_that_is_not_there_is_an_error_at_once(use: Callable[..., None]) -> None:
    use(Server(f"http://127.0.0.1:{free_ports(1)[0]}", "admin", "nobody"))
    with pytest.raises(ClusterError, match="cannot be reached to look at RayClusters"):
        provider().status()


def test_without_an_image_nothing_is_made(small_server: Server, use: Callable[..., None]) -> None:
    use(small_server)
    with pytest.raises(Exception, match="No image is given"):
        provider(LAB.replace("image: registry.example/lab:1\n", "")).up(lambda line: None)


def test_work_is_driven_from_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOAL_CLUSTER", raising=False)
    with pytest.raises(ClusterError, match="driven from inside") as error:
        provider().join(lambda line: None)
    assert "--detach" in str(error.value.hint)
    monkeypatch.setenv("SHOAL_CLUSTER", "lab")
    assert provider().join(lambda line: None).address == "auto"


@pytest.fixture
def door(small_server: Server, use: Callable[..., None]) -> Iterator[Any]:
    use(small_server)
    with Operator(small_server):
        lab = provider()
        lab.up(lambda line: None)
        yield lab.door()
        lab.down(lambda line: None)


def test_a_command_runs_behind_the_door(door: Any) -> None:
    done = door.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert done == (3, b"out\n", b"err\n")
    data = bytes(range(256)) * 1000
    assert door.run(["cat"], stdin=data) == (0, data, b"")
    assert door.run(["printf", "%s", "a b'$x"]).output == b"a b'$x"
    with pytest.raises(ClusterError, match="took longer than"):
        door.run(["sleep", "20"], timeout_s=0.2)


def test_what_a_command_prints_comes_here(door: Any, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert door.attach(["sh", "-c", "echo hello; exit 2"]) == 2
    assert capfdbinary.readouterr().out == b"hello\n"


def test_a_port_of_the_head_is_reached_through_loopback(door: Any) -> None:
    data = os.urandom(1 << 20)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for _ in range(2):
                connection, _ = server.accept()
                with connection:
                    assert connection.recv(5) == b"hello"
                    connection.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        port, close = door.forward(server.getsockname()[1])
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", port), 10) as connection:
                connection.sendall(b"hello")
                received = bytearray()
                while len(received) < len(data):
                    piece = connection.recv(1 << 16)
                    assert piece, "it ended early"
                    received += piece
                assert received == data
        thread.join()
        close()
        close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), 1)


def test_there_is_no_door_before_the_head_is_up(small_server: Server, use: Callable[..., None]) -> None:
    use(small_server)
    with pytest.raises(ClusterError, match="its head is not up"):
        provider(LAB.replace("name: lab", "name: other")).door()
