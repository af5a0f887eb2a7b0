"""The example of a process workload that `shoal init` writes: small, complete, and run by the tests."""

from __future__ import annotations

_PROCESS = """\
# Every line is a record, and the job counts what it finds in all of them. Try it: shoal run process.yaml
# Web archives, built-in jobs (words, tags, servers, links, ...), and all keys: shoal schema process
kind: process
name: first-process
input: {text: visits.txt}           # warc, wet, wat, text, jsonl, csv, parquet; a path, a pattern, s3://, hdfs://
job: {function: "visits:Pages"}     # or words, tags, servers, addresses, links, types, text
output: pages.csv                   # or .parquet, also on s3:// or hdfs://
top: 5
limits: {errors: 20%}               # lines that the job cannot use are counted, and kept aside with the reason
"""

_VISITS = """\
2024-05-01 /index.html 200
2024-05-01 /about.html 200
2024-05-01 /index.html 304
2024-05-02 /missing.html 404
2024-05-02 /index.html 200
2024-05-02 /about.html 200
a line that is no visit
2024-05-03 /index.html 200
"""

_JOB = '''\
"""Counts how often each page was visited: the job of process.yaml."""


class Pages:
    key = ("page",)

    def map(self, record):
        """Pairs of a key and a number; numbers of equal keys are summed. What fails costs this record alone."""
        day, page, status = record.row["text"].split()
        if int(status) < 400:
            yield page, 1
'''

SAMPLES = {"process.yaml": _PROCESS, "visits.txt": _VISITS, "visits.py": _JOB}
