"""Files fetched from a server on this machine, which corrupts, cuts, stalls and changes them."""

import bz2
import errno
import gzip
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest
from support.fileserver import serving, until

from mpi_opt import cli
from mpi_opt.commands import fetch as command
from mpi_opt.datasets import fetching, part
from mpi_opt.datasets.cards import Card, CardFile, CardRows
from mpi_opt.datasets.download import Patience
from mpi_opt.datasets.fetching import Fetching, fetch_card
from mpi_opt.datasets.source import resolve
from mpi_opt.errors import DataError, JobError

BODY = random.Random(1).randbytes(3_000_000)
QUICK = Patience(timeout=0.5, retries=2, wait=0.01)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def server():
    with serving() as files:
        files.served["/set/x"] = BODY
        yield files


class Said:
    """A watch that keeps what it is told."""

    def __init__(self):
        self.lines, self.shown = [], 0

    def say(self, text):
        self.lines.append(text)

    def begin(self, what, done, total):
        self.shown = done

    def advance(self, nbytes):
        self.shown += nbytes

    def end(self):
        pass


def sha(data):
    return hashlib.sha256(data).hexdigest()


def known(data=BODY):
    return {"bytes": len(data), "sha256": sha(data)}


def card(server, *paths, save="x", **figures):
    addresses = tuple(server.address + path for path in paths or ("/set/x",))
    file = CardFile(save=save, addresses=addresses, **figures)
    return Card(
        name="set",
        about="-",
        origin="-",
        licence="-",
        citation="-",
        task="binary",
        features=3,
        train=CardRows(word="x"),
        files=(file,),
    )


def fetch(what, folder, **how):
    watch = Said()
    fetch_card(what, Fetching(folder, patience=how.pop("patience", QUICK), **how), watch)
    return watch


def names(folder):
    return sorted(path.name for path in (folder / "set").iterdir())


def ranges(server):
    return [(asked.status, asked.range) for asked in server.log]


def test_a_file_gets_its_name_only(server, tmp_path):
    watch = fetch(card(server, **known()), tmp_path)
    assert (tmp_path / "set/x").read_bytes() == BODY
    assert names(tmp_path) == ["x"]
    assert watch.shown == len(BODY)
    assert "as the card says" in watch.lines[-1]


def test_what_is_there_and_right_is_not_asked_for(server, tmp_path):
    fetch(card(server, **known()), tmp_path)
    watch = fetch(card(server, **known()), tmp_path, overwrite=True)
    assert len(server.log) == 1
    assert watch.lines == [f"{tmp_path}/set/x: have it"]


