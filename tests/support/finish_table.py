"""LocalNewton with each finish, measured; printed by `support/finish_rounds.py`."""

from support.finish_rounds import Course, Size

SIZES = {
    ("a9a", 16): Size(dim=123, rows=2035.0625, nonzeros=28224.5),
    ("a9a", 100): Size(dim=123, rows=325.61, nonzeros=4515.92),
    ("ijcnn1", 16): Size(dim=22, rows=3124.375, nonzeros=40616.875),
    ("ijcnn1", 100): Size(dim=22, rows=499.9, nonzeros=6498.7),
    ("w8a", 16): Size(dim=300, rows=3109.3125, nonzeros=36224.125),
    ("w8a", 100): Size(dim=300, rows=497.49, nonzeros=5795.86),
}

COURSES = {
    ("a9a", 16, "giant"): Course(
        reached=True,
        sums=((16, 1), (88, 9), (992, 8), (1000, 8), (1976, 1), (1984, 2), (2968, 1)),
        rounds=20,
        work={"gradient": 20, "hessian": 18, "line": 18, "value": 11},
    ),
    ("a9a", 16, "newton"): Course(
        reached=True,
        sums=((16, 1), (1984, 1), (62008, 3)),
        rounds=4,
        work={"gradient": 7, "hessian": 6, "line": 3, "value": 4},
    ),
    ("a9a", 16, "newton-cg"): Course(
        reached=True,
        sums=((16, 1), (984, 48), (1984, 7)),
        rounds=55,
        work={"gradient": 10, "hessian": 3, "line": 3, "product": 48, "value": 13},
    ),
    ("a9a", 100, "giant"): Course(
        reached=True,
        sums=((16, 1), (88, 11), (992, 10), (1000, 10), (1976, 1), (1984, 2), (2968, 1)),
        rounds=24,
        work={"gradient": 22, "hessian": 20, "line": 20, "value": 13},
    ),
    ("a9a", 100, "newton"): Course(
        reached=True,
        sums=((16, 1), (1984, 1), (62008, 3)),
        rounds=4,
        work={"gradient": 7, "hessian": 6, "line": 3, "value": 4},
    ),
    ("a9a", 100, "newton-cg"): Course(
        reached=True,
        sums=((16, 1), (984, 59), (1984, 7)),
        rounds=66,
        work={"gradient": 10, "hessian": 3, "line": 3, "product": 59, "value": 13},
    ),
    ("ijcnn1", 16, "giant"): Course(
        reached=True,
        sums=((16, 1), (88, 1), (360, 1), (368, 3), (544, 1)),
        rounds=5,
        work={"gradient": 16, "hessian": 13, "line": 13, "value": 4},
    ),
    ("ijcnn1", 16, "newton"): Course(
        reached=True,
        sums=((16, 1), (368, 1), (2216, 3)),
        rounds=4,
        work={"gradient": 7, "hessian": 6, "line": 3, "value": 4},
    ),
    ("ijcnn1", 16, "newton-cg"): Course(
        reached=True,
        sums=((16, 1), (176, 21), (368, 5)),
        rounds=26,
        work={"gradient": 8, "hessian": 3, "line": 3, "product": 21, "value": 9},
    ),
    ("ijcnn1", 100, "giant"): Course(
        reached=True,
        sums=((16, 1), (88, 3), (184, 2), (192, 2), (360, 1), (368, 2), (544, 1)),
        rounds=8,
        work={"gradient": 14, "hessian": 12, "line": 12, "value": 5},
    ),
    ("ijcnn1", 100, "newton"): Course(
        reached=True,
        sums=((16, 1), (368, 1), (2216, 2)),
        rounds=3,
        work={"gradient": 6, "hessian": 5, "line": 3, "value": 3},
    ),
    ("ijcnn1", 100, "newton-cg"): Course(
        reached=True,
        sums=((16, 1), (176, 21), (368, 5)),
        rounds=26,
        work={"gradient": 8, "hessian": 3, "line": 3, "product": 21, "value": 9},
    ),
    ("w8a", 16, "giant"): Course(
        reached=True,
        sums=((16, 1), (88, 8), (2408, 7), (2416, 7), (4808, 1), (4816, 3), (7216, 1)),
        rounds=19,
        work={"gradient": 23, "hessian": 20, "line": 20, "value": 11},
    ),
    ("w8a", 16, "newton"): Course(
        reached=True,
        sums=((16, 1), (4816, 1), (363616, 6)),
        rounds=7,
        work={"gradient": 10, "hessian": 9, "line": 3, "value": 7},
    ),
    ("w8a", 16, "newton-cg"): Course(
        reached=True,
        sums=((16, 1), (2400, 29), (4816, 8)),
        rounds=37,
        work={"gradient": 11, "hessian": 3, "line": 3, "product": 29, "value": 15},
    ),
    ("w8a", 100, "giant"): Course(
        reached=True,
        sums=((16, 1), (88, 39), (2408, 38), (2416, 38), (4808, 1), (4816, 3), (7216, 1)),
        rounds=81,
        work={"gradient": 54, "hessian": 51, "line": 51, "value": 42},
    ),
    ("w8a", 100, "newton"): Course(
        reached=True,
        sums=((16, 1), (4816, 1), (363616, 6)),
        rounds=7,
        work={"gradient": 10, "hessian": 9, "line": 3, "value": 7},
    ),
    ("w8a", 100, "newton-cg"): Course(
        reached=True,
        sums=((16, 1), (2400, 27), (4816, 8)),
        rounds=35,
        work={"gradient": 11, "hessian": 3, "line": 3, "product": 27, "value": 15},
    ),
}
