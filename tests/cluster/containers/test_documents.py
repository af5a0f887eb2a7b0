"""Documents of any cluster file: they fit their schemas, say what the file says, and hold no token."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal import spec
from shoal.cluster.containers import dockerfile, kuberay, stack
from shoal.cluster.containers.container_groups import dns_name, is_label_value, layout_of
from shoal.cluster.containers.documents import Versions, to_yaml
from shoal.errors import SpecError
from shoal.spec import Cluster, ClusterNode, Scale

VERSIONS = Versions("3.11", "2.60.0", "0.1.0")
NAMES = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,62}", fullmatch=True)
WORDS = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,12}[A-Za-z0-9])?", fullmatch=True)
LABELS = st.dictionaries(WORDS.filter(lambda word: not word.startswith("shoal.")), WORDS, max_size=3)
NODES = st.builds(
    ClusterNode,
    host=st.from_regex(r"[^\s-]\S{0,30}", fullmatch=True),
    cpu=st.none() | st.floats(0.01, 256) | st.integers(1, 128),
    gpu=st.none() | st.integers(0, 16),
    memory_bytes=st.none() | st.integers(1, 1 << 42),
    labels=LABELS,
)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    nodes = draw(st.lists(NODES, max_size=6, unique_by=lambda node: node.host))
    least = draw(st.integers(0, 5))
    scale = draw(
        st.none()
        | st.builds(Scale, min=st.just(least), max=st.integers(max(1, least), 50), idle_s=st.floats(0.1, 1e5))
    )
    return Cluster(
        name=draw(NAMES),
        provider="kubernetes",
        nodes=tuple(nodes),
        scale=scale,
        namespace=draw(st.none() | st.just("research")),
        storage=draw(st.none() | st.just("s3://lab/shoal")),
    )


def workload() -> spec.Workload:
    return spec.loads(
        "kind: sweep\nname: first\ntrials: {grid: {x: [1]}}\nrun: {command: 'true {x}'}\n", folder="."
    )


@given(cluster=clusters())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
def test_kuberay_accepts_the_documents_of_every_cluster(
    cluster: Cluster, validate: Callable[[dict[str, Any]], None]
) -> None:
    target = kuberay.target_of(cluster, "lab:1", VERSIONS)
    values = [
        kuberay.ray_cluster(cluster, target),
        kuberay.network_policy(target),
        kuberay.driver_config(cluster, target, workload()),
        kuberay.ray_job(cluster, target, workload(), "sweep.yaml"),
    ]
    text = to_yaml(values)
    assert list(yaml.safe_load_all(text)) == values
    for value in values:
        validate(value)
    found = values[0]["spec"]
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", values[0]["metadata"]["name"])
    assert len(values[0]["metadata"]["name"]) <= 41
    assert found["authOptions"] == {"mode": "token", "secretName": target.name}
    assert "RAY_AUTH_TOKEN" not in text
    groups = found["workerGroupSpecs"]
    assert len({group["groupName"] for group in groups}) == len(groups)
    for group in groups:
        assert 0 <= group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    most = cluster.scale.max if cluster.scale else max(1, len(cluster.nodes))
    assert 1 + sum(group["maxReplicas"] for group in groups) == most


@given(cluster=clusters())
@settings(max_examples=40)
def test_a_stack_has_a_service_for_every_node_and_no_token(cluster: Cluster) -> None:
    value = stack.stack(cluster, "lab:1", stack.Job(workload(), "sweep.yaml"))
    assert yaml.safe_load(to_yaml([value])) == value
    assert len(value["services"]) == max(1, len(cluster.nodes)) + 1
    assert value["secrets"] == {"token": {"external": True, "name": stack.secret_name(cluster)}}
    for name, service in value["services"].items():
        assert re.fullmatch(r"[a-z][a-z0-9-]{0,62}", name)
        assert service["environment"]["RAY_AUTH_TOKEN_PATH"] == "/run/secrets/ray-token"
        command = service["command"][2].replace(stack.OWN_ADDRESS, "")
        assert not set(command.partition("; do sleep 2; done; exec")[0]) & set("$`;|<>\"'\\\n"), (
            "nothing that a shell would act on"
        )
        assert all(
            "$" not in part.replace("$$", "") for part in service["deploy"]["placement"]["constraints"]
        )


def test_docker_fills_nothing_into_a_stack() -> None:
    cluster = Cluster(name="lab", provider="swarm", nodes=(ClusterNode(host="a${HOME}"),))
    service = stack.stack(cluster, "lab:$TAG")["services"][dns_name("a${HOME}", 60)]
    assert service["image"] == "lab:$$TAG"
    assert service["deploy"]["placement"]["constraints"] == ["node.hostname == a$${HOME}"]
    assert service["deploy"]["labels"]["shoal.host"] == "a$${HOME}"


@given(cluster=clusters())
@settings(max_examples=40)
def test_equal_nodes_are_one_group(cluster: Cluster) -> None:
    layout = layout_of(cluster)
    kinds = [group.kind for group in layout.workers]
    assert len(set(kinds)) == len(kinds)
    if cluster.scale is None:
        hosts = [host for group in (layout.head, *layout.workers) for host in group.hosts]
        assert sorted(hosts) == sorted(node.host for node in cluster.nodes) or not cluster.nodes
        assert all(group.least == group.most == len(group.hosts) for group in layout.workers)


@given(st.lists(st.text(min_size=1, max_size=80), unique=True, max_size=20))
def test_different_names_stay_different(names: list[str]) -> None:
    made = [dns_name(name) for name in names]
    assert len(set(made)) == len(names)
    assert all(re.fullmatch(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?", name) for name in made)


@pytest.mark.parametrize(
    ("cpus", "gpu", "works"),
    [([1, 8], 0, False), ([2, 8], 0, False), ([2.5, 8], 0, True), ([1], 0, True), ([1, 8], 1, True)],
    ids=["one", "two", "more", "alone", "with-gpu"],
)
def test_a_small_head_does_no_work_where_there_are_others(cpus: list[float], gpu: int, works: bool) -> None:
    nodes = [ClusterNode(host=f"n{i}", cpu=cpu, gpu=0 if i else gpu) for i, cpu in enumerate(cpus)]
    cluster = Cluster(name="lab", provider="kubernetes", nodes=tuple(nodes))
    assert layout_of(cluster).head_works is works
    head = kuberay.ray_cluster(cluster, kuberay.target_of(cluster, "x", VERSIONS))["spec"]["headGroupSpec"]
    assert ("num-cpus" in head["rayStartParams"]) is not works


def test_labels_that_containers_cannot_have_are_all_named() -> None:
    labels = {"ray.io/x": "a", "two words": "a", "tier": "a b", "shoal.host": "z"}
    cluster = Cluster(name="lab", provider="swarm", nodes=(ClusterNode(host="n0", gpu=0.5, labels=labels),))
    with pytest.raises(SpecError) as error:
        layout_of(cluster)
    assert len(error.value.problems) == 5


def test_a_host_is_a_label_of_ray_only_where_it_is_one_node() -> None:
    nodes = tuple(ClusterNode(host=f"n{i}", cpu=4 if i < 3 else 8) for i in range(4))
    cluster = Cluster(name="lab", provider="kubernetes", nodes=nodes)
    document = kuberay.ray_cluster(cluster, kuberay.target_of(cluster, "x", VERSIONS))["spec"]
    assert document["headGroupSpec"]["labels"] == {"shoal.host": "n0"}
    assert [group["labels"] for group in document["workerGroupSpecs"]] == [{}, {"shoal.host": "n3"}]


@pytest.mark.parametrize(
    ("text", "plain"),
    [("", True), ("a", True), ("a b", False), ("-a", False), ("a" * 63, True), ("a" * 64, False)],
)
def test_values_of_labels(text: str, plain: bool) -> None:
    assert is_label_value(text) is plain


@given(st.floats(0.001, 1000))
def test_cpus_are_never_rounded_down(cpu: float) -> None:
    text = kuberay.cpu_quantity(cpu)
    value = int(text[:-1]) / 1000 if text.endswith("m") else int(text)
    assert cpu - 1e-6 <= value <= cpu + 0.0011
    assert math.isfinite(value)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("--index-url https://x", "is an option"),
        ("-r ../other.txt", "outside of the workload's folder"),
        ("-r /etc/passwd", "outside of the workload's folder"),
        ("git+https://me:secret@host/x.git", "a password in it"),
    ],
)
def test_requirements_that_must_not_be_in_an_image_are_refused(line: str, problem: str) -> None:
    with pytest.raises(SpecError, match=problem) as error:
        dockerfile.image([line], [], VERSIONS)
    assert "secret" not in str(error.value)


def test_requirements_are_arguments_and_never_a_shell_line() -> None:
    text = dockerfile.image(["x; rm -rf / #", "-r a b.txt"], [], VERSIONS)[0].text
    assert '"x; rm -rf / #"]' in text
    assert 'COPY ["a b.txt", "a b.txt"]' in text


def test_texts_that_look_like_something_else_stay_texts() -> None:
    texts = [
        "1e3",
        "on",
        "y",
        "0x1f",
        "1_000",
        "12:30",
        "null",
        "~",
        "",
        "2024-01-01",
        "a: b",
        "#x",
        "- a",
        "@x",
    ]
    assert yaml.safe_load(to_yaml([texts])) == texts
    assert all(line.startswith('- "') for line in to_yaml([texts]).splitlines())


def test_no_value_of_the_environment_goes_into_an_export(tmp_path: Path) -> None:
    from shoal.api.clusters.export_files import export

    (tmp_path / "sweep.yaml").write_text(
        "kind: sweep\nname: s\ntrials: {grid: {x: [1]}}\nrun: {command: 'true {x}'}\nenv: {KEY: hunter2}\n"
    )
    (tmp_path / "k8s.yaml").write_text("kind: cluster\nname: c\nprovider: kubernetes\nimage: a:1\n")
    for to, cluster in (("image", None), ("kuberay", "k8s.yaml"), ("swarm", "k8s.yaml")):
        found = export(
            str(tmp_path / "sweep.yaml"), to, cluster=cluster and str(tmp_path / cluster), versions=VERSIONS
        )
        assert all("hunter2" not in document.text for document in found.documents)
