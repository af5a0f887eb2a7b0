"""Whether a bed can be had on this machine, and if not, why. Starts nothing that stays."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TOOLS = {
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "tar": "tar",
}
"""Commands, and the Debian packages that have them."""


@functools.cache
def why_not_here() -> str | None:
    """The reason, as a sentence for the one who reads the list of skipped tests; `None`: it can be had."""
    if not sys.platform.startswith("linux"):
        return f"needs Linux, and this is {sys.platform}"
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    if not os.path.exists("/dev/net/tun"):
        return "needs /dev/net/tun, and there is none here"
    for tool, package in TOOLS.items():
        if shutil.which(tool, path=SYSTEM_PATH) is None:
            return f"needs the command {tool}: apt-get install {package}"
    return why_no_namespaces()


def why_no_namespaces() -> str | None:
    """Root in a container may be refused them: try."""
    command = ["unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--fork", "true"]
    tried = subprocess.run(command, capture_output=True, text=True)
    return f"needs namespaces: {tried.stderr.strip()}" if tried.returncode else None
