"""The batch file as text: golden files, quoting that holds, and what shellcheck and bash make of it."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpi_opt.errors import JobError
from mpi_opt.site import Site, load_site
from mpi_opt.slurm import Batch, as_limit, batch_text, comment, seconds_of

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "slurm"

PLAIN = Batch(
    name="a9a-sparq",
    folder=Path("/home/me/runs/a9a-sparq"),
    about=(
        "a9a-sparq: sparq-sgd. Written by:",
        "  mpi-opt submit jobs/a9a-sparq.toml --nodes 2 --ntasks 8 --time 1:00:00",
    ),
    nodes=2,
    ntasks=8,
    seconds=3600,
    site=Site(),
    launcher="srun",
    command=("/home/me/venv/bin/mpi-opt",),
    signal_ahead=120,
)
CASES = {
    "plain": PLAIN,
    "site": replace(
        PLAIN,
        site=load_site(ROOT / "slurm" / "site" / "example.toml"),
        command=("mpi-opt",),
        signal_ahead=180,
        requeue=10,
        dependency="afterok:123:124",
    ),
    "mpirun": replace(
        PLAIN, nodes=3, site=load_site(ROOT / "slurm" / "site" / "openmpi.toml"), launcher="mpirun", signal_ahead=None
    ),
    "sweep": replace(
        PLAIN,
        folder=Path("/home/me/runs/50% done, \"so\" to 'say' #1"),
        site=Site(signal_to="steps", sbatch=("--mail-user=me@here", "--comment=two words")),
        sweep=(("seed=1", "algorithm.sync_every=5"), ("seed=2", "algorithm.sync_every=5")),
        array_limit=4,
        requeue=2,
    ),
}
HOSTILE = [
    "a b",
    "a'b",
    'a"b',
    "$(touch canary)",
    "`touch canary`",
    "a;touch canary",
    "#x",
    "!x",
    "*",
    "~",
    "\\",
    "é",
    "",
]


@pytest.mark.parametrize("name", CASES)
def test_text_is_that_of_the_golden_file(name):
    path, text = GOLDEN / f"{name}.sbatch", batch_text(CASES[name])
    if os.environ.get("MPI_OPT_WRITE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text(), f"if the change is meant, write {path.name} anew with MPI_OPT_WRITE_GOLDEN=1"


SCRIPTS = [
    *ROOT.glob("slurm/**/*.sbatch"),
    *GOLDEN.glob("*.sbatch"),
    *ROOT.glob("tests/slurm/*.sh"),
    ROOT / ".ci" / "run",
    *ROOT.glob(".ci/*.sh"),
]


@pytest.mark.parametrize("path", sorted(SCRIPTS), ids=lambda path: str(path.relative_to(ROOT)))
def test_shellcheck_finds_nothing(path):
    if shutil.which("shellcheck") is None:
        assert not os.environ.get("CI"), "CI is to have shellcheck: see .ci/run"
        pytest.skip("shellcheck is not installed (Debian: apt-get install shellcheck)")
    # SC1090, SC1091: what a site sources is not here to be looked into.
    command = ["shellcheck", "--shell=bash", "--exclude=SC1090,SC1091", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


# --- run by bash, with a stand-in for srun ----------------------------------------------------------------------------

RECORD = """#!/bin/bash
printf '%s\\0' "$@" >"$RECORD"
printf '%s\\0' "${ODD-unset}" >"$RECORD.env"
exit "${CODE:-0}"
"""


def run(batch, tmp_path, **env):
    """Run the batch text with bash; return its exit code, output, srun's words, and the variable ODD as srun saw it."""
    tools = tmp_path / "tools"
    tools.mkdir(exist_ok=True)
    for name, body in (("srun", RECORD), ("scontrol", '#!/bin/bash\necho "scontrol $*"\n')):
        (tools / name).write_text(body)
        (tools / name).chmod(0o755)
    batch.folder.mkdir(parents=True, exist_ok=True)
    record = tmp_path / "record"
    environ = {"PATH": f"{tools}:{os.environ['PATH']}", "RECORD": str(record), "SLURM_JOB_ID": "7", **env}
    done = subprocess.run(
        ["bash"], input=batch_text(batch), cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=30
    )
    words = record.read_text().split("\0")[:-1] if record.exists() else []
    odd = (tmp_path / "record.env").read_text()[:-1] if record.exists() else None
    return done.returncode, done.stdout + done.stderr, words, odd


