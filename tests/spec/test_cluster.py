"""Cluster files."""

import pytest

from shoal import spec
from shoal.spec import Cluster, ClusterNode, Location, Scale
from shoal.spec.cluster import Probe, parse_probe

LAB = """
    kind: cluster
    name: lab
    provider: ssh
    nodes:
      - {host: node0, cpu: 8, memory: 16GiB, labels: {tier: cloud, location: nitos}}
      - {host: node1, head: true, gpu: 1, labels: {tier: edge, location: home-edge}}
    locations:
      home-edge: {probe: "gateway.home:22"}
      far: {home-edge: 20ms, nitos: 0.1}
    storage: s3://lab/shoal
    scale: {min: 1, max: 30, idle: 60s}
"""


def test_a_full_file_becomes_a_frozen_value(load):
    cluster = load(LAB, kind="cluster")
    assert isinstance(cluster, Cluster)
    assert (cluster.kind, cluster.name, cluster.provider) == ("cluster", "lab", "ssh")
    assert cluster.nodes == (
        ClusterNode(
            host="node0", cpu=8, memory_bytes=16 << 30, labels={"tier": "cloud", "location": "nitos"}
        ),
        ClusterNode(host="node1", head=True, gpu=1, labels={"tier": "edge", "location": "home-edge"}),
    )
    assert cluster.locations == {
        "home-edge": Location(probe="gateway.home:22"),
        "far": Location(known_s={"home-edge": 0.02, "nitos": 0.1}),
    }
    assert cluster.storage == "s3://lab/shoal"
    assert cluster.scale == Scale(min=1, max=30, idle_s=60.0)


def test_the_head_is_the_node_that_is_marked_else_the_first(load):
    assert load(LAB, kind="cluster").head.host == "node1"
    assert load(LAB, "nodes.1.head=false", kind="cluster").head.host == "node0"
    assert load("kind: cluster\nprovider: ray\naddress: auto", kind="cluster").head is None


def test_either_kind_is_taken_where_any_is(load):
    assert load(LAB, kind=spec.ANY).kind == "cluster"


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("nodes: []", "provider: missing, expected one of local, ssh, ray, kubernetes, swarm"),
        (
            "provider: shh\nnodes: []",
            "provider: expected one of local, ssh, ray, kubernetes, swarm, found 'shh' | Did",
        ),
        ("provider: ssh", "nodes: missing, provider ssh needs at least one node"),
        ("provider: local\naddress: auto", "address: only goes with provider ray, found provider local"),
        (
            "provider: ssh\nnodes: [{host: a}]\nimage: mine",
            "image: only goes with provider kubernetes or swarm, found provider ssh",
        ),
        (
            "provider: swarm\nnamespace: mine",
            "namespace: only goes with provider kubernetes, found provider swarm",
        ),
        ("provider: ray\ncontext: mine", "context: only goes with provider kubernetes or swarm, found"),
        (
            "provider: kubernetes\nimage: '--privileged'",
            "image: expected the name of a container image, found '--privileged'",
        ),
        ("provider: kubernetes\nnamespace: My_Own", "namespace: expected a Kubernetes namespace such as"),
        (
            "provider: local\nnodes: [{cpu: 1}]",
            "nodes.0.host: missing, expected the name or address of a host",
        ),
        (
            "provider: local\nnodes: [{host: -oProxyCommand=x}]",
            "nodes.0.host: expected the name or address of a host",
        ),
        ("provider: local\nnodes: [{host: a}, {host: a}]", "nodes.1.host: the host 'a' is given twice"),
        (
            "provider: local\nnodes: [{host: a, head: true}, {host: b, head: true}]",
            "nodes.1.head: expected one head, found 'a' too",
        ),
        (
            "provider: local\nnodes: [{host: a, head: yes}]",
            "nodes.0.head: expected true or false, found 'yes'",
        ),
        ("provider: local\nnodes: {host: a}", "nodes: expected a list of nodes such as [{host: node0}]"),
        ("provider: local\nscale: {min: 3, max: 2}", "scale: min <= max must hold, found min 3 and max 2"),
        ("provider: local\nscale: {min: 3}", "scale.max: missing, expected a whole number of at least 1"),
        ("provider: local\nlocations: {a: {}}", "locations.a: expected a mapping such as"),
        ("provider: local\nlocations: {a: {probe: 3}}", "locations.a.probe: expected what to measure"),
        ("provider: local\nlocations: {a: {probe: 'x:0'}}", "found 'x:0'"),
        ("provider: local\nlocations: {a: {probe: 'x:65536'}}", "found 'x:65536'"),
        ("provider: local\nlocations: {a: {probe: 'x:'}}", "found 'x:'"),
        ("provider: local\nlocations: {a: {probe: ':22'}}", "found ':22'"),
        ("provider: local\nlocations: {a: {probe: 'http://x'}}", "found 'http://x'"),
        ("provider: local\nlocations: {a: {probe: '::1'}}", "found '::1'"),
        ("provider: local\nlocations: {a: {b: soon}}", "locations.a.b: expected a duration"),
        ("provider: local\ntrials: {}", "trials: unknown key"),
    ],
    ids=lambda value: value[-40:],
)
def test_values_that_cannot_be_are_refused(problems, lines, problem):
    found = problems(f"kind: cluster\n{lines}\n", kind="cluster")
    assert len(found) == 1, found
    assert problem in found[0]


@pytest.mark.parametrize(
    ("text", "probe"),
    [
        ("gateway.home:22", Probe("gateway.home", 22)),
        ("gateway.home", Probe("gateway.home")),
        ("10.0.0.1:65535", Probe("10.0.0.1", 65535)),
        ("[2001:db8::1]:22", Probe("2001:db8::1", 22)),
        ("[fe80::1%eth0]", Probe("fe80::1%eth0")),
    ],
)
def test_a_probe_is_a_host_with_or_without_a_port(load, text, probe):
    cluster = load(f"kind: cluster\nprovider: local\nlocations: {{a: {{probe: '{text}'}}}}", kind="cluster")
    assert parse_probe(cluster.locations["a"].probe) == probe
