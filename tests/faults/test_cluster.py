"""The parts of `make cluster`: hosts that are namespaces, and a plan in which everything happens."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from core.redis.urls import sentinels_of
from faults.campaign import Plan, plan_faults
from faults.cluster.kinds import CLUSTER_KINDS
from lab.cluster.network import Host
from lab.cluster.redis_hosts import PORT, SENTINEL_PORT, RedisHosts, public_name
from lab.commands import PROJECT

_TWO_HOSTS = '''
import socket, subprocess, sys, time
from pathlib import Path
from lab.cluster.network import Host, enter, full_disk, make_bridge, small_disk

SERVER = """
import socket, threading
greeter, repeater = (socket.create_server(('', port)) for port in (4000, 4001))
print(flush=True)
def repeat():
    connection = repeater.accept()[0]
    while said := connection.recv(1):
        connection.sendall(said)
threading.Thread(target=repeat, daemon=True).start()
while True:
    greeter.accept()[0].close()
"""

def answers(connection, seconds):
    connection.settimeout(seconds)
    try:
        return connection.recv(1) == b"?"
    except TimeoutError:
        return False

def reaches(address, seconds=120):
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((address, 4000), timeout=0.3).close()
        except OSError:
            if time.monotonic() > deadline:
                return False
        else:
            return True

enter("")
make_bridge()
one, two = Host("one", 11), Host("two", 12)
for host in (one, two):
    host.start()
one.add_address("10.77.0.20")
server = subprocess.Popen(one.command(sys.executable, "-c", SERVER), stdout=subprocess.PIPE)
server.stdout.readline()
assert reaches(one.address) and reaches("10.77.0.20") and not reaches(two.address, 0)
kept = socket.create_connection((one.address, 4001), timeout=120)
for fault in (one.unplugged(), one.cut_off_from("10.77.0.1")):
    with fault:
        assert not reaches(one.address, 0)
        kept.sendall(b"?")
        assert not answers(kept, 1)
    assert answers(kept, 120)
    assert reaches(one.address)
with one.cut_off_from(two.address):
    assert reaches(one.address)
    with one.cut_off_from("10.77.0.1"):
        assert not reaches(one.address, 0)
    assert reaches(one.address)
with one.slowed("1mbit"):
    assert reaches(one.address)
one.remove_address("10.77.0.20")
assert not reaches("10.77.0.20", 0)
with small_disk(Path(sys.argv[1]) / "disk", "1m") as disk:
    with full_disk(disk):
        try:
            (disk / "more").write_bytes(bytes(1 << 16))
        except OSError:
            pass
        else:
            raise AssertionError("there is room")
    (disk / "more").write_bytes(bytes(1 << 16))
server.kill()
print("done")
'''


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_hosts_are_joined_and_parted(tmp_path: os.PathLike[str]) -> None:
    namespaces = ("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
    if subprocess.run([*namespaces, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("no namespaces here")
    environment = {**os.environ, "LAB_NAMESPACE": "1"}
    done = subprocess.run(
        [*namespaces, sys.executable, "-c", _TWO_HOSTS, str(tmp_path)],
        check=False, capture_output=True, text=True, cwd=PROJECT, env=environment, timeout=300,
    )  # fmt: skip
    assert done.stdout == "done\n", done.stderr


def test_redis_is_set_up_as_the_files_for_a_deployment_have_it(tmp_path: Path) -> None:
    hosts = [Host(f"redis{number}", 30 + number) for number in (1, 2, 3)]
    watched = RedisHosts(hosts)
    told = sentinels_of(watched.settings["REDIS_URL"])
    assert told is not None
    addresses = [f"{name}:{port}" for name, port in told.addresses]
    assert addresses == [f"{public_name(host)}:{SENTINEL_PORT}" for host in hosts]
    followed = []
    for host in hosts:
        disk = tmp_path / host.name
        disk.mkdir()
        server = Path(watched.server_command(host, disk)[1]).read_text()
        sentinel = Path(watched.sentinel_command(disk)[1]).read_text()
        followed += re.findall(r"^replicaof (\S+ \d+)$", server, re.MULTILINE)
        assert f"requirepass {watched.settings['REDIS_PASSWORD']}" in server
        assert f"sentinel monitor {told.service} {public_name(hosts[0])} {PORT} 2" in sentinel
        assert "CHANGE" not in sentinel
    assert followed == [f"{public_name(hosts[0])} {PORT}"] * 2, "all but the first follow it"


def test_every_kind_of_fault_happens_once_before_any_comes_twice() -> None:
    faults = plan_faults(Plan(len(CLUSTER_KINDS), "a cluster"), CLUSTER_KINDS)
    assert {fault.kind.name for fault in faults} == {kind.name for kind in CLUSTER_KINDS}