@pytest.mark.parametrize("word", HOSTILE[:-1])
def test_words_reach_the_launcher_whole(word, tmp_path):
    odd_folder = tmp_path / "runs" / ("x" if "\\" in word else word.replace("/", "_"))
    site = Site(environment={"ODD": word}, launcher_options=(word,), partition=word, sbatch=(f"--comment={word}",))
    batch = replace(PLAIN, folder=odd_folder, site=site, command=("mpi-opt", word), about=(word,))
    code, said, words, odd = run(batch, tmp_path)
    assert code == 0, said
    assert words[-7:] == [
        "mpi-opt",
        word,
        "run",
        f"{odd_folder}/submitted.toml",
        "--out",
        str(odd_folder),
        "--overwrite",
    ]
    assert words[-8] == word
    assert odd == word
    assert (odd_folder / "slurm-job.txt").read_text() == "7\n"
    assert not (tmp_path / "canary").exists()


@settings(max_examples=25)
@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=20))
def test_any_text_of_one_line_is_a_value(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("any")
    batch = replace(PLAIN, folder=folder / "run", site=Site(environment={"ODD": text}), about=(text,))
    code, said, _, odd = run(batch, folder)
    assert (code, odd) == (0, text), said


@settings(max_examples=100)
@given(st.text(max_size=30))
def test_a_comment_stays_one_line(text):
    line = comment(text)
    assert line.startswith("# ")
    assert len(f"x{line}x".splitlines()) == 1


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=30))
def test_a_directive_is_read_as_one_word(text):
    lines = batch_text(replace(PLAIN, site=Site(partition=text))).splitlines()
    (read,) = [words[0] for words in map(as_sbatch_reads, lines) if words and words[0].startswith("--partition=")]
    assert read == f"--partition={text}"


def as_sbatch_reads(line):
    """Return the words of a directive: blanks separate, '#' ends, quotes join, and a backslash counts in quotes too."""
    if not line.startswith("#SBATCH"):
        return []
    words, word, quote, begun, letters = [], "", "", False, iter(line.removeprefix("#SBATCH"))
    for letter in letters:
        if letter == "\\":
            word, begun = word + next(letters), True
        elif quote:
            quote, word = ("", word) if letter == quote else (quote, word + letter)
        elif letter in "\"'":
            quote, begun = letter, True
        elif letter.isspace() or letter == "#":
            words += [word] if begun else []
            word, begun = "", False
            if letter == "#":
                break
        else:
            word, begun = word + letter, True
    return [*words, word] if begun else words


def test_line_breaks_are_refused(tmp_path):
    for folder in ("a\nb", "a\rb", "a\x1bb", "a\u2028b"):
        with pytest.raises(JobError, match="the folder|an option of sbatch"):
            batch_text(replace(PLAIN, folder=Path("/runs") / folder))
    with pytest.raises(JobError, match="without backslashes"):
        batch_text(replace(PLAIN, folder=Path("/runs/a\\b")))
    with pytest.raises(JobError, match="dependency"):
        batch_text(replace(PLAIN, dependency="singleton\n#SBATCH --uid=0"))
    for key, value in (("partition", '"a\\nb"'), ("modules", '["a\\nb"]'), ("environment.X", '"a\\nb"')):
        (tmp_path / "site.toml").write_text(f"{key} = {value}\n")
        with pytest.raises(JobError, match="holds a line break"):
            load_site(tmp_path / "site.toml")


