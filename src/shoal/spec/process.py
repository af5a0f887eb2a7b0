"""What a file about many records may ask for: archives or tables, a filter, a job, where the result goes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from shoal.errors import nearest
from shoal.spec.nodes import Node, Problems
from shoal.spec.readers import SHARE, SIZE, Choice, Flag, MapOf, OneOf, Plain, Several, Text, Whole
from shoal.spec.sections import INVALID, Found, Reader, Record, Section, join, key, section
from shoal.spec.shared_sections import FUNCTION
from shoal.spec.workload import Limits, Workload

FORMATS = ("warc", "wet", "wat", "text", "jsonl", "csv", "parquet")
INDEX = "index"
JOBS = ("words", "tags", "servers", "addresses", "links", "types", "text")
SPLIT_BYTES = 32 << 20
AUTO, SPARK = "auto", "spark"
THIS_MACHINE = "local[*]"
"""The master of a Spark session that has no executors but threads of its own."""
_LOCAL = re.compile(r"local(?:\[(\*|[1-9]\d*)(?:,\s*\d+)?\])?")
_PATHS = Several(Text("a path, a pattern or a URL"), "a path, a pattern or a URL, or a list of them")


def _files(what: str) -> Any:
    return key(_PATHS, what, default=())


@section
class RecordInput(Section):
    """The records. Exactly one of the formats is set."""

    warc: tuple[str, ...] = _files("Web archives: a path, a pattern, s3://, hdfs:// or https://.")
    wet: tuple[str, ...] = _files("Archives of extracted text.")
    wat: tuple[str, ...] = _files("Archives of metadata.")
    text: tuple[str, ...] = _files("Text files: a line is a record.")
    jsonl: tuple[str, ...] = _files("Files with a JSON object on each line: a line is a record.")
    csv: tuple[str, ...] = _files("CSV files with a header: a row is a record.")
    parquet: tuple[str, ...] = _files("Parquet files: a row is a record.")
    index: tuple[str, ...] = _files(
        "Indexes of records in WARC files: CDX, or a table with filename, offset and length."
    )
    base: str | None = key(
        Text("a folder or a URL"),
        "What names in an index, or in a list such as warc.paths.gz, are relative to.",
        default=None,
    )
    split: int = key(
        SIZE, "Larger files are cut into ranges of about this size, such as 32MiB.", default=SPLIT_BYTES
    )
    endpoint: str | None = key(Text("an address"), "The address of the S3 server.", default=None)

    exactly_one: ClassVar = (*FORMATS, INDEX)

    @property
    def key(self) -> str:
        """The one that is set."""
        return next(name for name in self.exactly_one if getattr(self, name))

    @property
    def format(self) -> str:
        """What the records are read as."""
        return "warc" if self.key == INDEX else self.key

    @property
    def targets(self) -> tuple[str, ...]:
        """The paths, patterns and URLs."""
        found: tuple[str, ...] = getattr(self, self.key)
        return found


@section
class RecordFilter(Section):
    """Which records the job gets: those that are all of this."""

    host: tuple[str, ...] = key(
        Several(Text("the name of a host"), "a host such as *.gr, or a list of them"),
        "Hosts of the pages; * stands for anything.",
        default=(),
    )
    type: tuple[str, ...] = key(
        Several(Text("a media type"), "a media type such as text/html, or a list of them"),
        "Media types of the pages.",
        default=(),
    )
    status: tuple[int, ...] = key(
        Several(Whole(100, 999), "a status such as 200, or a list of them"),
        "Statuses that the servers answered with.",
        default=(),
    )
    language: tuple[str, ...] = key(
        Several(Text("a language"), "a language such as eng, or a list of them"),
        "Languages, where the archive has them.",
        default=(),
    )


@section
class JobChoice(Section):
    """What is made of the records: a job of Shoal's by its name, or a class of one's own."""

    name: str | None = None
    function: str | None = key(FUNCTION, "A class as module:name, with map and combine.", default=None)
    options: Mapping[str, Any] = {}
    """What the job is made with."""


class JobReader(Reader):
    """A name, a name with options (`{addresses: {hosts: true}}`), or a class of one's own (`{function: ...}`)."""

    expected = f"one of {', '.join(JOBS)}, or {{function: mine:Job}}"
    _names = Choice(*JOBS)
    _options = MapOf(OneOf("a value", Flag(), Plain()), "a mapping of options such as {hosts: true}")

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        if node.is_scalar:
            name = self._names.read(node, path, problems)
            return INVALID if name is INVALID else JobChoice(name=name)
        if not isinstance(node.value, dict) or len(node.value) != 1:
            return self.wrong(node, path, problems)
        [(name, inner)] = node.value.items()
        if name == "function":
            function = FUNCTION.read(inner, join(path, name), problems)
            return INVALID if function is INVALID else JobChoice(function=function)
        if name not in JOBS:
            problems.add("unknown job", node=inner, path=join(path, name), hint=nearest(name, JOBS))
            return INVALID
        options = {} if inner.value is None else self._options.read(inner, join(path, name), problems)
        return INVALID if options is INVALID else JobChoice(name=name, options=options)

    def schema(self) -> dict[str, Any]:
        options = {
            name: self._options.schema() | {"description": f"Options of the job {name}."} for name in JOBS
        }
        own = FUNCTION.schema() | {"description": "A class as module:name, with map and combine."}
        given = {"function": own, **options}
        one = {"type": "object", "properties": given, "additionalProperties": False}
        return {"anyOf": [self._names.schema(), one | {"minProperties": 1, "maxProperties": 1}]}


