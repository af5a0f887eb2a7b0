"""Inference with Daft as its documentation does it: from_glob_path, download, decode, resize, and a class on batches.

python -P bench/by_daft.py PLAN.json, which prints one JSON document.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("DAFT_RUNNER", "native")
os.environ.setdefault("DAFT_PROGRESS_BAR", "0")
os.environ.setdefault("DAFT_ANALYTICS_ENABLED", "0")
os.environ.setdefault("DO_NOT_TRACK", "true")
sys.path.append(str(Path(__file__).parent))  # Last: files here have names of packages.

from rival_model import Plan, count_rows, predictor, preprocess, read_plan, told


def pipeline(plan: Plan) -> Any:
    """Images to rows of path, label and probability."""
    import daft
    from daft import DataType, Series, col
    from daft.functions import decode_image, download, resize

    normalised = preprocess()
    both = DataType.struct({"label": DataType.int64(), "prob": DataType.float32()})

    class Model(predictor()):  # type: ignore[misc]
        @daft.method.batch(return_dtype=both, batch_size=plan.batch)
        def classify(self, images: Series) -> Any:
            import numpy as np
            import pyarrow

            pixels = np.stack(images.to_pylist())
            labels, sure = self.predict(normalised(pixels))
            return pyarrow.StructArray.from_arrays(
                [pyarrow.array(labels), pyarrow.array(sure)], names=["label", "prob"]
            )

    several = plan.workers > 1
    made = daft.cls(Model, use_process=several, max_concurrency=plan.workers if several else None)
    model = made(plan.model, plan.threads, plan.ready)
    files = daft.from_glob_path(f"{plan.files}/*/*.jpg")
    image = resize(decode_image(download(col("path")), mode="RGB"), 224, 224)
    rows = files.select(col("path"), image.alias("image"))
    found = rows.select(col("path"), model.classify(col("image")).alias("found"))
    return found.select(
        col("path"), col("found").get("label").alias("label"), col("found").get("prob").alias("prob")
    )


def main() -> int:
    plan = read_plan(sys.argv[1])
    began = time.time()
    pipeline(plan).write_parquet(plan.output)
    print(told(plan, began, count_rows(plan.output)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
