"""predict on tables and arrays, with labels and without."""

from pathlib import Path

import numpy as np
import pytest

from mpi_opt import cli, launch
from mpi_opt.model import save_model


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    for name in launch.KNOWN_VARIABLES:
        if not name.endswith("_NUM_THREADS"):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(launch, "running_world", lambda: None)
    monkeypatch.setattr("mpi_opt.commands.predict.quiet_pipes", lambda: None)
    monkeypatch.chdir(tmp_path)


def predict(capsys, *arguments):
    """Return exit code, standard output and errors of the command."""
    code = cli.main(["predict", "m.h5", *arguments])
    return code, *capsys.readouterr()


@pytest.mark.parametrize("label", ['"class"', "-1"])
def test_tables_with_and_without_labels(label, capsys):
    rng = np.random.default_rng(3)
    x, weights = rng.normal(size=(9, 3)), rng.normal(size=3)
    job = f'[data]\nlabel = {label}\nlabels = ["no", "yes"]\n'
    facts = {"features": 3, "intercept": False, "index_base": 0, "l2": 0.1, "job": job, "provenance": {}}
    save_model("m.h5", weights, loss="logistic", labels={0.0: -1.0, 1.0: 1.0}, **facts)
    lines = [",".join(map(repr, row)) for row in x.tolist()]
    Path("with.csv").write_text("\n".join(["a,b,c,class", *(line + ",yes" for line in lines)]))
    Path("without.csv").write_text("\n".join(["a,b,c", *lines]))
    np.save("X.npy", x)
    np.savez("X.npz", X=x)
    for words in (["with.csv"], ["without.csv", "--no-label"], ["X.npy", "--no-label"], ["X.npz", "--no-label"]):
        code, out, err = predict(capsys, *words, "--what", "score")
        assert (code, "columns parted by commas" in err) == (0, words[0].endswith("csv"))
        np.testing.assert_allclose(np.loadtxt(out.splitlines()), x @ weights, rtol=1e-12, atol=1e-14)
    assert predict(capsys, "with.csv")[1].split() == [f"{float(z > 0):g}" for z in x @ weights]
    # a feature is not taken for the label in silence, nor the label for a feature
    assert predict(capsys, "without.csv")[0] == 3
    assert predict(capsys, "with.csv", "--no-label")[0] == 3
    Path("text").write_text("0 1:2\n")
    code, _, err = predict(capsys, "text", "--no-label")
    assert (code, "only tables" in err) == (3, True)
    code, _, err = predict(capsys, "with.csv", "--no-label", "--label", "a")
    assert (code, "beside --no-label" in err) == (2, True)
