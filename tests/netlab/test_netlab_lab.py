"""The emulated network is what it says, and leaves nothing behind, however it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from netlab import hosts
from support.netlab import Lab

SOCKETS = Path(__file__).with_name("sockets.py")


@pytest.fixture
def start():
    """Start a command; it is ended after the test."""
    started = []

    def call(command, **env):
        process = subprocess.Popen(command, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield call
    for process in started:
        process.kill()
        process.communicate(timeout=60)


@pytest.fixture
def on(start):
    """Start a script of sockets on a host."""

    def call(lab, host, *words):
        return start(lab.command(host, [sys.executable, SOCKETS, *map(str, words)]), **lab.environment())

    return call


def told(process, seconds=60):
    """Return what a script said at its end."""
    words, _ = process.communicate(timeout=seconds)
    assert process.returncode == 0, words
    return json.loads(words.splitlines()[-1])


def begun(process):
    """Wait until a script listens."""
    assert process.stdout.readline() == "listening\n"


def until(reached, seconds=20):
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_delay_and_rate(lab, on):
    echo = on(lab, 2, "echo")
    begun(echo)
    least = told(on(lab, 0, "ping", hosts.address(2), 30))
    assert lab.delay <= 1e3 * least / 2 <= lab.delay + 1.5
    told(echo)
    sink = on(lab, 3, "sink")
    begun(sink)
    before = lab.counts()
    told(on(lab, 1, "pour", hosts.address(3), 4_000_000))
    bytes_a_second = told(sink)
    counts = lab.counts()
    # Ethernet, IP and TCP headers take 66 bytes of 1,514; slow start and a busy machine take what they like.
    assert 0.5 * lab.rate <= 8e-6 * bytes_a_second <= 1.02 * lab.rate * 1448 / 1514
    stream = counts["payload"][1, 3] - before["payload"][1, 3]
    assert 4_000_000 <= stream <= 4_400_000  # what is sent again counts again


def quiet(lab):
    """Return the counts once no frame has passed for half a second: connections of earlier tests take leave late."""
    counts = [lab.counts()]

    def unchanged():
        time.sleep(0.5)
        counts.append(lab.counts())
        return (counts[-1]["frames"] == counts[-2]["frames"]).all()

    until(unchanged)
    return counts[-1]


def test_frames_are_counted_by_sender_and_receiver(lab, on):
    before = quiet(lab)
    told(on(lab, 0, "datagrams", hosts.address(2), 100, 500))
    until(lambda: (lab.counts()["frames"] - before["frames"])[0, 2] >= 100)
    counts = lab.counts()
    frames, nbytes = counts["frames"] - before["frames"], counts["bytes"] - before["bytes"]
    assert frames[0, 2] == 100
    assert nbytes[0, 2] == 100 * (500 + 8 + 20 + 14)  # UDP, IP, Ethernet
    assert frames.sum() == frames[0, 2] + frames[2, 0]  # that nobody listens there may be answered
    assert (counts["payload"] == before["payload"]).all()


def test_two_labs_at_once_and_one_killed(lab, on):
    with Lab(2) as other:
        echo = on(other, 1, "echo")
        begun(echo)
        assert told(on(other, 0, "ping", hosts.address(1), 5)) < 1e-3 * lab.delay  # not the other lab's delay
        os.kill(other.pid, signal.SIGKILL)
        assert len(hosts.namespaces(other.name)) == 2
    # What the switch could not do any more was done for it: its namespaces, and what ran in them.
    assert hosts.namespaces(other.name) == []
    echo.wait(10)
    assert len(hosts.namespaces(lab.name)) == lab.n


@pytest.mark.parametrize("end", ["parent killed", "SIGTERM"])
def test_it_ends_with_its_parent_and_removes_what_runs_on_it(lab, on, start, end):
    parent = start([sys.executable, str(SOCKETS), "hold"], PYTHONPATH=str(Path(__file__).parents[1]))
    name, switch, inside = parent.stdout.readline().split()
    bystander = on(lab, 1, "echo")
    begun(bystander)
    assert len(hosts.namespaces(name)) == 2
    if end == "SIGTERM":
        os.kill(int(switch), signal.SIGTERM)
    else:
        parent.kill()
    until(lambda: not hosts.namespaces(name))
    until(lambda: not alive(int(inside)) and not alive(int(switch)))
    assert bystander.poll() is None


def test_ranks_that_hang_are_ended_at_the_limit(lab):
    code = "import time, mpi4py.MPI; print('up', flush=True); time.sleep(600)"
    result = lab.mpirun(["-c", code], timeout=12)
    assert result.timed_out
    assert "up" in result.logs[3]
    inside = [
        subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, timeout=30).stdout.split()
        for name in hosts.namespaces(lab.name)
    ]
    assert inside == [[]] * lab.n


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
