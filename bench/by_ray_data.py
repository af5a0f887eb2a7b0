"""Inference with Ray Data as the group ran it: read_images, a preprocessing task, an actor class with the node's CPUs.

python -P bench/by_ray_data.py PLAN.json, which prints one JSON document. Ray's own start is not counted, nor that of
the actors up to the first model that is ready.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))  # Last: files here have names of packages.

from infer_data import list_pictures
from rival_model import Plan, count_rows, predictor, preprocess, read_plan, told

OBJECT_STORE_BYTES = 2 << 30


def start(plan: Plan, folder: str) -> None:
    """A cluster of its own on this machine.

    It is told of twice the CPUs: an actor that holds all of a node's would leave none to the tasks that read, and
    nothing would ever run. Who runs when is left to the operating system, in favour of Ray.
    """
    import ray

    ray.init(
        address="local",
        num_cpus=2 * plan.cpus,
        object_store_memory=OBJECT_STORE_BYTES,
        include_dashboard=False,
        configure_logging=True,
        logging_level=logging.ERROR,
        log_to_driver=False,
        _temp_dir=folder,
    )
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)


def pipeline(plan: Plan) -> Any:
    """Images to rows of path, label and probability."""
    import ray

    normalised = preprocess()

    def prepared(row: dict[str, Any]) -> dict[str, Any]:
        return {"path": row["path"], "image": normalised(row["image"])}

    class Actor(predictor()):  # type: ignore[misc]
        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            labels, sure = self.predict(batch["image"])
            return {"path": batch["path"], "label": labels, "prob": sure}

    paths = list_pictures(Path(plan.files))
    images = ray.data.read_images(
        paths, mode="RGB", size=(224, 224), include_paths=True, override_num_blocks=plan.blocks
    )
    return images.map(prepared).map_batches(
        Actor,
        batch_size=plan.batch,
        compute=ray.data.ActorPoolStrategy(size=plan.workers),
        num_cpus=plan.threads,
        fn_constructor_args=(plan.model, plan.threads, plan.ready),
    )


def main() -> int:
    import ray

    plan = read_plan(sys.argv[1])
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Else it warns of the future.
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        start(plan, folder)
        try:
            began = time.time()
            pipeline(plan).write_parquet(plan.output)
            answer = told(plan, began, count_rows(plan.output))
        finally:
            ray.shutdown()
    print(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
