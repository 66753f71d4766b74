"""Hosts on one machine: network namespaces, each with an ``eth0`` whose other end this process holds (a TAP device).

Namespaces are called ``mpiopt<N>-h<K>`` after the number of the process that made them, so that labs do not meet. All
have the same addresses inside: host K is 10.77.0.(K + 1).
"""

import fcntl
import os
import re
import signal
import struct
import subprocess
import time
from pathlib import Path

MTU = 1500
_TUN = "/dev/net/tun"
_SET_INTERFACE = 0x400454CA  # TUNSETIFF
_TAP, _NO_INFORMATION = 0x0002, 0x1000
_CONGESTION = "cubic"
_NAMED = Path("/run/netns")
_LIMIT = 30
"""Seconds for one call of ``ip``."""


def lab_name(pid: int) -> str:
    """Return what the lab of a process is called."""
    return f"mpiopt{pid}"


def namespaces(lab: str) -> list[str]:
    """Return the namespaces of a lab that there are, in order of the hosts."""
    found = [path.name for path in _NAMED.glob(f"{lab}-h*")]
    return sorted(found, key=lambda name: int(name.rpartition("-h")[2]))


def address(host: int) -> str:
    """Return a host's address."""
    return f"10.77.0.{host + 1}"


def hardware(host: int) -> bytes:
    """Return the six bytes of a host's Ethernet address; it is of the kind that anybody may give out."""
    return bytes([2, 0, 0, 0, 0, host + 1])


def make(lab: str, hosts: int) -> list[int]:
    """Make the hosts of a lab; return the descriptors that their frames are read from and written to."""
    taps = []
    for host in range(hosts):
        tap = os.open(_TUN, os.O_RDWR | os.O_NONBLOCK)
        taps.append(tap)
        device, name = f"mo{lab.removeprefix('mpiopt')}h{host}", f"{lab}-h{host}"
        fcntl.ioctl(tap, _SET_INTERFACE, struct.pack("16sH22x", device.encode(), _TAP | _NO_INFORMATION))
        ip("netns", "add", name)
        ip("link", "set", device, "netns", name)
        # No address by itself, so no frames of IPv6; and nobody has to ask for the others' addresses.
        lines = [f"link set {device} name eth0", "link set eth0 addrgenmode none"]
        lines += [f"link set eth0 address {hardware(host).hex(':')} mtu {MTU}"]
        lines += [f"addr add {address(host)}/24 dev eth0", "link set eth0 up", "link set lo up"]
        lines += [
            f"neigh replace {address(j)} lladdr {hardware(j).hex(':')} dev eth0 nud permanent"
            for j in range(hosts)
            if j != host
        ]
        ip("-n", name, "-batch", "-", text="\n".join(lines) + "\n")
        # What clusters have; some machines are set to pace what they send. Where it cannot be chosen, so be it.
        choose = f"echo {_CONGESTION} > /proc/sys/net/ipv4/tcp_congestion_control"
        subprocess.run(
            ["ip", "netns", "exec", name, "sh", "-c", choose], capture_output=True, timeout=_LIMIT, check=False
        )
    return taps


def remove(lab: str) -> None:
    """End the processes in a lab's namespaces, and no others, and remove these."""
    names = namespaces(lab)
    for number in (signal.SIGTERM, signal.SIGKILL):
        end = time.monotonic() + 3
        while (alive := [pid for name in names for pid in _inside(name)]) and time.monotonic() < end:
            for pid in alive:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    continue
            time.sleep(0.05)
    for name in names:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=_LIMIT, check=False)


def remove_orphans() -> None:
    """Remove the labs whose process is no more: it was killed before it could."""
    for lab in {path.name.partition("-")[0] for path in _NAMED.glob("mpiopt*-h*")}:
        pid = re.fullmatch(r"mpiopt(\d+)", lab)
        if pid and not _is_switch(int(pid[1])):
            remove(lab)


def ip(*words: str, text: str | None = None) -> None:
    """Call ``ip``; what it has to say is the error."""
    done = subprocess.run(["ip", *words], input=text, capture_output=True, text=True, timeout=_LIMIT, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip() or done.returncode}")


def _inside(name: str) -> list[int]:
    done = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, timeout=_LIMIT, check=False)
    return [int(word) for word in done.stdout.split()]


def _is_switch(pid: int) -> bool:
    try:
        return b"netlab.switch" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
