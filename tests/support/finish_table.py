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
        sums=((16, 1), (88, 9), (992, 8), (1000, 12), (1976, 1), (1984, 1)),
        rounds=22,
        work={"gradient": 20, "hessian": 20, "line": 20, "value": 13},
    ),
    ("a9a", 16, "newton"): Course(
        reached=True,
        sums=((16, 1), (1984, 1), (62008, 3)),
        rounds=4,
        work={"gradient": 6, "hessian": 6, "line": 3, "value": 4},
    ),
    ("a9a", 16, "newton-cg"): Course(
        reached=True,
        sums=((16, 1), (984, 48), (1984, 7)),
        rounds=55,
        work={"gradient": 9, "hessian": 3, "line": 3, "product": 48, "value": 13},
    ),
    ("a9a", 100, "giant"): Course(
        reached=True,
        sums=((16, 1), (88, 11), (992, 10), (1000, 15), (1976, 1), (1984, 1)),
        rounds=27,
        work={"gradient": 23, "hessian": 22, "line": 22, "value": 16},
    ),
    ("a9a", 100, "newton"): Course(
        reached=True,
        sums=((16, 1), (1984, 1), (62008, 3)),
        rounds=4,
        work={"gradient": 6, "hessian": 6, "line": 3, "value": 4},
    ),
    ("a9a", 100, "newton-cg"): Course(
        reached=True,
        sums=((16, 1), (984, 59), (1984, 7)),
        rounds=66,
        work={"gradient": 9, "hessian": 3, "line": 3, "product": 59, "value": 13},
    ),
    ("ijcnn1", 16, "giant"): Course(
        reached=True,
        sums=((16, 1), (88, 1), (192, 5), (360, 1), (368, 1)),
        rounds=7,
        work={"gradient": 15, "hessian": 15, "line": 15, "value": 6},
    ),
    ("ijcnn1", 16, "newton"): Course(
        reached=True,
        sums=((16, 1), (368, 1), (2216, 3)),
        rounds=4,
        work={"gradient": 6, "hessian": 6, "line": 3, "value": 4},
    ),
    ("ijcnn1", 16, "newton-cg"): Course(
        reached=True,
        sums=((16, 1), (176, 21), (368, 5)),
        rounds=26,
        work={"gradient": 7, "hessian": 3, "line": 3, "product": 21, "value": 9},
    ),
    ("ijcnn1", 100, "giant"): Course(
        reached=True,
        sums=((16, 1), (88, 3), (184, 2), (192, 6), (360, 1), (368, 1)),
        rounds=10,
        work={"gradient": 14, "hessian": 14, "line": 14, "value": 7},
    ),
    ("ijcnn1", 100, "newton"): Course(
        reached=True,
        sums=((16, 1), (368, 1), (2216, 2)),
        rounds=3,
        work={"gradient": 5, "hessian": 5, "line": 3, "value": 3},
    ),
    ("ijcnn1", 100, "newton-cg"): Course(
        reached=True,
        sums=((16, 1), (176, 21), (368, 5)),
        rounds=26,
        work={"gradient": 7, "hessian": 3, "line": 3, "product": 21, "value": 9},
    ),
    ("w8a", 16, "giant"): Course(
        reached=True,
        sums=((16, 1), (88, 8), (2408, 7), (2416, 13), (4808, 1), (4816, 1)),
        rounds=22,
        work={"gradient": 23, "hessian": 22, "line": 22, "value": 14},
    ),
    ("w8a", 16, "newton"): Course(
        reached=True,
        sums=((16, 1), (4816, 1), (363616, 6)),
        rounds=7,
        work={"gradient": 9, "hessian": 9, "line": 3, "value": 7},
    ),
    ("w8a", 16, "newton-cg"): Course(
        reached=True,
        sums=((16, 1), (2400, 29), (4816, 8)),
        rounds=37,
        work={"gradient": 10, "hessian": 3, "line": 3, "product": 29, "value": 15},
    ),
    ("w8a", 100, "giant"): Course(
        reached=True,
        sums=((16, 1), (88, 39), (2408, 38), (2416, 44), (4808, 1), (4816, 1)),
        rounds=84,
        work={"gradient": 54, "hessian": 53, "line": 53, "value": 45},
    ),
    ("w8a", 100, "newton"): Course(
        reached=True,
        sums=((16, 1), (4816, 1), (363616, 6)),
        rounds=7,
        work={"gradient": 9, "hessian": 9, "line": 3, "value": 7},
    ),
    ("w8a", 100, "newton-cg"): Course(
        reached=True,
        sums=((16, 1), (2400, 27), (4816, 8)),
        rounds=35,
        work={"gradient": 10, "hessian": 3, "line": 3, "product": 27, "value": 15},
    ),
}