def test_what_is_there_and_wrong_is_replaced_only_when_told(server, tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set/x").write_bytes(BODY[:-1] + b"?")
    with pytest.raises(
        DataError, match=f"is not the card's file: sha256 {sha(BODY[:-1] + b'?')}, the card says {sha(BODY)}"
    ):
        fetch(card(server, **known()), tmp_path)
    server.faults["/set/x"] = [404]
    with pytest.raises(DataError, match="404"):
        fetch(card(server, **known()), tmp_path, overwrite=True)
    assert (tmp_path / "set/x").read_bytes()[-1:] == b"?", "kept until the right one is there"
    fetch(card(server, **known()), tmp_path, overwrite=True)
    assert (tmp_path / "set/x").read_bytes() == BODY


def test_corrupt_bytes_are_refused_and_kept_apart(server, tmp_path):
    wrong = BODY[:1000] + bytes([BODY[1000] ^ 1]) + BODY[1001:]
    server.served["/set/x"] = wrong
    with pytest.raises(DataError) as told:
        fetch(card(server, **known()), tmp_path)
    assert sha(wrong) in str(told.value)
    assert sha(BODY) in str(told.value)
    assert names(tmp_path) == ["x.refused"]
    assert (tmp_path / "set/x.refused").read_bytes() == wrong


def test_the_next_address_is_taken_where_one_fails(server, tmp_path):
    server.served["/other/x"] = BODY[:-1] + b"?"
    server.served["/third/x"] = BODY
    fetch(card(server, "/none/x", "/other/x", "/third/x", **known()), tmp_path)
    assert (tmp_path / "set/x").read_bytes() == BODY
    assert [asked.path for asked in server.log] == ["/none/x", "/other/x", "/third/x"]


def test_another_size_is_refused_before_it_is_taken(server, tmp_path):
    with pytest.raises(DataError, match="gives 3000000 bytes, the card says 2999999"):
        fetch(card(server, bytes=len(BODY) - 1), tmp_path)
    server.faults["/set/x"] = ["unsized"]
    with pytest.raises(DataError, match="gives more than 2999999 bytes"):
        fetch(card(server, bytes=len(BODY) - 1), tmp_path)
    assert names(tmp_path) == []


def test_a_cut_answer_is_gone_on_with(server, tmp_path):
    server.faults["/set/x"] = [("cut", 1_000_000), ("cut", 500_000)]
    fetch(card(server, **known()), tmp_path)
    assert (tmp_path / "set/x").read_bytes() == BODY
    assert ranges(server) == [(200, None), (206, "bytes=1000000-"), (206, "bytes=1500000-")]
    assert sum(asked.sent for asked in server.log) == len(BODY)


def test_chunks_and_their_missing_end(server, tmp_path):
    server.validators = False
    server.faults["/set/x"] = [("chopped", 1_000_000), "chunked"]
    watch = fetch(card(server), tmp_path)
    assert (tmp_path / "set/x").read_bytes() == BODY
    assert "IncompleteRead" in watch.lines[0]


def test_an_answer_cut_each_time_is_given_up(server, tmp_path):
    server.faults["/set/x"] = [("cut", 10)] * 9
    with pytest.raises(DataError, match=r"the answer ended after 30 of 3000000 bytes; given up after 3 attempts"):
        fetch(card(server, **known()), tmp_path)
    assert names(tmp_path) == ["x.part", "x.state"]
    server.faults.clear()
    fetch(card(server, **known()), tmp_path)
    assert server.log[-1].range == "bytes=30-"
    assert names(tmp_path) == ["x"]


def test_attempts_that_bring_much_are_not_counted(server, tmp_path):
    server.served["/set/x"] = BODY * 2
    server.faults["/set/x"] = [("cut", 1 << 20)] * 5
    fetch(card(server, **known(BODY * 2)), tmp_path)
    assert len(server.log) == 6


@pytest.mark.parametrize("fault", [("sleep", 5.0), ("drip", 1_000_000, 5.0)])
def test_silence_is_timed_out_and_asked_again(server, tmp_path, fault):
    server.faults["/set/x"] = [fault]
    begun = time.monotonic()
    watch = fetch(card(server, **known()), tmp_path)
    assert time.monotonic() - begun < 3.0
    assert (tmp_path / "set/x").read_bytes() == BODY
    assert "no answer in time" in watch.lines[0]


def test_an_answer_that_only_drips_is_one_that_hangs(server, tmp_path):
    server.faults["/set/x"] = [("slow", 0.05)] * 3
    with pytest.raises(DataError, match="bytes came in 0.5 s; given up after 3"):
        fetch(card(server, **known()), tmp_path)


def test_server_errors_pass_and_missing_files_do_not(server, tmp_path):
    server.faults["/set/x"] = [500, 503, "good"]
    fetch(card(server, **known()), tmp_path)
    assert [asked.status for asked in server.log] == [500, 503, 200]
    server.log.clear()
    with pytest.raises(DataError, match=r"/none/x: HTTP 404 Not Found"):
        fetch(card(server, "/none/x", save="y"), tmp_path)
    assert len(server.log) == 1


def test_waits_grow(server, tmp_path):
    server.faults["/set/x"] = [500] * 3
    watch = fetch(card(server, **known()), tmp_path, patience=Patience(timeout=1.0, retries=3, wait=0.01))
    assert [line.rpartition(" in ")[2] for line in watch.lines[:3]] == ["0.01 s", "0.02 s", "0.04 s"]


def test_nobody_there(tmp_path):
    with serving() as gone:
        pass
    with pytest.raises(DataError, match="Connection refused; given up after 3 attempts"):
        fetch(card(gone, **known()), tmp_path)


def test_a_server_that_ignores_ranges_starts_anew(server, tmp_path):
    server.faults["/set/x"] = [("cut", 1_000_000), "plain"]
    fetch(card(server, **known()), tmp_path)
    assert (tmp_path / "set/x").read_bytes() == BODY
    assert ranges(server) == [(200, None), (200, "bytes=1000000-")]


def test_a_wrong_range_starts_anew(server, tmp_path):
    server.faults["/set/x"] = [("cut", 1_000_000), "shifted"]
    fetch(card(server, **known()), tmp_path)
    assert (tmp_path / "set/x").read_bytes() == BODY
    assert ranges(server) == [(200, None), (206, "bytes=1000000-"), (200, None)]


@pytest.mark.parametrize("heeds", [True, False])
def test_a_file_that_changed_is_taken_whole(server, tmp_path, heeds):
    """No sum is known: only the ETag keeps two versions from being joined."""
    server.heed_if_range = heeds
    server.faults["/set/x"] = [("cut", 1_000_000)] * 3
    with pytest.raises(DataError):
        fetch(card(server), tmp_path, patience=Patience(0.5, 0, 0.01))
    server.faults.clear()
    changed = bytes(reversed(BODY))
    server.served["/set/x"] = changed
    fetch(card(server), tmp_path)
    assert (tmp_path / "set/x").read_bytes() == changed
    rest = "bytes=1000000-"
    assert ranges(server)[1:] == ([(200, rest)] if heeds else [(206, rest), (200, None)])


def test_without_etag_and_sum_nothing_is_joined(server, tmp_path):
    server.validators = False
    server.faults["/set/x"] = [("cut", 1_000_000)]
    fetch(card(server), tmp_path)
    assert ranges(server) == [(200, None), (200, None)]


def test_pieces_of_two_versions_are_found_out_by_the_sum(server, tmp_path):
    server.validators = False
    server.served["/set/x"] = bytes(reversed(BODY))
    server.faults["/set/x"] = [("cut", 1_000_000), 404]
    with pytest.raises(DataError):
        fetch(card(server, **known()), tmp_path)
    server.served["/set/x"] = BODY
    watch = fetch(card(server, **known()), tmp_path)
    assert (tmp_path / "set/x").read_bytes() == BODY
    assert ranges(server)[2:] == [(206, "bytes=1000000-"), (200, None)]
    assert "taken again from the start" in watch.lines[0]


def test_an_unknown_sum_is_told(server, tmp_path):
    watch = fetch(card(server), tmp_path)
    assert sha(BODY) in watch.lines[-1]
    assert "no sum to compare" in watch.lines[-1]
    assert "no sum is known" in fetch(card(server), tmp_path).lines[-1]


def test_a_packed_file_without_a_sum_must_unpack(server, tmp_path):
    packed = bz2.compress(BODY[:100_000])
    server.served["/set/x.bz2"] = packed[:-20]
    with pytest.raises(DataError, match="does not unpack"):
        fetch(card(server, "/set/x.bz2", save="x.bz2"), tmp_path)
    server.served["/set/x.bz2"] = packed
    watch = fetch(card(server, "/set/x.bz2", save="x.bz2"), tmp_path)
    assert sha(packed) in watch.lines[-1]
    assert sha(BODY[:100_000]) in watch.lines[-1]


@pytest.mark.parametrize("save", ["y", "y.gz"])
def test_a_page_is_no_file(server, tmp_path, save):
    server.served["/set/x"] = b"\n<!DOCTYPE html><p>We have moved"
    with pytest.raises(DataError, match="is a web page"):
        fetch(card(server, save=save), tmp_path)
    server.served["/set/x"] = b""
    with pytest.raises(DataError, match="is empty"):
        fetch(card(server, save=save), tmp_path)
    server.served["/set/x"] = b"1 3:1\n"
    if save == "y.gz":
        with pytest.raises(DataError, match="is no packed file, not gzip"):
            fetch(card(server, save=save), tmp_path)


def test_the_sum_of_the_text_is_enough(server, tmp_path):
    server.served["/set/x.gz"] = gzip.compress(BODY)
    figures = {"text_bytes": len(BODY), "text_sha256": sha(BODY)}
    watch = fetch(card(server, "/set/x.gz", save="x.gz", **figures), tmp_path)
    assert f"the packed file's sha256 is {sha(server.served['/set/x.gz'])}" in watch.lines[-1]
    assert fetch(card(server, "/set/x.gz", save="x.gz", **figures), tmp_path).lines[-1].endswith("have it")
    server.served["/set/x.gz"] = gzip.compress(BODY + b"\n")
    with pytest.raises(DataError, match=f"unpacked: 3000001 bytes, the card says 3000000; sha256 .*{sha(BODY)}"):
        fetch(card(server, "/set/x.gz", save="z.gz", **figures), tmp_path)


def test_decompress(server, tmp_path):
    server.served["/set/x.bz2"] = bz2.compress(b"1 1:1\n")
    what = card(server, "/set/x.bz2", save="x.bz2")
    fetch(what, tmp_path, decompress=True)
    assert names(tmp_path) == ["x", "x.bz2"]
    assert (tmp_path / "set/x").read_bytes() == b"1 1:1\n"
    assert fetch(what, tmp_path, decompress=True).lines[-1] == f"{tmp_path}/set/x: have it"
    (tmp_path / "set/x").write_bytes(b"mine\n")
    with pytest.raises(DataError, match=r"is not what x.bz2 holds"):
        fetch(what, tmp_path, decompress=True)
    assert (tmp_path / "set/x").read_bytes() == b"mine\n"
    assert names(tmp_path) == ["x", "x.bz2"]
    fetch(what, tmp_path, decompress=True, overwrite=True)
    assert (tmp_path / "set/x").read_bytes() == b"1 1:1\n"


def test_words_of_a_server_give_the_terminal_no_orders():
    from mpi_opt.datasets.web import printable

    assert printable("Not \x1b[2JFound\r\n") == "Not ?[2JFound??"


def test_redirects(server, tmp_path):
    server.faults["/away/x"] = [("go", f"{server.address}/set/x")]
    server.served["/away/x"] = b""
    fetch(card(server, "/away/x", **known()), tmp_path)
    assert (tmp_path / "set/x").read_bytes() == BODY
    for target in ("file:///etc/passwd", "ftp://127.0.0.1/x", "data:,x"):
        server.faults["/away/x"] = [("go", target)]
        with pytest.raises(DataError, match=r"not followed|not allowed"):
            fetch(card(server, "/away/x", save="y"), tmp_path)
    assert names(tmp_path) == ["x"]


def test_https_is_not_left():
    from urllib.request import Request

    from mpi_opt.datasets import web

    (handler,) = [one for one in web.opener().handlers if isinstance(one, web._Redirects)]
    closed = types.SimpleNamespace(close=lambda: None)
    with pytest.raises(web.RefusedError, match="from https that is not followed"):
        handler.redirect_request(Request("https://h/x"), closed, 302, "", {}, "http://h/x")
    assert handler.redirect_request(Request("http://h/x"), closed, 302, "", {}, "https://h/x").type == "https"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate with")
def test_a_certificate_that_nobody_vouches_for_is_refused_at_once(tmp_path):
    pem = tmp_path / "self.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", pem, "-out", tmp_path / "certificate.pem"]
    subprocess.run(words, capture_output=True, timeout=30, check=True)
    pem.write_text(pem.read_text() + (tmp_path / "certificate.pem").read_text())
    with serving(certificate=pem) as server:
        server.served["/set/x"] = BODY
        with pytest.raises(DataError, match="CERTIFICATE_VERIFY_FAILED") as told:
            fetch(card(server, **known()), tmp_path)
    assert "attempts" not in str(told.value)


