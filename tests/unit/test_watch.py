"""A run watched: live on a terminal and as plain lines, and by files in whatever state."""

import io
import os
import pty
import select
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from support.commands import settings
from support.jobs import JOB, write_job
from support.rankfiles import write_killed, write_rank
from support.terminal import Terminal

from mpi_opt import cli
from mpi_opt.job import load_job
from mpi_opt.metrics.lost import Lost, write_lost
from mpi_opt.metrics.read import read_rank
from mpi_opt.watch.bounds import bounds
from mpi_opt.watch.draw import block, line, plain, spark
from mpi_opt.watch.life import life
from mpi_opt.watch.live import watch
from mpi_opt.watch.look import Looker
from mpi_opt.watch.show import Lines, Screen, display

ENV = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
ENV |= {"TERM": "xterm", "PYTHONWARNINGS": "error", "PYTHONIOENCODING": "utf-8"}
LIMIT = 60.0


def command(*words):
    return [sys.executable, "-m", "mpi_opt", *map(str, words)]


class Watched:
    """``mpi-opt watch`` on a terminal of its own."""

    def __init__(self, *words):
        self.ours, theirs = pty.openpty()
        import termios

        termios.tcsetwinsize(theirs, (30, 100))
        self.process = subprocess.Popen(command("watch", *words), stdin=theirs, stdout=theirs, stderr=theirs, env=ENV)
        os.close(theirs)
        self.terminal, self.text, self.until = Terminal(), "", time.monotonic() + LIMIT

    def read(self):
        """Take what is there; return whether more may come."""
        assert time.monotonic() < self.until, self.text
        if not select.select([self.ours], [], [], 0.2)[0]:
            return True
        try:
            data = os.read(self.ours, 1 << 16)
        except OSError:  # the other side is closed
            return False
        self.text += data.decode()
        return bool(data)

    def end(self):
        """Read to the end; return the exit code."""
        try:
            while self.read():
                pass
            return self.process.wait(timeout=10)
        finally:
            self.process.kill()
            self.process.wait()
            os.close(self.ours)
            self.terminal.feed(self.text)


