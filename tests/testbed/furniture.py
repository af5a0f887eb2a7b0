"""The files of a bed before any host is up: keys, known hosts, configuration of `sshd`, homes. Starts no host."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from testbed.blueprint import SSH_PORT, WORK, BedPlan, HostPlan

KEPT = ("home", "work", "var-tmp")
"""Folders of a host that outlive a power cut. `tmp` does not."""
STRANGER = "stranger_ed25519"
"""A key pair in every `~/.ssh` that no host lets in."""


def furnish(plan: BedPlan) -> None:
    """Write everything under the scratch folder."""
    keys = plan.scratch / "keys"
    keys.mkdir()
    make_key(keys / "id_ed25519", "bed")
    make_key(keys / STRANGER, "stranger")
    for host in plan.hosts:
        make_key(keys / f"host-{host.name}", host.name)
    for host in plan.hosts:
        folder = plan.folder(host.name)
        for name in (*KEPT, "root", "etc/ssh"):
            (folder / name).mkdir(parents=True)
        (folder / "var-tmp").chmod(0o1777)
        write_etc(plan, host, folder / "etc")
        write_home(plan, host, folder / "home")


def make_key(path: Path, comment: str) -> None:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def write_etc(plan: BedPlan, host: HostPlan, etc: Path) -> None:
    """What differs from this machine's `/etc`. Names that are not in `hosts` are unknown at once, without a server."""
    lines = ["127.0.0.1 localhost", *(f"{each.address} {each.name}" for each in plan.hosts)]
    (etc / "hosts").write_text("\n".join(lines) + "\n")
    (etc / "hostname").write_text(f"{host.name}\n")
    (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nshadow: files\nhosts: files\n")
    (etc / "passwd").write_text(
        f"root:x:0:0:root:{host.home}:/bin/sh\n"
        "sshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    )
    (etc / "shadow").write_text("root:*:19000:0:99999:7:::\n")
    (etc / "shadow").chmod(0o600)
    key = etc / "ssh" / "ssh_host_ed25519_key"
    copy_private(plan.scratch / "keys" / f"host-{host.name}", key)
    (etc / "ssh" / "ssh_config").write_text("")
    (etc / "ssh" / "sshd_config").write_text(sshd_config(plan, host))


def sshd_config(plan: BedPlan, host: HostPlan) -> str:
    variables = " ".join(f'"{name}={plan.environment(host)[name]}"' for name in ("PATH", "LANG"))
    return f"""ListenAddress {host.address}:{SSH_PORT}
HostKey /etc/ssh/ssh_host_ed25519_key
PidFile none
UsePAM no
UseDNS no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AuthorizedKeysFile .ssh/authorized_keys
MaxStartups 100
MaxSessions 100
PrintMotd no
PrintLastLog no
SetEnv {variables}
Subsystem sftp internal-sftp
"""


def write_home(plan: BedPlan, host: HostPlan, home: Path) -> None:
    """A login shell resets the search path; `.profile` sets it again."""
    keys = plan.scratch / "keys"
    ssh = home / ".ssh"
    ssh.mkdir(mode=0o700)
    (home / "bin").mkdir()
    (home / ".profile").write_text(f"export PATH='{plan.environment(host)['PATH']}'\n")
    for name in ("id_ed25519", STRANGER):
        copy_private(keys / name, ssh / name)
        (ssh / f"{name}.pub").write_bytes((keys / f"{name}.pub").read_bytes())
    copy_private(keys / "id_ed25519.pub", ssh / "authorized_keys")
    known = (
        f"{each.name},{each.address} {(keys / f'host-{each.name}.pub').read_text()}" for each in plan.hosts
    )
    (ssh / "known_hosts").write_text("".join(known))


def copy_private(source: Path, target: Path) -> None:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(source.read_bytes())


def private_folders(host: HostPlan) -> dict[str, str]:
    """Where the folders of a host are inside it, by their name in the scratch folder."""
    return {"home": host.home, "work": WORK, "var-tmp": "/var/tmp", "tmp": "/tmp"}
