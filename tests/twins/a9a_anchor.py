"""The a9a anchor: figures of an outside implementation, which the twins must meet before they judge others.

Four contiguous shards, full batch, step 0.5, H = 5, SignTopK 12, gamma 0.2, ring with Metropolis weights, l2 = 1/N, no
intercept, 200 steps from zero. a9a has exactly tied columns, so objectives are compared, not iterates.

``PYTHONPATH=tests python -m twins.a9a_anchor FILE`` prints the figures.
"""

import sys

import numpy as np
from twins import compressors, setting, sparq_matrix, sparq_ordered

EXPECTED = {  # threshold c: (F(x_i) of the four nodes, firings among the 160 node-syncs)
    0.5: ((0.33411373344147, 0.33414151581532, 0.33417666048440, 0.33355910979617), 79),
    2.0: ((0.33454887054387, 0.33483051492708, 0.33422576254038, 0.33424101855303), 42),
}


def anchor(A, y, c, form="ordered"):
    """Return (F(x_i) of the nodes, number of firings) at threshold ``c``, by the ordered or the matrix twin."""
    n, N = 4, len(y)
    shards = setting.contiguous(A, y, n)
    W = setting.metropolis(n, setting.ring(n))
    twin, graph = (sparq_matrix, W) if form == "matrix" else (sparq_ordered, setting.rows_of(W))
    run = twin.sparq(
        setting.gradients("logistic", shards, 1 / N),
        graph,
        np.zeros((n, A.shape[1])),
        steps=200,
        step_size=setting.constant(0.5),
        sync_every=5,
        threshold=setting.constant(c),
        compress=compressors.always(compressors.sign_top_k, 12),
        consensus_rate=0.2,
    )
    F = setting.objective("logistic", shards, 1 / N)
    return [F(x) for x in run.final], int(run.fired.sum())


if __name__ == "__main__":
    from sklearn.datasets import load_svmlight_file

    features, labels = load_svmlight_file(sys.argv[1])
    for c, (figures, firings) in EXPECTED.items():
        for form in ("ordered", "matrix"):
            got, fired = anchor(features, labels, c, form)
            print(c, form, fired, firings, np.abs(np.array(got) - figures).max())