@pytest.mark.parametrize(
    ("code", "restarts", "requeue", "requeued"),
    [
        (0, "", 2, False),
        (75, "", 2, True),
        (75, "1", 2, True),
        (75, "2", 2, False),
        (75, "", 0, False),
        (6, "", 2, False),
    ],
)
def test_code_75_goes_back_into_the_queue_within_the_limit(code, restarts, requeue, requeued, tmp_path):
    batch = replace(PLAIN, folder=tmp_path / "run", requeue=requeue)
    env = {"SLURM_RESTART_COUNT": restarts} if restarts else {}
    ended, said, *_ = run(batch, tmp_path, CODE=str(code), **env)
    assert ended == code
    assert ("scontrol requeue 7" in said) == requeued
    assert ("go on with:" in said) == (code == 75 and not requeued)


def test_a_run_that_has_begun_is_resumed(tmp_path):
    batch = replace(PLAIN, folder=tmp_path / "run")
    batch.folder.mkdir()
    (batch.folder / "job.toml").touch()
    assert run(batch, tmp_path)[2][-2:] == ["resume", str(batch.folder)]


def test_a_member_of_a_sweep_has_its_own_folder(tmp_path):
    batch = replace(PLAIN, folder=tmp_path / "a b", sweep=(("seed=1",), ("seed=2",)))
    (tmp_path / "a b" / "a9a-sparq-1").mkdir(parents=True)
    _, said, words, _ = run(batch, tmp_path, SLURM_ARRAY_JOB_ID="6", SLURM_ARRAY_TASK_ID="1")
    assert str(tmp_path / "a b" / "a9a-sparq-1") in words, said
    assert (tmp_path / "a b" / "a9a-sparq-1" / "slurm-job.txt").read_text() == "6_1\n"


# --- times, profiles --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800), ("0:30", 30), ("1:30:00", 5400), ("1-0", 86400), ("2-1:30", 178200), ("1-00:00:01", 86401),
    ],
)  # fmt: skip
def test_times_as_slurm_reads_them(text, seconds):
    assert seconds_of(text) == seconds
    assert seconds_of(as_limit(seconds)) == seconds


@pytest.mark.parametrize("text", ["", "0", "0:00", "x", "1:2:3:4", "-1", "1-", "1.5", "1h", "UNLIMITED"])
def test_other_times_are_refused(text):
    with pytest.raises(JobError, match="--time"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("partion = 'x'", "partion: unknown key; did you mean 'partition'?"),
        ("launcher = 'mpiexec'", 'launcher = "mpiexec": allowed: srun, mpirun'),
        ("mem = '8 GB'", "allowed: a size such as"),
        ("mem = '8G'\nmem_per_cpu = '1G'", "not together with mem"),
        ("requeue = -1", "an integer >= 0"),
        ("signal_ahead = 0", "an integer >= 1"),
        ("sbatch = ['exclusive']", "options, each with its dashes"),
        ("environment = { 'A B' = 'x' }", "environment.A B: no name of a variable"),
        ("account = ''", "a text of one line, not empty"),
        ("modules = 'mpich'", "a list of texts"),
        ("modules = [", "not valid TOML"),
    ],
)
def test_wrong_profiles_are_refused(text, said, tmp_path):
    path = tmp_path / "site.toml"
    path.write_text(text)
    with pytest.raises(JobError) as refused:
        load_site(path)
    assert said in str(refused.value)
    assert str(path) in str(refused.value)


def test_a_profile_that_is_not_there_is_named(tmp_path):
    with pytest.raises(JobError, match=r"none\.toml.*No such file"):
        load_site(tmp_path / "none.toml")


def test_the_profiles_that_come_along_are_right():
    for path in (*ROOT.glob("slurm/site/*.toml"), ROOT / "tests" / "slurm" / "site.toml"):
        load_site(path)


def test_the_guide_names_every_key():
    guide = (ROOT / "docs" / "slurm.md").read_text()
    example = (ROOT / "slurm" / "site" / "example.toml").read_text()
    for key in Site.__struct_fields__:
        assert f"`{key}`" in guide, key
        assert key in example, key
