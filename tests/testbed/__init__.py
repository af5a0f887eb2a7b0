"""A test bed with real hosts: several machines on one, for tests marked `hosts`. Needs root, and Linux.

    from testbed import Testbed

    with Testbed(["desk", "node0", "node1"], delay_ms={("desk", "node0"): 3}) as bed:
        node = bed["node0"]
        node.run(["hostname"]).stdout                        # in its home; a failure is CommandFailed
        bed["desk"].run(["ssh", "node0", "python -m shoal --version"])

Each host has its own network (an address on `eth0`), processes, hostname and files, and an `sshd` on port 22. It sees
its own home, `/srv/work`, `/tmp`, `/var/tmp`, `/run` and `/dev/shm`, and read-only the system folders, the Python that
runs the tests, and the repository; nothing else of this machine. Every host lets in `~/.ssh/id_ed25519` of every other,
and none `~/.ssh/stranger_ed25519`. `~/bin` is first in the search path, to put another `python` there. No host reaches
anything but the hosts of its bed; names other than theirs are unknown at once, and other addresses do not answer.

    node.run(command, timeout_s=, input=, env=, cwd=, check=)       node.start(command)     a subprocess.Popen
    node.write(path, text, mode=)   node.read(path)   node.exists(path)   node.put(local, path)   node.get(path, local)
    node.processes()                                                pids and command lines
    node.address   node.home   node.work   node.is_up

What can happen to hosts, while they run:

    bed.delay("desk", "node0", 20)          packets from desk to node0 take 20 ms; both=True: and back
    bed.cut("desk", "node0")                and do not arrive at all; bed.mend(...) undoes it
    node.cut(), node.mend()                 off the network, and on again
    node.kill(), node.boot()                a power cut: no goodbye on the network; the home and the address stay
    node.limit_cpu(0.5)                     half a CPU for the whole host; None lifts it
    bed.reset()                             as at first, for the next test that shares the bed

A process of its own, the keeper, holds everything, and takes it away when the tester ends, also by SIGKILL: hosts,
switch, namespaces, cgroups and the one scratch folder. Starting a host takes some 50 ms.
"""

from __future__ import annotations

from testbed.bed import CannotStart, Testbed
from testbed.host import Host
from testbed.process import CommandFailed, HostProcess
from testbed.requirements import why_not_here

__all__ = ["CannotStart", "CommandFailed", "Host", "HostProcess", "Testbed", "why_not_here"]