@pytest.mark.timeout(120)
def test_a_live_run_on_a_terminal_and_as_plain_lines(tmp_path):
    job, run = write_job(tmp_path), tmp_path / "run"
    words = settings("stop.seconds=6", "stop.steps=1000000", "metrics.every=20")
    plainly = subprocess.Popen(
        command("watch", run, "--interval", "0.2"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV, text=True
    )
    shown = Watched(run, "--interval", "0.2")
    simulated = command("simulate", job, "--nodes", 2, "--out", run, *words)
    with plainly, subprocess.Popen(simulated, stdout=subprocess.DEVNULL):
        assert shown.end() == 0
        out, err = plainly.communicate(timeout=LIMIT)
    assert (plainly.returncode, err) == (0, "")
    last = {name: values[-1] for name, values in read_rank(run / "metrics" / "rank_00000.h5").series.items()}

    screens = ["\n".join(screen) for screen in shown.terminal.screens]
    assert shown.terminal.cursor_shown
    assert "waiting: no metrics yet" in screens[0]
    running = [screen for screen in screens if "running, last flush" in screen and "\nat  " in screen]
    assert len({screen.split("\nat  ")[1].split("\n")[0] for screen in running}) >= 2
    assert any("about" in screen and "left" in screen for screen in running)
    final = screens[-1]
    assert "sparq-sgd on 2 nodes, ring" in final
    assert "state       ended: done: 6." in final
    assert f"at          step {last['step']}, round {last['round']}," in final
    assert f"objective   {last['objective_average']:.8g} at the average model" in final
    assert "seconds     " + "█" * 24 + " 100.0% of 6" in final
    assert any(text.startswith(" " * 12 + "█") and text.endswith("▁") for text in final.splitlines())  # the loss falls
    for label in ("consensus", "sent", "firing", "phases", "slowest", "clock"):
        assert sum(text.startswith(label.ljust(12)) for text in final.splitlines()) == 1, label
    assert all(len(text) <= 100 for screen in shown.terminal.screens for text in screen)

    printed = out.splitlines()
    assert "\x1b" not in out
    assert printed[0] == "waiting: no metrics yet"
    assert printed[-1].startswith("ended: done: 6.")
    rows = [text for text in printed if text.startswith("step ")]
    steps = [int(text.split()[1]) for text in rows]
    assert steps == sorted(set(steps))
    assert len(steps) >= 2
    assert steps[-1] == last["step"]
    assert f"objective {last['objective_average']:.6g}" in rows[-1]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_is_left_quietly(tmp_path, sign, code):
    write_rank(tmp_path, 0, 1, 3, end=None)
    (tmp_path / "job.toml").write_text("")
    shown = Watched(tmp_path, "--interval", "0.1")
    while "objective" not in shown.text:
        assert shown.read()
    shown.process.send_signal(sign)
    assert shown.end() == code
    assert shown.terminal.cursor_shown
    assert "Traceback" not in shown.text
    assert "interrupted" not in shown.text


# --- files in whatever state ------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    job = JOB.replace("steps = 60", "steps = 100")
    for node in range(2):
        write_rank(folder, node, 2, 5, job=job)
    return folder


def age(folder, seconds):
    for path in (folder / "metrics").iterdir():
        os.utime(path, (time.time() - seconds,) * 2)


def shown_lines(looker, lines, out):
    lines.show([looker.look()])
    text = out.getvalue().splitlines()
    out.seek(0)
    out.truncate()
    return text


def test_a_file_that_is_missing_half_written_replaced_or_cut(run):
    out = io.StringIO()
    looker, lines = Looker(run), Lines(out)
    assert [text.split("  ")[0] for text in shown_lines(looker, lines, out)] == ["step 40", "ended: done: all"]
    assert shown_lines(looker, lines, out) == []
    first, second = (run / "metrics" / f"rank_{node:05d}.h5" for node in range(2))
    whole = first.read_bytes()
    first.write_bytes(whole[: len(whole) // 2])
    (told,) = shown_lines(looker, lines, out)
    assert told.startswith(f"cannot be read now: {first}: cut off or half written: ")
    assert looker.look().last["step"] == 40  # as it was before
    first.write_bytes(b"")
    assert "rank_00000.h5" in shown_lines(looker, lines, out)[0]
    first.unlink()
    assert looker.look().tails[0].node == 1
    # resumed: new files, with fewer rows and running, take the names
    for node in range(2):
        write_rank(run / "new", node, 2, 3, end=None).flush()
        os.replace(run / "new" / "metrics" / f"rank_{node:05d}.h5", run / "metrics" / f"rank_{node:05d}.h5")
    told = shown_lines(looker, lines, out)
    assert told[0] == "taken up again at step 20, or begun anew"
    assert told[1].startswith("step 20 ")
    assert told[2] == "running on 2 nodes"
    # an elastic run that goes on without a node
    write_lost(run, [Lost(1, 20, "host1", "2026-01-01T00:00:00+00:00")])
    assert shown_lines(looker, lines, out) == ["running on 1 of 2 nodes"]
    assert "lost        node 1 lost at step 20" in block(looker.look())
    (run / "metrics" / "lost.json").write_text("[")
    assert "lost.json: damaged" in looker.look().trouble
    second.unlink()
    first.unlink()
    assert looker.look().state == "waiting"


def test_a_killed_run_is_said_to_be_so(tmp_path, capsys):
    process = write_killed(tmp_path, 0, 1, 3)
    (tmp_path / "job.toml").write_text("")
    (tmp_path / "checkpoints" / "step_000000000020").mkdir(parents=True)
    import socket

    (tmp_path / ".lock").write_text(f"{socket.gethostname()}, process {process}")
    assert Looker(tmp_path).look().state == "running"  # it may have ended this moment
    age(tmp_path, 100)
    assert cli.main(["watch", str(tmp_path), "--once"]) == 0
    out = capsys.readouterr().out
    assert f"state       killed: no flush for 100 s, and process {process} on this machine is gone; " in out
    assert "mpi-opt resume goes on from step 20" in out
    assert "checkpoint  step 20, 0 s ago" in out


def test_life_by_signs_by_the_lock_and_by_the_pace(tmp_path):
    assert life(tmp_path, 30.0, 0.0).state == "running"
    assert life(tmp_path, 70.0, 1.0) == (
        "silent", "no flush for 70 s: ended from outside, or busy with one long evaluation or step",
    )  # fmt: skip
    assert life(tmp_path, 70.0, 20.0).state == "running"  # evaluations are rare
    sign = tmp_path / ".alive" / "rank_00000"
    sign.parent.mkdir()
    sign.write_text("1")
    assert life(tmp_path, 1000.0, 1.0).state == "running"
    os.utime(sign, (time.time() - 200,) * 2)
    assert life(tmp_path, 30.0, 1.0).state == "running"
    assert life(tmp_path, 1000.0, 1.0) == ("killed", "no flush for 1000 s, and no sign of life for 200 s")
    (tmp_path / ".lock").write_text(f"{os.uname().nodename}, process {os.getpid()}")
    assert life(tmp_path, 30.0, 1.0).state == "running"
    (tmp_path / ".lock").write_text("elsewhere, process 1")
    assert life(tmp_path, 1000.0, 1.0).state == "killed"


# --- what is shown ----------------------------------------------------------------------------------------------------


def history(steps, wall, payload=None):
    values = {"step": np.array(steps), "round": np.array(steps) // 5, "epoch": np.array(steps) / 10.0}
    values |= {"seconds": 0.5 * np.array(wall), "wall_seconds": np.array(wall)}
    sent = np.array(payload if payload is not None else np.zeros(len(steps)))
    return values | {"payload_bytes": sent, "header_bytes": 0 * sent}


def test_the_time_left_follows_the_pace_of_late():
    stop = load_job(JOB.replace("steps = 60", "steps = 1000\nepochs = 50\nmegabytes = 4")).stop
    # 10 s for the first 100 steps, then 50 steps a second
    past = history([0, 100, 200, 300, 400], [0.0, 10.0, 12.0, 14.0, 16.0], [0, 1e5, 2e5, 3e5, 4e5])
    found = {bound.name: bound for bound in bounds(stop, past, 8e5)}
    assert found["steps"].left == pytest.approx(600 / 50)
    assert found["epochs"].left == pytest.approx(10 / 5)
    assert found["megabytes"].left == pytest.approx((4 - 0.8) / 0.1)  # twice what this node sends
    assert [found[name].share for name in ("steps", "epochs", "megabytes")] == pytest.approx([0.4, 0.8, 0.2])
    assert next(iter(found)) == "epochs"
    assert bounds(stop, history([0], [0.0]), 0.0)[0].left is None
    assert bounds(stop, history([0, 100], [0.0, 4.0]), 0.0)[-1].left in (pytest.approx(36.0), None)
    assert bounds(stop, {}, 0.0) == []


def test_sparks():
    assert spark(np.array([8.0, 4.0, 2.0, 1.0])) == "█▆▃▁"
    assert spark(np.array([3.0, -1.0, np.nan, 1.0])) == "█▁ ▅"
    assert spark(np.array([3.0, -1.0, np.inf]), blocks=False) == "#_ "
    assert spark(np.array([np.nan])) == ""
    assert len(spark(np.linspace(9, 1, 1000))) == 48
    assert spark(np.full(3, 2.0)) == "▁▁▁"


def test_figures_are_those_of_the_files(run):
    view = Looker(run).look()
    text = block(view)
    ranks = [read_rank(run / "metrics" / f"rank_{node:05d}.h5") for node in range(2)]
    last = [{name: values[-1] for name, values in rank.series.items()} for rank in ranks]
    phases = next(each for each in text if each.startswith("phases"))
    wait = [100 * row["wait_seconds"] / row["seconds"] for row in last]
    assert f"wait {min(wait):.0f}/{np.mean(wait):.0f}/{max(wait):.0f} %" in phases
    # node 0 spoke at syncs 0, 2, 4, 6 of 7, node 1 at the other three
    assert "firing      50% over the last 7 syncs (node 1: 43%, node 0: 57%)" in text
    assert "steps       " + "█" * 9 + "░" * 15 + "  40.0% of 100" in text
    sent = next(each for each in text if each.startswith("sent"))
    assert sent == "sent        payload 81 B, headers 81 B, control 81 B by all; most by node 1: 82 B"
    assert "state       ended: done: all" in text
    assert "(40.0% of stop.steps)" in line(view)


def test_names_out_of_files_cannot_steer_the_terminal(run):
    assert plain("a\x1b[2Jb\r\n") == "a?[2Jb??"
    for node in range(2):
        write_rank(run, node, 2, 2, end="failed: \x1b[31mred")
    assert "state       ended: failed: ?[31mred" in block(Looker(run).look())


class Tty(io.StringIO):
    encoding = "ascii"

    def isatty(self):
        return True


def test_where_it_is_drawn_in_place(run):
    assert isinstance(display(Tty(), {"TERM": "xterm"}), Screen)
    for environ in ({"TERM": "dumb"}, {}, {"TERM": "xterm", "NO_COLOR": "1"}):
        assert isinstance(display(Tty(), environ), Lines)
    assert isinstance(display(io.StringIO(), {"TERM": "xterm"}), Lines)
    out, terminal = Tty(), Terminal()
    watch([run], out, {"TERM": "xterm"}, interval=1.0)
    terminal.feed(out.getvalue().replace("\n", "\r\n"))
    assert out.getvalue().isascii()
    assert terminal.screens[-1][5].startswith("objective")
    assert any("#########..............." in text for text in terminal.screens[-1])


def test_what_is_no_run_is_refused_and_what_comes_is_waited_for(tmp_path, capsys):
    (tmp_path / "some.txt").write_text("")
    assert cli.main(["watch", str(tmp_path)]) == 2
    assert "holds no run" in capsys.readouterr().err
    assert cli.main(["watch", str(tmp_path / "nowhere"), "--once"]) == 2
    assert cli.main(["watch", str(tmp_path), "--interval", "0"]) == 2
    assert "seconds between 0.05 and 86400" in capsys.readouterr().err
    out, folder, pauses = io.StringIO(), tmp_path / "late", []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 1:
            write_rank(folder, 0, 1, 2, end="paused: SIGUSR1 after 10 steps; mpi-opt resume goes on")

    watch([folder], out, {}, interval=3.0, pause=pause)
    assert len(pauses) == 1
    assert pauses[0] >= 3.0
    printed = out.getvalue().splitlines()
    assert printed[0] == "waiting: no metrics yet"
    assert printed[-1] == "ended: paused: SIGUSR1 after 10 steps; mpi-opt resume goes on"
