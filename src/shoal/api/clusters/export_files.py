"""Export: a cluster or a workload as files for other systems. Reads the given files, and starts and changes nothing."""

from __future__ import annotations

import os

from shoal import spec as specs
from shoal.cluster.containers.container_groups import WORK, image_of
from shoal.cluster.containers.documents import Document, Exported, Versions, installed, to_yaml, without_ray
from shoal.errors import Problem, SpecError, unknown
from shoal.exclusions import left_out, travelling
from shoal.spec import Cluster, Workload
from shoal.work.kind import kind_of

TARGETS = ("kuberay", "swarm", "image", "spark")
LATER = {
    "kfp": "pipelines",
    "tfjob": "the kind train",
    "pytorchjob": "the kind train",
    "grafana": "metrics of nodes",
    "extender": "the scheduler extender",
}
"""Targets that come with something that is not there yet."""


def export(file: str, to: str, *, cluster: str | None = None, versions: Versions | None = None) -> Exported:
    """The files of a target, as values.

    `kuberay` and `swarm` take a cluster file, or a workload with `cluster`; `image` takes a workload, and `spark` one
    of the kind process. Raises `SpecError` with everything that the target cannot have.
    """
    if to in LATER:
        raise SpecError(
            f"Exporting to {to} comes with {LATER[to]}, which is not there yet.",
            hint=f"There are: {', '.join(TARGETS)}.",
        )
    if to not in TARGETS:
        raise unknown("target", to, TARGETS)
    found = specs.load(file, kind=specs.ANY)
    if to == "image":
        return _image(found, file, versions)
    if to == "spark":
        return _spark(found, file, versions or without_ray())
    workload = None if isinstance(found, Cluster) else found
    where = _cluster(found, file, cluster)
    assert workload is None or isinstance(workload, Workload)
    image = image_of(where, workload)
    if to == "kuberay":
        return _kuberay(where, workload, os.path.basename(file), image, versions or installed())
    return _swarm(where, workload, os.path.basename(file), image)


def _cluster(found: specs.Spec, file: str, cluster: str | None) -> Cluster:
    if isinstance(found, Cluster):
        if cluster is not None:
            raise SpecError(f"{file} is a cluster file already.", hint="Leave --cluster out.")
        return found
    if cluster is None:
        raise SpecError(
            f"{file} is a workload, and nothing says which cluster to write down for it.",
            hint="Name one with --cluster FILE.",
        )
    return specs.load(cluster, kind="cluster")


def _kuberay(
    cluster: Cluster, workload: Workload | None, file: str, image: str, versions: Versions
) -> Exported:
    from shoal.cluster.containers import kuberay

    target = kuberay.target_of(cluster, image, versions)
    namespace = f" -n {target.namespace}" if target.namespace else ""
    comment = [
        f"{cluster.name} for KubeRay 1.6 or newer. Its token has to be there first, in a Secret:",
        "  openssl rand -hex 32 | tr -d '\\n' \\",
        f"    | kubectl create secret generic {target.name}{namespace} --from-file={kuberay.TOKEN_KEY}=/dev/stdin",
    ]
    notes = [f"The Secret {target.name} with the token has to be there first: the file says how."]
    values = [kuberay.network_policy(target)]
    if workload is None:
        values.append(kuberay.ray_cluster(cluster, target))
    else:
        values.append(kuberay.driver_config(cluster, target, workload))
        values.append(kuberay.ray_job(cluster, target, workload, file))
        notes.append(f"The image {image} needs the workload's folder in it: shoal export {file} --to image.")
        if not cluster.storage:
            notes.append(
                "Without storage: in the cluster file the run is kept on the head, so the cluster stays up."
            )
    return Exported([Document("kuberay.yaml", to_yaml(values, comment=comment))], notes)


def _swarm(cluster: Cluster, workload: Workload | None, file: str, image: str) -> Exported:
    from shoal.cluster.containers import stack

    name, secret = stack.stack_name(cluster), stack.secret_name(cluster)
    comment = [
        f"{cluster.name} for Docker Swarm. Its token has to be there first, in a secret:",
        f"  openssl rand -hex 32 | tr -d '\\n' | docker secret create {secret} -",
        f"  docker stack deploy -c stack.yaml {name}",
    ]
    notes = [f"The secret {secret} with the token has to be there first: the file says how."]
    if cluster.scale is not None:
        notes.append("Swarm starts no nodes by itself: scale: is not in the stack.")
    job = None if workload is None else stack.Job(workload, file)
    documents = [Document("stack.yaml", to_yaml([stack.stack(cluster, image, job)], comment=comment))]
    if job is not None:
        documents.append(Document(stack.DRIVER_NAME, stack.driver_text(cluster)))
        notes.append(f"The image {image} needs the workload's folder in it: shoal export {file} --to image.")
    return Exported(documents, notes)


def _image(found: specs.Spec, file: str, versions: Versions | None) -> Exported:
    from shoal.cluster.containers import dockerfile

    if not isinstance(found, Workload):
        raise SpecError(
            f"{file} is a cluster file, and an image is made for a workload.",
            hint="Name a workload file: shoal export sweep.yaml --to image.",
        )
    if found.image is not None:
        problem = Problem(
            f"{file}: runs in the image {found.image} already.", "Take image: out to make another."
        )
        raise SpecError(problem.message, hint=problem.hint, problems=[problem])
    documents = dockerfile.image(found.requirements, left_out(found.folder), versions or installed())
    notes = [f"Build it with: docker build -f Dockerfile -t {found.name} {found.folder}"]
    said = travelling(found.folder).said()
    return Exported(documents, [*notes, *([said] if said else [])])


def _spark(found: specs.Spec, file: str, versions: Versions) -> Exported:
    from shoal.cluster.containers import spark_application

    work = kind_of(found.kind).spark_work(found) if isinstance(found, Workload) else None
    if work is None or not isinstance(found, Workload):
        raise SpecError(
            f"{file} is of the kind {found.kind}, which Spark cannot run.",
            hint="Name a file that begins with kind: process.",
        )
    if found.image is None:
        raise SpecError(
            f"{file} names no image for the driver and the executors.",
            hint=f"Name one with image: that has Spark, Shoal, and the workload's folder as {WORK}.",
        )
    value = spark_application.spark_application(found, work, os.path.basename(file), versions)
    main = value["spec"]["mainApplicationFile"].removeprefix("local://")
    name = spark_application.FILE
    comment = [f"{found.name} for the Kubernetes operator for Apache Spark: kubectl apply -f {name}"]
    notes = [
        f"The image {found.image} needs Spark with its entry point, Python 3.11 or newer, Shoal as {main},"
        f" and the workload's folder as {WORK}.",
        f"The service account {spark_application.ACCOUNT} has to be there, with the right to make pods.",
    ]
    return Exported([Document(name, to_yaml([value], comment=comment))], notes)
