"""The provider `ssh`: plain hosts with Python and Shoal on them. Nodes are started, joined and ended over SSH."""

from __future__ import annotations

from shoal.cluster.hosted import HostedProvider
from shoal.cluster.ssh_connection import SshDoor, SshHosts
from shoal.spec import Cluster


class SshProvider(HostedProvider):
    """Keeps `Provider`."""

    def __init__(self, cluster: Cluster, file: str) -> None:
        self._ssh = SshHosts(cluster.python)
        super().__init__(cluster, file, self._ssh)

    def door(self) -> SshDoor:
        return SshDoor(self._ssh, self._head().host)
