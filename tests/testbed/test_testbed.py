"""The test bed keeps its word: real hosts, a real network, faults as announced, and nothing left of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed import CannotStart, CommandFailed, Host, HostProcess, Testbed

pytestmark = pytest.mark.hosts

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 20.0
SSH = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"]
CONNECT = """
import socket, sys, time
best_ms = float("inf")
for _ in range(int(sys.argv[2])):
    began = time.perf_counter()
    socket.create_connection((sys.argv[1], 22), 2.0).close()
    best_ms = min(best_ms, (time.perf_counter() - began) * 1000)
print(best_ms)
"""
TALK = """
import socket, sys
listener = socket.create_server((sys.argv[1], 7000))
print("listening", flush=True)
connection, _ = listener.accept()
connection.sendall(b"hello")
print(connection.recv(1), flush=True)
"""
HEAR = """
import socket, sys
connection = socket.create_connection((sys.argv[1], 7000))
print(connection.recv(5), flush=True)
connection.settimeout(float(sys.argv[2]))
try:
    print(connection.recv(1))
except TimeoutError:
    print("silence")
"""
ASK_UDP = """
import socket, sys
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asking.sendto(b"x", (sys.argv[1], 7001))
"""
HEAR_UDP = """
import socket, sys
hearing = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
hearing.bind((sys.argv[1], 7001))
hearing.settimeout(float(sys.argv[2]))
print("listening", flush=True)
try:
    print(hearing.recv(1).decode())
except TimeoutError:
    print("silence")
"""
BURN = """
import time
began, cpu = time.monotonic(), time.process_time()
while time.monotonic() < began + 1:
    pass
print((time.process_time() - cpu) / (time.monotonic() - began))
"""


@pytest.fixture(scope="module")
def shared_bed() -> Iterator[Testbed]:
    with Testbed(["desk", "node0", "node1"]) as bed:
        yield bed


@pytest.fixture
def bed(shared_bed: Testbed) -> Iterator[Testbed]:
    yield shared_bed
    shared_bed.reset()


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.02)


def round_trip_ms(source: Host, target: Host, count: int = 5) -> float:
    """The best of some TCP connects: one round trip each."""
    return float(source.run(["python", "-c", CONNECT, target.address, str(count)]).stdout)


def reaches(source: Host, target: Host) -> bool:
    return source.run(["python", "-c", CONNECT, target.address, "1"], check=False).returncode == 0


def first_line(process: HostProcess) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def namespaces(pid: int) -> set[str]:
    return {os.readlink(path) for path in Path(f"/proc/{pid}/ns").iterdir()}


def everybody_in(spaces: set[str]) -> list[int]:
    """All processes of this machine that are in one of the namespaces, or keep one open."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            links = {os.readlink(path) for path in folder.glob("ns/*")}
            links |= {os.readlink(path) for path in folder.glob("fd/*")}
        except OSError:
            continue
        if links & spaces:
            found.append(int(folder.name))
    return found


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def traces(bed_id: str) -> list[Path]:
    """Files, cgroups and processes that carry the name of a bed."""
    scratch = Path(tempfile.gettempdir()).glob(f"shoal-bed-{bed_id}*")
    groups = Path("/sys/fs/cgroup").glob(f"**/shoal-bed-{bed_id}")
    return [*scratch, *groups, *(folder for folder in Path("/proc").glob("[0-9]*") if runs(folder, bed_id))]


def runs(folder: Path, bed_id: str) -> bool:
    try:
        return bed_id.encode() in (folder / "cmdline").read_bytes()
    except OSError:
        return False


def test_a_host_has_its_name_its_address_and_its_home(bed: Testbed) -> None:
    node = bed["node0"]
    assert node.run(["hostname"]).stdout == "node0\n"
    assert node.run(["pwd"]).stdout.strip() == node.home == "/home/node0"
    assert node.address in node.run(["ip", "-brief", "addr"]).stdout
    assert node.run(["cat", "/etc/hosts"]).stdout.count("10.88.") == 3
    assert len({host.address for host in bed}) == 3
    assert node.run(["python", "-m", "shoal", "--version"]).stdout.startswith("shoal ")