def test_mirrors(server, tmp_path):
    there = tmp_path / "a folder"
    (there / "set").mkdir(parents=True)
    (there / "set/x").write_bytes(BODY)
    fetch(card(server, **known()), tmp_path / "1", mirror=str(there / "set"))
    fetch(card(server, **known()), tmp_path / "2", mirror=there.as_uri())
    fetch(card(server, "/gone/published", **known()), tmp_path / "3", mirror=f"{server.address}/set/")
    for number in "123":
        assert (tmp_path / number / "set/x").read_bytes() == BODY
    assert [asked.path for asked in server.log] == ["/set/published", "/set/x"]
    for wrong in ("ftp://h/x", "file://h/x", "gopher://x", "https://", "http://h/a b", "http://h/?a", "no/such/folder"):
        with pytest.raises(JobError, match="mirror"):
            Fetching(tmp_path, mirror=wrong)


def test_folders_that_cannot_be_written(server, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"x.part: cannot be written: (Not a directory|File exists)"):
        fetch(card(server, **known()), tmp_path / "file")
    (tmp_path / "set" / "x").mkdir(parents=True)
    with pytest.raises(DataError, match="is in the way"):
        fetch(card(server, **known()), tmp_path)
    if os.geteuid():
        (tmp_path / "locked").mkdir(mode=0o500)
        with pytest.raises(DataError, match="Permission denied"):
            fetch(card(server, **known()), tmp_path / "locked")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk(server, tmp_path, monkeypatch):
    class Full(part.Part):
        def write(self, data):
            if self.size > 1_000_000:
                with open("/dev/full", "wb", buffering=0) as full:
                    try:
                        full.write(data)
                    except OSError as error:
                        raise part._unwritable(self.path, error) from error
            super().write(data)

    with monkeypatch.context() as patch:
        patch.setattr(fetching, "Part", Full)
        with pytest.raises(DataError, match="x.part: cannot be written: No space left on device"):
            fetch(card(server, **known()), tmp_path)
    assert names(tmp_path) == ["x.part", "x.state"]
    fetch(card(server, **known()), tmp_path)
    assert server.log[-1].status == 206
    with monkeypatch.context() as patch:
        patch.setattr("shutil.disk_usage", lambda _: types.SimpleNamespace(free=10))
        with pytest.raises(DataError, match="needs 3000000 more bytes, but .* has only 10 left"):
            fetch(card(server, save="y", **known()), tmp_path)


