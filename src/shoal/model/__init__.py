"""The values that the layers above share. No behaviour beyond reading them, no I/O, no clock."""

from __future__ import annotations

from shoal.model.distance import Distance, RoundTrip
from shoal.model.event import (
    Event,
    FactsChanged,
    Granted,
    ItemEnded,
    ItemProgressed,
    ItemsReturned,
    ItemStarted,
    LeaseRecalled,
    NodeJoined,
    NodeLost,
    Refused,
    WorkerLost,
    WorkerReady,
)
from shoal.model.item import DEPTH, Item, LogSlice, Outcome
from shoal.model.node import Asks, Factory, Need, Node, Place
from shoal.model.plan import Decision, ItemPlacement, MadeFor, Plan, Prediction
from shoal.model.states import ItemState, LostCause, RunState

__all__ = [
    "DEPTH",
    "Asks",
    "Decision",
    "Distance",
    "Event",
    "Factory",
    "FactsChanged",
    "Granted",
    "Item",
    "ItemEnded",
    "ItemPlacement",
    "ItemProgressed",
    "ItemStarted",
    "ItemState",
    "ItemsReturned",
    "LeaseRecalled",
    "LogSlice",
    "LostCause",
    "MadeFor",
    "Need",
    "Node",
    "NodeJoined",
    "NodeLost",
    "Outcome",
    "Place",
    "Plan",
    "Prediction",
    "Refused",
    "RoundTrip",
    "RunState",
    "WorkerLost",
    "WorkerReady",
]