def test_a_host_is_alone_in_its_namespaces(bed: Testbed) -> None:
    spaces = [set(host.run(["sh", "-c", "readlink /proc/self/ns/*"]).stdout.split()) for host in bed]
    kinds = ("net:", "mnt:", "pid:", "uts:", "ipc:")
    for kind in kinds:
        seen = {each for of_host in spaces for each in of_host if each.startswith(kind)}
        assert len(seen) == 3
        assert not seen & namespaces(os.getpid())
    sleeper = bed["node0"].start(["sleep", "1234"])
    until(lambda: any("sleep 1234" in line for _, line in bed["node0"].processes()), "seen on its host")
    assert not any("sleep 1234" in line for _, line in bed["node1"].processes())
    pid = next(pid for pid, line in bed["node0"].processes() if line == "sleep 1234")
    assert bed["node0"].run(["cat", f"/proc/{pid}/comm"]).stdout == "sleep\n"
    sleeper.kill()
    assert sleeper.wait(PATIENCE_S) == -signal.SIGKILL


def test_commands_get_input_and_variables_and_their_failures_are_told(bed: Testbed) -> None:
    node = bed["node0"]
    assert node.run(["cat"], input="hello").stdout == "hello"
    assert node.run(["sh", "-c", "echo $COLOUR"], env={"COLOUR": "red"}).stdout == "red\n"
    with pytest.raises(CommandFailed, match=r"(?s)node0.*ended with 3.*it is broken"):
        node.run(["sh", "-c", "echo it is broken >&2; exit 3"])
    assert node.run(["sh", "-c", "exit 3"], check=False).returncode == 3
    with pytest.raises(subprocess.TimeoutExpired):
        node.run(["sleep", "4321"], timeout_s=0.3)
    assert not any("sleep 4321" in line for _, line in node.processes())


def test_a_signal_reaches_the_command_itself(bed: Testbed) -> None:
    script = "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done"
    process = bed["node0"].start(["sh", "-c", script], stdout=subprocess.PIPE)
    assert first_line(process) == "ready"
    process.terminate()
    assert process.communicate(timeout=PATIENCE_S)[0] == "bye\n"
    assert process.returncode == 7


