"""What a person sees: sizes and lines, a bar on a terminal, and the log that gets the same lines."""

import errno
import io

import numpy as np
import pytest

from mpi_opt.errors import MpiOptError
from mpi_opt.run import progress as module
from mpi_opt.run.progress import Bar, Lines, Silent, figures, progress, size
from mpi_opt.run.stop import StopRules

ROW = {
    "step": 40,
    "round": 13,
    "seconds": 1.239,
    "objective_average": 0.25,
    "objective_mean": 0.26,
    "objective_worst": 0.3125,
    "train_error_average": 0.1,
    "test_error_average": 0.125,
    "test_error_worst": 0.5,
    "payload_bytes": 1200,
    "header_bytes": 300,
}
FIGURES = "objective 0.25 (mean 0.26, worst 0.3125)  test error 12.50% (worst 50.00%)  node 0 sent 1.5 kB"
LINE = "step      40  round     13      1.24 s  " + FIGURES


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (1234, "1.23 kB"),
        (999_400, "999 kB"),
        (1_500_000, "1.5 MB"),
        (2_345_678_901, "2.35 GB"),
        (5e12, "5e+03 GB"),
        (7.0, "7 B"),
    ],
)
def test_sizes(nbytes, text):
    assert size(nbytes) == text


def test_figures():
    assert figures(ROW) == FIGURES


@pytest.mark.parametrize(("train", "error"), [(0.1, "  train error 10.00%"), (np.nan, "")])
def test_what_is_unknown_is_left_out(train, error):
    row = ROW | {"test_error_average": np.nan, "test_error_worst": np.nan, "train_error_average": train}
    assert figures(row) == f"objective 0.25 (mean 0.26, worst 0.3125){error}  node 0 sent 1.5 kB"


def test_lines():
    written = []
    lines = Lines(written.append)
    lines.say("a word")
    lines.show(ROW)
    lines.close()
    assert written == ["a word", LINE]


def test_silent():
    silent = Silent()
    assert (silent.show(ROW), silent.say("x"), silent.close()) == (None, None, None)


class Flushed(io.StringIO):
    """A stream that keeps what had been flushed at each moment."""

    seen = ""

    def flush(self):
        super().flush()
        self.seen = self.getvalue()


class Terminal(Flushed):
    def isatty(self):
        return True


def test_without_a_terminal_lines_go_to_output_and_log_and_are_flushed(monkeypatch):
    out, err, log = Flushed(), Flushed(), Flushed()
    monkeypatch.setattr(module.sys, "stdout", out)
    monkeypatch.setattr(module.sys, "stderr", err)
    shown = progress("auto", StopRules(steps=80), log)
    shown.say("begin")
    assert out.seen == log.seen == "begin\n"
    shown.show(ROW)
    assert out.seen == log.seen == f"begin\n{LINE}\n"
    shown.close()
    assert err.getvalue() == ""


def test_no_log(monkeypatch):
    out = Flushed()
    monkeypatch.setattr(module.sys, "stdout", out)
    monkeypatch.setattr(module.sys, "stderr", Flushed())
    progress("auto", StopRules(), None).say("begin")
    assert out.seen == "begin\n"


@pytest.mark.parametrize(("steps", "total"), [(80, "40/80"), (None, "40step")])
def test_on_a_terminal_a_bar_moves_and_the_log_has_plain_lines(monkeypatch, steps, total):
    out, err, log = Flushed(), Terminal(), Flushed()
    monkeypatch.setattr(module.sys, "stdout", out)
    monkeypatch.setattr(module.sys, "stderr", err)
    shown = progress("auto", StopRules(steps=steps), log)
    assert isinstance(shown, Bar)
    shown.say("begin")
    shown.show(ROW | {"step": 0, "round": 0})
    shown.show(ROW)
    shown.close()
    assert out.getvalue() == "begin\n"
    assert total in err.getvalue()
    assert FIGURES.replace(" (worst 50.00%)", "")[:20] in err.getvalue()
    assert ("50%|" in err.getvalue()) == (steps is not None)
    assert log.getvalue() == "begin\n" + LINE.replace("step      40  round     13", "step       0  round      0") + (
        f"\n{LINE}\n"
    )
    assert "\r" not in log.getvalue()


@pytest.mark.parametrize("stream", [Flushed, Terminal])
@pytest.mark.parametrize(("kind", "bar", "output"), [("bar", True, ""), ("lines", False, LINE), ("none", False, "")])
def test_kinds_asked_for_do_not_depend_on_the_terminal(monkeypatch, stream, kind, bar, output):
    out, err, log = Flushed(), stream(), Flushed()
    monkeypatch.setattr(module.sys, "stdout", out)
    monkeypatch.setattr(module.sys, "stderr", err)
    shown = progress(kind, StopRules(steps=80), log)
    shown.show(ROW)
    shown.close()
    assert isinstance(shown, Bar) == bar == bool(err.getvalue())
    assert out.getvalue().rstrip("\n") == output
    assert log.getvalue() == LINE + "\n"


class Full(io.FileIO):
    """A file on a disk without room."""

    def write(self, data):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_log_on_a_full_disk_is_told_once(tmp_path, monkeypatch):
    monkeypatch.setattr(module.sys, "stdout", Flushed())
    with io.TextIOWrapper(io.BufferedWriter(Full(tmp_path / "log.txt", "w"))) as log:
        shown = progress("lines", StopRules(), log)
        with pytest.raises(
            MpiOptError, match=r"log\.txt cannot be written: No space left on device; is the disk full\?"
        ):
            shown.say("begin")
        shown.say("go on")  # no second error, neither here nor where the log is closed
    assert module.sys.stdout.getvalue() == "begin\ngo on\n"