def test_a_failing_write_is_told_by_errno(tmp_path):
    with part.Part(tmp_path / "x") as mine:
        mine.write(b"1")
        real, mine._file = mine._file, types.SimpleNamespace(write=_no_space, close=lambda: None)
        with pytest.raises(DataError, match="No space left"):
            mine.write(b"2")
        real.close()


def _no_space(_data):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_two_at_once(server, tmp_path):
    with part.Part(tmp_path / "set" / "x"), pytest.raises(DataError, match="another process is fetching"):
        fetch(card(server, **known()), tmp_path)


def test_other_files_are_fetched_all_the_same(server, tmp_path):
    first, second = card(server, "/none/y", save="y"), card(server, **known())
    both = Card(
        **{name: getattr(first, name) for name in first.__struct_fields__} | {"files": first.files + second.files}
    )
    with pytest.raises(DataError, match="404"):
        fetch(both, tmp_path)
    assert names(tmp_path) == ["x"]


# --- the command ------------------------------------------------------------------------------------------------------


HEAD = """+++
name = "set"
about = "-"
origin = "-"
licence = "-"
citation = "-"
task = "binary"
features = 3
train = {{ word = "x" }}
[[files]]
save = "x"
addresses = ["{address}/set/x"]
sha256 = "{sha256}"
+++
"""


