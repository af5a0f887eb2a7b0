"""An inference as a pool sees it: `prepare` turns a checked spec into a job that can be run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from shoal.engine.workers.runner import now
from shoal.errors import AccessDenied, NotFound, ShoalError, Unreachable, several
from shoal.files import is_url, pause
from shoal.files.turns import Turn, Turns
from shoal.model import Factory, Item, Need, Node, Plan, Prediction
from shoal.model.node import Packages
from shoal.model.plan import Profile
from shoal.shape.base import Policy
from shoal.shape.pool import Guide
from shoal.spec import Infer
from shoal.work import outputs
from shoal.work.infer.fingerprint import fingerprint, made_of
from shoal.work.infer.infer_run import InferRun, InferSource, inputs_left
from shoal.work.infer.item_fields import COUNT, LIST
from shoal.work.infer.tuners import MOST_ROWS, Tuning
from shoal.work.inputs import Listing, listing
from shoal.work.inputs.places import digest_of
from shoal.work.job import Conclusion, Learned, Past, PoolJob, packages_of, requirement_problems
from shoal.work.models import models
from shoal.work.models.libraries import is_installed, knows_cuda
from shoal.work.outputs.ownership import address, is_alive
from shoal.work.protocols import Models

RUNNER = "shoal.work.infer.worker.runner:InferRunner"
LOOK_S = 0.01
ANOTHER_MODEL = (
    "the model, or a function of the workload, changed since the run began; what was done before keeps its rows."
    " For rows of one model, run the workload again."
)


def prepare(spec: Infer, *, limit: int | None = None) -> InferJob:
    """Check everything that can be known to be wrong, all at once."""
    from shoal.work.infer.infer_checks import check

    problems = [*check(spec), *requirement_problems(spec)]
    if problems:
        raise several(problems)
    return InferJob(spec, limit)


class InferJob(PoolJob):
    """What an inference asks of a pool."""

    kind = "infer"

    def __init__(self, spec: Infer, limit: int | None) -> None:
        self.spec = spec
        self.name = spec.name
        self.limit = limit
        resources, limits = spec.resources, spec.limits
        self.need = Need(
            cpu=float(resources.cpu or 1),
            gpu=resources.gpu or (1 if spec.model.device == "cuda" else 0),
            memory_bytes=resources.memory_bytes or 0,
            labels=spec.placement.labels,
            node=spec.placement.node,
        )
        self.factory = Factory(RUNNER, {}, dict(spec.env), spec.folder)
        self.policy = Policy(
            retries=0,  # What fails without a crash fails again; inputs that fail are errors, not failures.
            crashes=limits.retries,
            backoff_s=0.05,  # Several tries go by until an input that kills workers is found out.
            timeout_s=limits.timeout_s,
            timeouts_count_as_crashes=True,  # One input hangs, and is found like one that kills workers.
            timeout_since_report=True,  # How long an item takes is for Shoal to choose; that it gets on is not.
            concurrent=limits.concurrent,
            stop_after=limits.stop_after,
        )
        self.failures = limits.failures
        self._notes: list[str] = []
        self._session: InferRun | None = None
        self._run = ""
        self._has_output = False
        """Whether it is ours, and can be written as far as is known."""
        self._resumed = False
        self.knows_packages = not spec.requirements
        """Whether workers have what is installed where Shoal runs, as far as is known."""
        self._counted: int | None = None
        """How many inputs there are, once somebody counted them."""

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint(self.spec)

    @cached_property
    def packages(self) -> Packages:
        return packages_of(self.spec)

    def imports(self) -> Mapping[str, str]:
        from shoal.work.infer.infer_checks import modules

        return modules(self.spec)

    def total(self) -> int | None:
        return None

    def fit(self, nodes: Sequence[Node], *, here: bool = True) -> None:
        """Where there are GPUs and nothing was said, every worker has the same share of one: they take turns at it."""
        self.knows_packages = here and not self.spec.requirements
        if self.spec.resources.gpu is not None or self.spec.model.device == "cpu" or self.on_processors():
            return
        with_gpu = [node for node in nodes if node.gpu]
        if with_gpu:
            shares = [node.gpu / max(1, node.cpu // self.need.cpu) for node in with_gpu]
            self.need = self.need._replace(gpu=min(1.0, int(min(shares) * 1e4) / 1e4))

    def inputs(self) -> str:
        return digest_of(self.spec.input, self.spec.folder)

    def settings(self) -> Mapping[str, Any]:
        tune = self.spec.tune
        pinned = {"batch": tune.batch, "workers": tune.workers, "threads": tune.threads}
        runtime = None if tune.runtime == "auto" else tune.runtime
        return {f"tune.{name}": value for name, value in {**pinned, "runtime": runtime}.items()}

    @property
    def library(self) -> str | None:
        """What runs the model as it was given; None for a class, which sees to that by itself."""
        return {"onnx": "onnxruntime", "torchscript": "torch"}.get(self.spec.model.kind)

    def on_processors(self) -> bool:
        """Whether that is known to compute on processors only, whatever there is beside them."""
        library = self.library
        return (
            library is not None and self.knows_packages and is_installed(library) and not knows_cuda(library)
        )

    def local_paths(self) -> Mapping[str, str]:
        """Input and output; and a model outside of the folder, which does not travel with it."""
        spec = self.spec
        asked = {"input": spec.input.target, "output": spec.output.path}
        found = {key: os.path.join(spec.folder, path) for key, path in asked.items() if not is_url(path)}
        model = spec.model.onnx or spec.model.torchscript
        if model is not None and os.path.relpath(os.path.join(spec.folder, model), spec.folder).startswith(
            ".."
        ):
            found[f"model.{spec.model.kind}"] = os.path.join(spec.folder, model)
        return found

    # A session.

    def begin(self, run: str, home: str, *, resumed: bool) -> None:
        spec, self._run, self._resumed = self.spec, run, resumed
        self.turns()[0].storage.ensure_claims_hold()
        if resumed:
            where = address(home, spec.output.path)
            outputs.ensure_ours(spec.output, spec.folder, run, home=where, limit=self.limit)
        else:
            outputs.claim(
                spec.output,
                spec.folder,
                run,
                address(home, spec.output.path),
                is_alive=lambda other, where: is_alive(
                    other, where, home, outputs.turns(spec.output, spec.folder, other)
                ),
                limit=self.limit,
            )
        self._has_output = True
        arguments = {
            "text": spec.source,
            "label": f"{spec.name}.yaml",
            "sets": list(spec.sets),
            "data": spec.folder,
            "run": run,
            "gpu": self.need.gpu > 0,
        }
        self.factory = self.factory._replace(arguments=arguments)

    def turns(self) -> Sequence[Turns]:
        return [outputs.turns(self.spec.output, self.spec.folder, self._run)]

    def made_of(self) -> str | None:
        return made_of(self.spec)

    def began_with(self, made_of: str | None) -> None:
        if made_of is not None and made_of != self.made_of():
            self._notes.append(ANOTHER_MODEL)

    def source(self, past: Past, nodes: Callable[[], Sequence[Node]]) -> tuple[InferSource, Guide]:
        listing = self.list_inputs(past)
        tuning = Tuning(
            self.spec.tune,
            self.runtimes(),
            self.need,
            past.learned,
            self.missing(),
            past.turn.number,
            nodes=nodes,
            left=lambda: inputs_left(listing),
        )
        self._session = InferRun(self.spec, self._run, past, listing, tuning, resumed=self._resumed)
        return self._session.source, tuning

    def runtimes(self) -> tuple[str, ...]:
        """What may run the model: what the file names, or all that is installed; workers that lack one say so."""
        if self.spec.tune.runtime != "auto":
            return (self.spec.tune.runtime,)
        ways = self._models()
        return ways.runtimes() if self.knows_packages else ways.suitable()

    def missing(self) -> tuple[str, ...]:
        """What else might be tried, with what to install for it."""
        asked = self.knows_packages and self.spec.tune.runtime == "auto"
        return self._models().missing() if asked else ()

    def _models(self) -> Models:
        return models(self.spec.model, self.spec.folder, "", gpu=self.need.gpu > 0)

    def list_inputs(self, past: Past) -> Listing:
        return listing(
            self.spec.input,
            self.spec.folder,
            known=(item.params[LIST] for item in past.items()),
            ordered=self.spec.output.preserve_order,
            limit=self.limit,
            now=now,
        )

    def count_inputs(self, patience_s: float) -> tuple[int, bool]:
        """How many inputs there are, and whether these are all. Blocks for so long, and once for a job."""
        if self._counted is not None:
            return self._counted, True
        found, until = self.list_inputs(Past()), now() + patience_s
        try:
            while not found.complete() and now() < until:
                if found.take(MOST_ROWS) is None:  # What nobody takes would keep it from going on.
                    pause(LOOK_S)
            if found.complete():
                self._counted = found.found()
            return found.found(), found.complete()
        finally:
            found.close()

    def has_more(self, past: Past) -> bool:
        found = self.list_inputs(past)
        try:
            while not found.finished():
                if found.take(1) is not None:
                    return True
                pause(LOOK_S)
        except (NotFound, AccessDenied, Unreachable):
            return False  # Whatever was there is gone or out of reach, and was done before.
        finally:
            found.close()
        return False

    def still_wanted(self, item: Item) -> bool:
        return True

    def weight(self) -> Callable[[Item], float] | None:
        return lambda item: float(item.params[COUNT])

    def results(self) -> str:
        path = self.spec.output.path
        return path if is_url(path) else os.path.normpath(os.path.join(self.spec.folder, path))

    def conclude(
        self, items: Iterator[tuple[Item, Mapping[str, Any]]], seconds: float, turn: Turn
    ) -> Conclusion:
        assert self._session is not None
        self._has_output = False
        concluded = self._session.conclude(items, seconds, turn, self._notes)
        self._has_output = True
        return concluded

    def tidy(self, turn: Turn) -> None:
        outputs.tidy(self.spec.output, self.spec.folder, self._run, turn)

    def apart(self, mark: str) -> Sequence[str]:
        own = {**vars(self.spec.output), "path": outputs.beside(self.spec.output.path, mark)}
        given = {key: value for key, value in own.items() if value not in (None, ())}
        return [f"output={json.dumps(given, ensure_ascii=False)}"]

    def discard(self) -> None:
        outputs.discard(self.spec.output, self.spec.folder)

    def close(self, *, replaced: bool = False) -> None:
        if self._session is not None:
            self._session.close()
        if self._has_output and not replaced:
            self._has_output = False
            with suppress(ShoalError):  # Then others have to ask a person whether the run is over.
                turn = 0 if self._session is None else self._session.turn.number
                outputs.let_go(self.spec.output, self.spec.folder, self._run, turn)

    def plan(self, nodes: Sequence[Node], profile: Profile | None, learned: Learned | None = None) -> Plan:
        from shoal.work.infer.time_prediction import plan

        return plan(self, nodes, learned or {})

    def predict(self, node: Node, count: int, learned: Learned) -> Prediction:
        from shoal.work.infer.time_prediction import predict

        return predict(self, node, count, learned)
