"""What a bed is made of, as values: its hosts, its scratch folder, what hosts see. Starts and writes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

SSH_PORT = 22
WORK = "/srv/work"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt")
"""Of the machine, what every host sees, read-only."""


class HostPlan(NamedTuple):
    """One host: its name is also its hostname."""

    name: str
    address: str

    @property
    def home(self) -> str:
        """Inside the host. Each has another, so that nobody can take a path of here for a path of there."""
        return f"/home/{self.name}"


class BedPlan(NamedTuple):
    """All that the keeper has to know; crosses to it as JSON."""

    id: str
    scratch: Path
    owner_pid: int
    hosts: tuple[HostPlan, ...]
    visible: tuple[str, ...]
    """Folders of this machine that every host sees under the same path, read-only."""
    path: str
    """The search path for commands, without the host's own `~/bin`, which comes first."""

    def folder(self, host: str) -> Path:
        """What belongs to a host, outside of it."""
        return self.scratch / "hosts" / host

    def environment(self, host: HostPlan) -> dict[str, str]:
        """What a command on the host starts with."""
        return {
            "PATH": f"{host.home}/bin:{self.path}",
            "HOME": host.home,
            "USER": "root",
            "LOGNAME": "root",
            "SHELL": "/bin/sh",
            "LANG": "C.UTF-8",
        }

    def to_json(self) -> dict[str, Any]:
        return {**self._asdict(), "scratch": str(self.scratch)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> BedPlan:
        return cls(
            id=value["id"],
            scratch=Path(value["scratch"]),
            owner_pid=value["owner_pid"],
            hosts=tuple(HostPlan(*each) for each in value["hosts"]),
            visible=tuple(value["visible"]),
            path=value["path"],
        )