@pytest.fixture
def card_file(server, tmp_path):
    path = tmp_path / "set.md"
    path.write_text(HEAD.format(address=server.address, sha256=sha(BODY)))
    return path


def test_killed_in_the_middle_it_takes_only_the_rest(server, card_file, tmp_path):
    server.faults["/set/x"] = [("drip", 2_000_000, 60.0)]
    words = [sys.executable, "-m", "mpi_opt", "data", "fetch", str(card_file), "--to", str(tmp_path / "raw")]
    running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    there = tmp_path / "raw/set/x.part"
    until(lambda: there.exists() and there.stat().st_size == 2_000_000)
    running.send_signal(signal.SIGKILL)
    running.communicate(timeout=20)
    assert not (tmp_path / "raw/set/x").exists()
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "raw/set/x").read_bytes() == BODY
    assert [asked.sent for asked in server.log] == [2_000_000, 1_000_000]


def test_the_command(server, card_file, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["data", "fetch", str(card_file)]) == 0
    assert (tmp_path / "data/raw/set/x").read_bytes() == BODY
    assert cli.main(["data", "fetch", str(card_file), "--list"]) == 0
    told = capsys.readouterr().out
    assert "x: size not known, sum known, http://127.0.0.1" in told
    server.served["/set/x"] = b"other"
    assert cli.main(["data", "fetch", str(card_file), "--to", "elsewhere"]) == 3


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "no CARD"),
        (["../no/such.md"], 2, "there is no such file"),
        (["x", "--timeout", "0"], 2, "allowed: a number of seconds > 0"),
        (["x", "--timeout", "inf"], 2, "allowed: a number of seconds > 0"),
        (["x", "--retries", "-1"], 2, "--retries"),
        (["x", "--retries", "x"], 2, "allowed: an integer"),
        (["CARD", "--from", "ftp://h/"], 2, "mirror 'ftp://h/'"),
    ],
)
def test_wrong_words(card_file, capsys, words, code, message):
    words = [str(card_file) if word == "CARD" else word for word in words]
    assert cli.main(["data", "fetch", *words]) == code
    assert message in capsys.readouterr().err


