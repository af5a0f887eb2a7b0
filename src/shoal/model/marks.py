"""What Shoal writes on the Ray nodes it starts and reads there again: both sides take the words from here."""

from __future__ import annotations

from collections.abc import Mapping

HOST_LABEL = "shoal.host"
"""What a node is called in the cluster file."""
SPEED_LABEL = "shoal.speed"
"""How fast it is, relative to a reference machine."""
ROLE_LABEL = "shoal.role"
DRIVER_ROLE = "driver"
"""The role of a node that is there only so that a driver can join: nothing is ever placed on it."""
NODE_VARIABLE = "SHOAL_NODE"
"""The environment variable, of every process of a node, with the folder that node keeps its things in."""
ANSWER_VARIABLE = "SHOAL_ANSWER"
"""The environment variable, of the driver of a detached run, with the file for its answer to who started it: that the
run has begun, or why it cannot."""
LET_GO_FILE = "let-go.jsonl"
"""In that folder, on a head: which nodes were let go, and why. Written by the keeper of idle nodes."""
HEALTH: Mapping[str, str] = {
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_health_check_initial_delay_ms": "1000",
}
"""For a head: a node whose processes died is noticed within about 3 seconds, one that was cut off within about 9."""