def test_nothing_of_the_tester_leaks_into_a_host(
    bed: Testbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_TESTER", "1")
    (tmp_path / "secret").write_text("mine")
    node = bed["node0"]
    assert not node.exists(str(tmp_path))
    assert not node.exists(str(bed.plan.scratch))
    assert "SECRET_OF_THE_TESTER" not in node.run(["env"]).stdout
    assert node.exists(str(ROOT / "pyproject.toml"))


@pytest.mark.parametrize("where", ["/usr", "/etc", "/", str(ROOT), sys.prefix])
def test_what_hosts_share_is_read_only(bed: Testbed, where: str) -> None:
    path = Path(where, "written-by-a-host")
    try:
        tried = bed["node0"].run(["touch", str(path)], check=False)
    finally:
        path.unlink(missing_ok=True)  # were it not so, this would be a file of the real machine
    assert "Read-only file system" in tried.stderr


def test_a_host_cannot_change_the_kernel_it_shares(bed: Testbed) -> None:
    same_again = "value=$(cat /proc/sys/vm/swappiness); echo $value > /proc/sys/vm/swappiness"
    assert "Read-only file system" in bed["node0"].run(["sh", "-c", same_again], check=False).stderr


@pytest.mark.parametrize("folder", ["~", "/srv/work", "/tmp", "/var/tmp", "/run", "/dev/shm"])
def test_private_folders_are_writable_and_not_shared(bed: Testbed, folder: str) -> None:
    path = bed["node0"].home + "/mine" if folder == "~" else f"{folder}/mine"
    bed["node0"].write(path, "of node0")
    assert bed["node0"].read(path) == "of node0"
    assert not bed["node1"].exists(path)
    assert not os.path.exists(path)


def test_further_folders_can_be_shown_also_through_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "links" / "link"
    for folder in (real, link.parent):
        folder.mkdir()
    (real / "data").write_text("seen")
    (tmp_path / "hidden").write_text("not seen")
    link.symlink_to(real)
    with Testbed(["a"], visible=[link]) as bed:
        assert bed["a"].read(str(link / "data")) == bed["a"].read(str(real / "data")) == "seen"
        assert not bed["a"].exists(str(tmp_path / "hidden"))


def test_files_and_trees_are_copied_in_and_out(bed: Testbed, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "below").mkdir(parents=True)
    (tree / "below" / "data").write_bytes(bytes(range(256)))
    (tree / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (tree / "run.sh").chmod(0o755)
    node = bed["node0"]
    node.put(tree, "a/project")
    assert node.run(["a/project/run.sh"]).stdout == "ran\n"
    node.get("a/project", tmp_path / "back")
    assert (tmp_path / "back" / "below" / "data").read_bytes() == bytes(range(256))
    node.put(tree / "run.sh", "b/other.sh")
    assert node.run(["b/other.sh"]).stdout == "ran\n"
    node.get("b/other.sh", tmp_path / "c" / "again.sh")
    assert (tmp_path / "c" / "again.sh").read_text() == (tree / "run.sh").read_text()
    node.write("token", "hex", mode=0o600)
    assert node.run(["stat", "-c", "%a", "token"]).stdout == "600\n"
    with pytest.raises(CommandFailed, match="No such file"):
        node.read("nothing")


def test_packets_take_as_long_as_was_asked(bed: Testbed) -> None:
    desk, node = bed["desk"], bed["node0"]
    assert round_trip_ms(desk, node) < 20
    bed.delay("desk", "node0", 20, both=True)
    assert 40 <= round_trip_ms(desk, node) < 60
    assert round_trip_ms(desk, bed["node1"]) < 20
    bed.delay("node0", "desk", 60)
    assert 80 <= round_trip_ms(desk, node) < 100
    bed.delay("desk", "node0", 0, both=True)
    assert round_trip_ms(desk, node) < 20


def test_delays_are_there_from_the_start_and_both_ways_unless_said_otherwise() -> None:
    delays = {("a", "b"): 15.0, ("b", "c"): 30.0, ("c", "b"): 0.0}
    with Testbed(["a", "b", "c"], delay_ms=delays) as bed:
        assert 30 <= round_trip_ms(bed["a"], bed["b"]) < 50
        assert 30 <= round_trip_ms(bed["b"], bed["c"]) < 50
        assert round_trip_ms(bed["a"], bed["c"]) < 20


def test_data_crosses_the_network_whole_and_in_order(bed: Testbed) -> None:
    bed.delay("desk", "node0", 5, both=True)
    script = f"head -c 20000000 /dev/urandom > big; md5sum < big; {' '.join(SSH)} node0 md5sum < big"
    sums = bed["desk"].run(["sh", "-c", script]).stdout.splitlines()
    assert len(sums) == 2
    assert sums[0] == sums[1]


def test_a_host_that_is_cut_off_is_silent_until_it_is_mended(bed: Testbed) -> None:
    desk, node = bed["desk"], bed["node0"]
    assert reaches(desk, node)
    node.cut()
    assert not reaches(desk, node)
    assert not reaches(node, desk)
    assert reaches(desk, bed["node1"])
    assert node.run(["hostname"]).stdout == "node0\n"  # it runs on, alone
    node.mend()
    assert reaches(desk, node)
    assert reaches(node, desk)


def test_a_connection_outlives_a_short_cut(bed: Testbed) -> None:
    node = bed["node0"]
    talking = bed["desk"].start([*SSH, "node0", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert talking.stdin is not None
    talking.stdin.write("before\n")
    talking.stdin.flush()
    assert first_line(talking) == "before"
    node.cut()
    talking.stdin.write("after\n")
    talking.stdin.flush()
    node.mend()
    assert first_line(talking) == "after"
    talking.communicate(timeout=PATIENCE_S)
    assert talking.returncode == 0


def test_one_direction_alone_can_be_cut(bed: Testbed) -> None:
    desk, node = bed["desk"], bed["node0"]
    bed.cut("desk", "node0")
    for source, target, heard in [(desk, node, "silence"), (node, desk, "x")]:
        hearing = target.start(
            ["python", "-c", HEAR_UDP, target.address, "1" if heard == "silence" else "10"],
            stdout=subprocess.PIPE,
        )
        assert first_line(hearing) == "listening"
        source.run(["python", "-c", ASK_UDP, target.address])
        assert hearing.communicate(timeout=PATIENCE_S)[0] == f"{heard}\n"
    bed.mend("desk", "node0")
    assert reaches(desk, node)


def test_packets_under_way_are_lost_when_the_host_is_cut_off(bed: Testbed) -> None:
    desk, node = bed["desk"], bed["node0"]
    bed.delay("desk", "node0", 1000)
    hearing = node.start(["python", "-c", HEAR_UDP, node.address, "2"], stdout=subprocess.PIPE)
    assert first_line(hearing) == "listening"
    desk.run(["python", "-c", ASK_UDP, node.address])
    node.cut()
    assert hearing.communicate(timeout=PATIENCE_S)[0] == "silence\n"


def test_a_login_lands_inside_the_host(bed: Testbed) -> None:
    by_ssh = bed["desk"].run([*SSH, "node1", "hostname; pwd; readlink /proc/self/ns/*"]).stdout.split()
    inside = bed["node1"].run(["sh", "-c", "hostname; pwd; readlink /proc/self/ns/*"]).stdout.split()
    assert by_ssh == inside
    for name in ("python -m shoal", "shoal", "sh -lc 'shoal --version' #"):
        assert "shoal" in bed["desk"].run([*SSH, bed["node1"].address, f"{name} --version"]).stdout


def test_a_login_needs_the_right_key(bed: Testbed) -> None:
    stranger = ["-o", "IdentitiesOnly=yes", "-i", f".ssh/{bed.stranger_key}"]
    refused = bed["desk"].run([*SSH, *stranger, "node1", "hostname"], check=False)
    assert refused.returncode == 255
    assert "Permission denied (publickey)" in refused.stderr
    no_key = ["-o", "PubkeyAuthentication=no"]
    assert bed["desk"].run([*SSH, *no_key, "node1", "hostname"], check=False).returncode == 255
    assert bed["desk"].run([*SSH, "node1", "hostname"]).stdout == "node1\n"


def test_files_can_be_copied_by_scp(bed: Testbed) -> None:
    bed["desk"].write("letter", "dear node")
    bed["desk"].run(["scp", "-q", "-o", "BatchMode=yes", "letter", "node1:received"])
    assert bed["node1"].read("received") == "dear node"


def test_a_command_in_the_bin_of_the_home_goes_first(bed: Testbed) -> None:
    bed["node1"].write("bin/python", "#!/bin/sh\necho not today\n", mode=0o755)
    try:
        assert bed["desk"].run([*SSH, "node1", "python --version"]).stdout == "not today\n"
    finally:
        bed["node1"].run(["rm", "bin/python"])


def test_a_power_cut_says_no_goodbye(bed: Testbed) -> None:
    node, desk = bed["node0"], bed["desk"]
    talking = node.start(["python", "-c", TALK, node.address], stdout=subprocess.PIPE)
    assert first_line(talking) == "listening"
    hearing = desk.start(["python", "-c", HEAR, node.address, "1.5"], stdout=subprocess.PIPE)
    assert first_line(hearing) == "b'hello'"
    node.kill()
    talking.communicate(timeout=PATIENCE_S)
    assert talking.returncode == -signal.SIGKILL
    assert hearing.communicate(timeout=PATIENCE_S)[0] == "silence\n"
    assert not node.is_up
    with pytest.raises(RuntimeError, match="node0 is off"):
        node.run(["true"])
    assert not reaches(desk, node)


def test_a_host_that_boots_again_has_its_home_and_its_address(bed: Testbed) -> None:
    node, address = bed["node0"], bed["node0"].address
    daemon = "setsid sleep 777 > /dev/null 2>&1 &"
    node.run(["sh", "-c", daemon])
    gone, kept = ["/tmp/x", "/run/x", "/dev/shm/x"], ["kept", "/srv/work/x", "/var/tmp/x"]
    for path in [*gone, *kept]:
        node.write(path, "x")
    node.kill()
    node.kill()
    node.boot()
    assert [path for path in [*gone, *kept] if node.exists(path)] == kept
    assert not any("sleep 777" in line for _, line in node.processes())
    assert node.address == address
    assert bed["desk"].run([*SSH, "node0", "hostname"]).stdout == "node0\n"


def test_nothing_is_left_of_a_killed_host(bed: Testbed) -> None:
    node = bed["node0"]
    own = set(node.run(["sh", "-c", "readlink /proc/self/ns/net /proc/self/ns/mnt"]).stdout.split())
    node.run([*SSH, "node0", "setsid sleep 888 > /dev/null 2>&1 &"])
    assert everybody_in(own)
    node.kill()
    until(lambda: not everybody_in(own), "nobody in the namespaces of the dead host")


def test_a_host_can_be_made_slower(bed: Testbed) -> None:
    if bed.group_of("node0") is None:
        pytest.skip("no CPU controller of cgroups may be used here")
    node = bed["node0"]
    node.limit_cpu(0.1)
    assert float(node.run(["python", "-c", BURN]).stdout) < 0.2
    burnt = bed["desk"].run([*SSH, "node0", "python -"], input=BURN).stdout
    assert float(burnt) < 0.2, "a login is in the host's cgroup, too"
    node.limit_cpu(None)
    assert float(node.run(["python", "-c", BURN]).stdout) > 0.2
    node.limit_cpu(0.5)
    quota = "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu.max 2> /dev/null; true"
    assert node.run(["sh", "-c", quota]).stdout.split()[0] == "10000"
    with pytest.raises(ValueError, match=r"cpus >= 0.05 must hold, but got 0"):
        node.limit_cpu(0)


def test_the_network_ends_at_the_hosts(bed: Testbed) -> None:
    script = "import socket; socket.create_connection(('192.0.2.1', 80), 1.0)"
    assert "TimeoutError" in bed["node0"].run(["python", "-c", script], check=False).stderr
    unknown = bed["node0"].run([*SSH, "nowhere", "true"], check=False)
    assert "Could not resolve hostname" in unknown.stderr


@pytest.mark.parametrize("hosts", [[], ["a", "a"], ["Big"], ["a b"], ["../a"], ["localhost"]], ids=str)
def test_bad_names_of_hosts_are_refused(hosts: list[str]) -> None:
    with pytest.raises(ValueError, match="host"):
        Testbed(hosts)


def test_unknown_hosts_are_an_error(bed: Testbed) -> None:
    with pytest.raises(KeyError, match="nobody"):
        bed.delay("desk", "nobody", 5)


def test_two_beds_do_not_meet() -> None:
    with Testbed(["a"]) as one, Testbed(["a"]) as other:
        one["a"].write("/tmp/x", "x")
        assert not other["a"].exists("/tmp/x")
        assert one.plan.id != other.plan.id


def test_a_closed_bed_leaves_nothing() -> None:
    bed = Testbed(["a", "b"])
    own = {space for host in bed for space in host.run(["readlink", "/proc/self/ns/net"]).stdout.split()}
    bed["a"].start(["sleep", "999"])
    assert everybody_in(own)
    assert traces(bed.plan.id)
    bed.close()
    bed.close()
    assert not is_alive(bed.keeper_pid)
    assert not everybody_in(own)
    assert not traces(bed.plan.id)
    with pytest.raises(RuntimeError, match="is off"):
        bed["a"].run(["true"])
    with pytest.raises(CannotStart, match="keeper of the bed is gone"):
        bed["a"].boot()


def test_a_killed_keeper_takes_the_hosts_along_and_close_removes_the_rest() -> None:
    bed = Testbed(["a", "b"])
    own = {space for host in bed for space in host.run(["readlink", "/proc/self/ns/net"]).stdout.split()}
    os.kill(bed.keeper_pid, signal.SIGKILL)
    try:
        until(lambda: not everybody_in(own), "the hosts end")
    finally:
        bed.close()
    assert not traces(bed.plan.id)


def test_an_interrupted_call_does_not_mix_up_the_answers(bed: Testbed) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    node = bed["node0"]
    node.kill()
    before = signal.signal(signal.SIGUSR1, interrupt)  # Not SIGALRM: that is the test's own time limit.
    alarm = threading.Timer(0.02, signal.pthread_kill, (threading.get_ident(), signal.SIGUSR1))
    try:
        alarm.start()
        with pytest.raises(KeyboardInterrupt):
            bed.ask("boot", "node0")
    finally:
        alarm.join()
        signal.signal(signal.SIGUSR1, before)
    assert bed.ask("cut", "node0", False) == "done"
    bed.ask("kill", "node0")
    node.boot()
    assert node.run(["hostname"]).stdout == "node0\n"


OWNER = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from testbed import Testbed
bed = Testbed(["a", "b"])
bed["a"].start(["sleep", "999"])
spaces = [bed[each].run(["readlink", "/proc/self/ns/net"]).stdout.strip() for each in "ab"]
print(json.dumps({"id": bed.plan.id, "keeper": bed.keeper_pid, "spaces": spaces}), flush=True)
os.fork()  # a child that outlives the owner, and has all its sockets
sys.stdin.read()
"""


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda each: each.name
)
def test_nothing_is_left_when_the_tester_is_killed(number: signal.Signals) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(ROOT / "tests")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        told = json.loads(owner.stdout.readline())
        assert everybody_in(set(told["spaces"]))
        assert traces(told["id"])
        owner.send_signal(number)
        owner.wait(PATIENCE_S)
        until(lambda: not is_alive(told["keeper"]), "the keeper ends")
        until(lambda: not everybody_in(set(told["spaces"])), "the hosts end")
    assert not traces(told["id"])