def test_one_process_only(card_file, capsys, monkeypatch):
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.setenv("PMI_RANK", "0")
    assert cli.main(["data", "fetch", str(card_file)]) == 4
    assert "runs in one process" in capsys.readouterr().err


def test_what_is_shown(server, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "_BETWEEN_LINES", 0.0)
    how = Fetching(tmp_path, patience=QUICK)
    fetch_card(card(server, **known()), how, command._Lines())
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2] == "x.part: 3.0 of 3.0 MB (100%)"
    fetch_card(card(server, save="y", **known()), how, command._Bar())
    assert "3.00M" in capsys.readouterr().err


# --- real sets --------------------------------------------------------------------------------------------------------


CARDS = Path(__file__).resolve().parents[2] / "data"


def test_a9a_as_published_is_read_by_its_word(server, datasets, tmp_path):
    for name in ("a9a", "a9a.t"):
        server.served[f"/binary/{name}"] = bz2.decompress((datasets / "a9a" / f"{name}.bz2").read_bytes())
    words = ["data", "fetch", str(CARDS / "a9a.md"), "--from", f"{server.address}/binary", "--to", str(tmp_path)]
    assert cli.main(words) == 0
    for name, size in (("a9a", 2329875), ("a9a.t", 1164628)):
        found = resolve(name, [tmp_path])
        assert found.paths == (tmp_path / "a9a" / name,)
        assert found.sizes == (size,)


def test_a_fetched_set_trains(server, datasets, tmp_path):
    from support.commands import simulate

    for path in (datasets / "mnist").glob("*.gz"):
        server.served[f"/mnist/{path.name}"] = path.read_bytes()
    server.served["/binary/mushrooms"] = bz2.decompress((datasets / "mushrooms/mushrooms.bz2").read_bytes())
    raw = tmp_path / "raw"
    for name, folder in (("mnist", "mnist"), ("mushrooms", "binary")):
        words = [str(CARDS / f"{name}.md"), "--from", f"{server.address}/{folder}", "--to", str(raw)]
        assert cli.main(["data", "fetch", *words]) == 0
    assert resolve("mnist.t", [raw]).images == raw / "mnist/t10k-images-idx3-ubyte.gz"
    job = tmp_path / "job.toml"
    job.write_text(
        'name = "fetched"\n[data]\ntrain = "mushrooms"\n[problem]\nloss = "logistic"\n[algorithm]\n'
        'name = "local-newton"\n[stop]\nrounds = 2\n'
    )
    simulate(job, 2, tmp_path / "run", env={**os.environ, "MPI_OPT_DATASETS": str(raw)})


def test_packed_sets_of_the_folder_itself(datasets, tmp_path, capsys):
    """The folder of data sets is a mirror for those that it holds as published."""
    words = [str(CARDS / "mnist.md"), str(CARDS / "news20.md"), "--from", str(datasets), "--to", str(tmp_path)]
    assert cli.main(["data", "fetch", *words]) == 3
    told = capsys.readouterr()
    assert "news20.t.bz2: could not be fetched" in told.err
    assert told.out.count("as the card says") == 5
