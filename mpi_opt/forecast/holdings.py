"""What the nodes hold: rows, entries, labels, features."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpi_opt.build import Built
from mpi_opt.datasets.survey import survey
from mpi_opt.forecast.spread import Spread
from mpi_opt.network.collectives import Solo
from mpi_opt.words import number_text

_SHOWN = 10
"""Labels named in a line."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """Counts of a job's training rows, as they are dealt.

    Attributes
    ----------
    rows, nonzeros, features, labels : Spread
        Of each node: rows, stored (dense: non-zero) entries, features that occur, distinct labels.
    occurring : int
        Features that occur on some node.
    counts : mapping of float to int, or None
        Label in the file -> rows of all nodes; ``None`` for regression.
    one_class : float
        Share of the rows that lie on nodes whose labels are all the same; 0 for regression.
    """

    rows: Spread
    nonzeros: Spread
    features: Spread
    labels: Spread
    occurring: int
    counts: Mapping[float, int] | None
    one_class: float


def holdings(built: Built) -> Holdings:
    """Count what all nodes hold; they are all in this process."""
    shards, info = built.loaded.train, built.loaded.info
    found = survey(shards, range(len(shards)), info.features, Solo())
    kinds = [np.unique(shard.labels, return_counts=True) for shard in shards]
    counts = None
    if info.labels is not None:
        counts = dict.fromkeys(info.labels, 0)
        names = {used: name for name, used in info.labels.items()}
        for labels, rows in kinds:
            for label, number in zip(labels.tolist(), rows.tolist(), strict=True):
                counts[names[label]] += number
    alone = float(found.rows[~found.mixed].sum()) / max(info.rows, 1)
    return Holdings(
        rows=Spread.of(found.rows.tolist()),
        nonzeros=Spread.of(found.nonzeros.tolist()),
        features=Spread.of(found.held.tolist()),
        labels=Spread.of([labels.size for labels, _ in kinds]),
        occurring=found.occurring,
        counts=counts,
        one_class=0.0 if counts is None else alone,
    )


def described(built: Built, held: Holdings) -> dict[str, Any]:
    """Return the data's part of the forecast as JSON values."""
    loaded, info = built.loaded, built.loaded.info
    job = built.job
    test = loaded.test_info
    return {
        "name": info.name,
        "rows": info.rows,
        "features": info.features,
        "nonzeros": info.nonzeros,
        "storage": "csr" if info.sparse else "dense",
        "features_that_occur": held.occurring,
        "test": None if test is None else {"name": test.name, "rows": test.rows},
        "partition": job.data.partition.name,
        "intercept": job.data.intercept,
        "labels": None
        if info.labels is None or held.counts is None
        else [
            {"label": label, "used_as": used, "rows": held.counts[label], "weight": _weight(built, label)}
            for label, used in info.labels.items()
        ],
        "prepare": {"columns": job.prepare.columns, "centered": built.preparation.shift is not None}
        | {"rows": job.prepare.rows},
        "l2": built.l2,
    }


def _weight(built: Built, label: float) -> float:
    return 1.0 if built.class_weights is None else float(built.class_weights.get(label, 1.0))


def lines(data: Mapping[str, Any], held: Holdings) -> list[str]:
    """Return that part as lines of text."""
    kind = {"csr": "CSR", "dense": "dense"}[data["storage"]]
    text = [
        f"data         {data['name']}: {data['rows']} rows x {data['features']} features, {data['nonzeros']} stored "
        f"entries, {kind}"
    ]
    if data["test"] is not None:
        text.append(f"test         {data['test']['name']}: {data['test']['rows']} rows")
    done = data["prepare"]
    if done["columns"] != "none" or done["rows"] != "none":
        center = ", centred" if done["centered"] else ""
        text.append(f"prepared     columns {done['columns']}{center}, rows {done['rows']}")
    text.append(f"rows a node  {held.rows.told()}")
    text.append(f"entries      a node: {held.nonzeros.told()}")
    text.append(f"features     a node: {held.features.told()} of {held.occurring} that occur")
    if data["labels"] is not None:
        shown = data["labels"][:_SHOWN]
        more = ", ..." if len(data["labels"]) > _SHOWN else ""
        shares = [
            f"{number_text(entry['label'])} -> {entry['used_as']:g} ({entry['rows'] / data['rows']:.1%})"
            for entry in shown
        ]
        text.append(f"labels       {', '.join(shares)}{more}")
        if any(entry["weight"] != 1.0 for entry in data["labels"]):
            weights = [f"label {number_text(entry['label'])}: {entry['weight']:.4g} a row" for entry in shown]
            text.append(f"weights      {', '.join(weights)}{more}")
        text.append(f"             distinct labels a node: {held.labels.told()} of {len(data['labels'])}")
    return text