@section
class ResultFile(Section):
    """Where the result goes: one file; of gigabytes, a folder of that name with parts."""

    path: str = key(Text("a file or a URL"), "A .parquet or .csv file, also on s3:// or hdfs://.")
    endpoint: str | None = key(Text("an address"), "The address of the S3 server.", default=None)


class ResultReader(OneOf):
    """A path alone, or the section."""

    def __init__(self) -> None:
        super().__init__("a file or a URL, or {path: ..., endpoint: ...}", Text(), Record(ResultFile))

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        value = super().read(node, path, problems)
        return ResultFile(path=value) if isinstance(value, str) else value


@section
class SparkSession(Section):
    """The session that `backend: spark` opens, and what its executors have."""

    master: str = key(
        Text("a master such as local[*], spark://host:7077 or yarn", r"\S+"),
        "Where Spark runs: local[*] is this machine.",
        default=THIS_MACHINE,
    )
    executors: int | None = key(Whole(1), "How many executors.", default=None)
    cores: int | None = key(Whole(1), "The cores of each executor.", default=None)
    memory_bytes: int | None = key(
        SIZE, "The memory of each executor, such as 2GiB.", name="memory", default=None
    )
    conf: Mapping[str, str] = key(
        MapOf(Plain(), "a mapping of Spark's settings", names=r"spark\.\S+"),
        "Settings of Spark's own; these decide.",
        factory=dict,
    )

    @property
    def is_local(self) -> bool:
        """Whether the session is one process of this machine, which is all that there is of Spark."""
        return _LOCAL.fullmatch(self.master) is not None

    @property
    def tasks(self) -> int | None:
        """How many tasks run at the same time; None where the file does not say."""
        local = _LOCAL.fullmatch(self.master)
        if local is not None and local[1] != "*":
            return int(local[1] or 1)
        is_said = self.executors or (self.cores and local)
        return (self.executors or 1) * (self.cores or 1) if is_said else None


@section
class ProcessLimits(Limits):
    """When to stop trying."""

    errors: float = key(
        SHARE, "The share of records that may be unreadable before the run counts as failed.", default=0.0
    )
    retries: int = key(Whole(0), "How often an item that failed is tried again.", default=2)


@section
class Process(Workload):
    """One job over many records: counts by key, or rows made of them."""

    kind: str = key(Choice("process"), "What this file describes.", default="process")
    input: RecordInput = key(Record(RecordInput), "The records.")
    filter: RecordFilter = key(Record(RecordFilter), "Which records the job gets.", factory=RecordFilter)
    job: JobChoice = key(JobReader(), "What is made of the records.")
    backend: str = key(
        Choice(AUTO, SPARK), "What executes the job: auto is the engine of the run.", default=AUTO
    )
    spark: SparkSession = key(Record(SparkSession), "The session of backend: spark.", factory=SparkSession)
    output: ResultFile = key(ResultReader(), "Where the result goes.")
    top: int = key(Whole(0), "How many rows of the result are printed.", default=20)
    limits: ProcessLimits = key(Record(ProcessLimits), "When to stop trying.", factory=ProcessLimits)

    @classmethod
    def check(cls, found: Found) -> None:
        output: ResultFile | None = found.values.get("output")
        if output is not None and not output.path.endswith((".parquet", ".csv")):
            hint = "Give a file such as result.parquet or result.csv."
            found.problem(f"expected a .parquet or .csv file, found {output.path}", "output", hint=hint)
        if found.has("spark") and found.values.get("backend", AUTO) == AUTO:
            found.problem("only goes with backend: spark", "spark", hint="Write backend: spark beside it.")
