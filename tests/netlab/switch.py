"""``python -m netlab.switch HOSTS --delay MS --rate MBIT``: hosts on this machine, joined by a slow network.

It makes the hosts (`hosts`), prints ``ready NAME``, and hands their frames on as a network of that delay and rate would
(`shaping`). Root only. Lines on standard input: ``counts`` is answered by what went through so far, one line of JSON;
``quit`` ends it. So does the end of the input, that is, of the process that started it, and SIGTERM and SIGINT. At the
end every process in the namespaces is ended, and they are removed.
"""

import argparse
import contextlib
import json
import math
import os
import select
import signal
import sys
import time
from pathlib import Path

from netlab import hosts
from netlab.shaping import Counts, Shaper

_FRAMES_A_LOOK = 64
_LARGEST_FRAME = hosts.MTU + 18
_STANDARD_INPUT = 0


class Asked(Exception):
    """Somebody wants the switch to end."""


def main(words: list[str] | None = None) -> int:
    """Run the switch until it is asked to end."""
    parser = argparse.ArgumentParser(prog="netlab.switch", description="hosts on this machine, on a slow network")
    parser.add_argument("hosts", type=int)
    parser.add_argument("--delay", type=float, default=0.0, metavar="MS", help="one way")
    parser.add_argument("--rate", type=float, default=0.0, metavar="MBIT", help="of each host's link; 0: no limit")
    parser.add_argument("--counts", type=Path, metavar="FILE", help="what went through, written at the end")
    options = parser.parse_args(words)
    if not (2 <= options.hosts <= 250 and options.delay >= 0 and options.rate >= 0):
        parser.error("from 2 to 250 hosts; a delay and a rate that are not negative")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _ask)
    lab = hosts.lab_name(os.getpid())
    counts = Counts.none(options.hosts)
    try:
        hosts.remove_orphans()
        taps = hosts.make(lab, options.hosts)
        _come_first()
        print("ready", lab, flush=True)
        rate = options.rate * 1e6 / 8 or math.inf
        _serve(taps, Shaper(options.hosts, options.delay / 1e3, rate), counts)
    except (Asked, BrokenPipeError):
        pass
    except OSError as error:
        print("error:", error, file=sys.stderr)
        return 1
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # asked already
        hosts.remove(lab)
        if options.counts:
            options.counts.write_text(json.dumps(counts.as_dict()))
    return 0


def _serve(taps: list[int], shaper: Shaper, counts: Counts) -> None:
    by_address = {hosts.hardware(host): [host] for host in range(len(taps))}
    others = [[target for target in range(len(taps)) if target != host] for host in range(len(taps))]
    of_tap = {tap: host for host, tap in enumerate(taps)}
    typed = b""
    while True:
        arrived, dropped = shaper.due(time.monotonic())
        counts.dropped += dropped
        for target, frame in arrived:
            with contextlib.suppress(OSError):  # the host is not taking any
                os.write(taps[target], frame)
        # `select` waits to the microsecond; epoll would to the millisecond.
        wait = min(max(shaper.next - time.monotonic(), 0.0), 60.0)
        ready, _, _ = select.select([*taps, _STANDARD_INPUT], [], [], wait)
        for descriptor in ready:
            if descriptor == _STANDARD_INPUT:
                typed = _answer(typed, counts)
                continue
            source = of_tap[descriptor]
            for _ in range(_FRAMES_A_LOOK):
                try:
                    frame = os.read(descriptor, _LARGEST_FRAME)
                except BlockingIOError:
                    break
                targets = by_address.get(frame[:6], others[source])
                for target in targets:
                    counts.add(source, target, frame)
                counts.dropped += not shaper.take(time.monotonic(), source, targets, frame)


def _answer(typed: bytes, counts: Counts) -> bytes:
    """Answer the lines on standard input; return what is no whole line yet."""
    more = os.read(_STANDARD_INPUT, 4096)
    if not more:
        raise Asked
    *lines, rest = (typed + more).split(b"\n")
    for line in lines:
        if line.strip() == b"quit":
            raise Asked
        if line.strip() == b"counts":
            print(json.dumps(counts.as_dict()), flush=True)
    return rest


def _come_first() -> None:
    """Run before the ranks, which poll the cores away: a frame is late by what the switch waits."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, -10)


def _ask(number: int, frame: object) -> None:
    raise Asked


if __name__ == "__main__":
    sys.exit(main())
