"""Small job files for end-to-end tests."""

JOB = """
name = "small"
seed = 3
[data]
train = "train.txt"
partition = "contiguous"
[problem]
loss = "logistic"
[algorithm]
name = "sparq-sgd"
batch = 8
step_size = 0.3
sync_every = 3
threshold = 1.0
compressor = { name = "sign-top-k", k = 2 }
consensus_rate = 0.3
[stop]
steps = 60
[metrics]
every = 20
"""


def write_libsvm(path, rows=40, features=6, seed=0):
    """Write a small two-class set; every column occurs."""
    import numpy as np

    rng = np.random.default_rng(seed)
    A = rng.normal(size=(rows, features)).round(3)
    y = np.where(A @ rng.normal(size=features) > 0, 1, -1)
    lines = [f"{label} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(row)) for label, row in zip(y, A, strict=True)]
    path.write_text("\n".join(lines) + "\n")


def write_job(folder, rows=40):
    """Write job.toml and train.txt into ``folder`` and return the job's path."""
    write_libsvm(folder / "train.txt", rows)
    job = folder / "job.toml"
    job.write_text(JOB)
    return job
