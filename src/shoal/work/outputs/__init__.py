"""The output of inference: exactly one row for each good input, through any crash. For workers and for the driver.

Knows nothing of models and inputs. Imports pyarrow where it is first needed.
"""

from __future__ import annotations

from shoal.work.outputs.layout import beside, discard
from shoal.work.outputs.ownership import (
    check_output,
    claim,
    ensure_ours,
    let_go,
    next_number,
    owner,
    replace,
    turns,
)
from shoal.work.outputs.part_tables import parts_there, rows, rows_of_part, table
from shoal.work.outputs.parts import NOWHERE, Crumbs, Ends, PartWriter, document_of, facts_of
from shoal.work.outputs.publication import Totals, finish, tidy, total

__all__ = [
    "NOWHERE",
    "Crumbs",
    "Ends",
    "PartWriter",
    "Totals",
    "beside",
    "check_output",
    "claim",
    "discard",
    "document_of",
    "ensure_ours",
    "facts_of",
    "finish",
    "let_go",
    "next_number",
    "owner",
    "parts_there",
    "replace",
    "rows",
    "rows_of_part",
    "table",
    "tidy",
    "total",
    "turns",
]
