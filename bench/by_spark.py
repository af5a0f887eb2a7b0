"""Inference with PySpark as its documentation does it: binaryFile, and a pandas_udf that keeps the model.

python -P bench/by_spark.py PLAN.json, which prints one JSON document. The session's start is not counted.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
sys.path.append(str(Path(__file__).parent))  # Last: files here have names of packages.

from rival_model import Plan, count_rows, predictor, preprocess, read_plan, told


def start(plan: Plan) -> Any:
    """A session with as many tasks at a time as there are copies of the model."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master(f"local[{plan.workers}]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.files.openCostInBytes", "16k")  # Else 32 files a task, and a model for each.
        .config("spark.sql.files.minPartitionNum", plan.blocks or plan.workers)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", plan.batch)
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def pipeline(plan: Plan, session: Any) -> Any:
    """Images to rows of path, label and probability."""
    import pandas
    from pyspark.sql.functions import col, pandas_udf

    normalised, made = preprocess(), predictor()
    settings = (plan.model, plan.threads, plan.ready)

    def classify(batches: Iterator[pandas.Series]) -> Iterator[pandas.DataFrame]:
        import io

        import numpy as np
        import pandas
        from PIL import Image

        model = made(*settings)
        for contents in batches:
            pictures = [Image.open(io.BytesIO(data)).convert("RGB").resize((224, 224)) for data in contents]
            labels, sure = model.predict(normalised(np.stack([np.asarray(one) for one in pictures])))
            yield pandas.DataFrame({"label": labels, "prob": sure})

    classify.__annotations__ = {
        "batches": Iterator[pandas.Series],
        "return": Iterator[pandas.DataFrame],
    }  # As types, not as text: pandas_udf reads them.
    udf = pandas_udf(classify, "label long, prob float")
    files = session.read.format("binaryFile").load(f"{plan.files}/*/*.jpg")
    found = files.select(col("path"), udf(col("content")).alias("found"))
    return found.select("path", "found.label", "found.prob")


def main() -> int:
    plan = read_plan(sys.argv[1])
    session = start(plan)
    try:
        began = time.time()
        pipeline(plan, session).write.parquet(plan.output)
        answer = told(plan, began, count_rows(plan.output))
    finally:
        session.stop()
    print(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
