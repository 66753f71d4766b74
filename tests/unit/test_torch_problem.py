"""A module as a problem, held against autograd, against PyTorch's own optimizer, and against differences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from mpi_opt.draws import Key, Purpose
from mpi_opt.errors import DataError, JobError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

from mpi_opt.problems.torch.flat import FlatModule  # noqa: E402
from mpi_opt.problems.torch.nets import cnn, mlp, resnet20  # noqa: E402
from mpi_opt.problems.torch.problem import TorchProblem  # noqa: E402

LAYERS = {
    "linear": lambda: nn.Linear(6, 6),
    "bias-free": lambda: nn.Linear(6, 6, bias=False),
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
    "norm": lambda: nn.LayerNorm(6),
    "batch norm": lambda: nn.BatchNorm1d(6),
    "dropout": lambda: nn.Dropout(0.3),
}


def rows_of(count=11, features=6, classes=4, seed=0):
    draw = np.random.default_rng(seed)
    return draw.normal(size=(count, features)), draw.integers(0, classes, count).astype(float)


def problem_of(module, loss="softmax", *, count=11, dtype="float64", **options):
    X, y = rows_of(count)
    return TorchProblem(FlatModule(module, dtype=dtype), loss, X, y, **options)


def by_autograd(problem, x, rows, loss, seed):
    """Return the gradient of ``loss(output, rows)`` tensor by tensor, laid side by side in the order of the blocks."""
    problem.flat.load(x)
    problem.flat.module.train()
    torch.manual_seed(seed)
    X, _ = rows_of(problem.rows)
    output = problem.flat.module(torch.from_numpy(X[rows]).to(problem.flat.dtype))
    named = dict(problem.flat.module.named_parameters())
    tensors = [named[block.name] for block in problem.blocks]
    found = torch.autograd.grad(loss(output), tensors, allow_unused=True)
    parts = [torch.zeros(b.shape) if g is None else g for g, b in zip(found, problem.blocks, strict=True)]
    return np.concatenate([part.double().numpy().reshape(-1) for part in parts])


@given(
    names=st.lists(st.sampled_from(sorted(LAYERS)), max_size=5),
    loss=st.sampled_from(["softmax", "squared"]),
    batch=st.lists(st.integers(0, 10), min_size=2, max_size=8),
    l2=st.sampled_from([0.0, 0.3]),
    weighted=st.booleans(),
    seed=st.integers(0, 99),
)
def test_flat_gradient_is_autograds(names, loss, batch, l2, weighted, seed):
    torch.manual_seed(seed)
    module = nn.Sequential(*(LAYERS[name]() for name in names), nn.Linear(6, 4 if loss == "softmax" else 1))
    omega = np.linspace(0.5, 2.0, 11) if weighted else None
    problem = problem_of(module, loss, l2=l2, scale=0.7, row_weights=omega)
    x = np.random.default_rng(seed).normal(size=problem.dim)
    key, rows = Key(seed, 3, Purpose.MODULE, 5), np.array(batch)
    _, y = rows_of()
    weights = torch.ones(len(rows)).double() if omega is None else torch.from_numpy(omega[rows])

    def mean(output):
        if loss == "squared":
            return (0.5 * (output[:, 0] - torch.from_numpy(y[rows])) ** 2 * weights).mean()
        return (-torch.log_softmax(output, 1)[range(len(rows)), y[rows].astype(int)] * weights).mean()

    expected = 0.7 * 11 * by_autograd(problem, x, rows, mean, key.number()) + l2 * x
    problem.draw_from(key)
    before = torch.random.get_rng_state()
    found = problem.sampled_gradient(x, rows)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    assert torch.equal(before, torch.random.get_rng_state())
    np.testing.assert_array_equal(problem.sampled_gradient(x, rows, x), found)  # again, and into x itself


@pytest.mark.parametrize("l2", [0.0, 0.1])
@pytest.mark.parametrize("beta", [0.0, 0.9])
@pytest.mark.parametrize("method", ["sparq", "allreduce", "local"])
def test_one_node_is_plain_sgd(method, beta, l2):
    from support.torching import method_of, plain_sgd, train

    make = lambda: mlp((6,), 4, hidden=(8, 5))  # noqa: E731
    torch.manual_seed(4)
    problem = problem_of(make(), l2=l2, count=29)
    found = train([problem], method_of(method, beta, batch=4), steps=100)[0]
    torch.manual_seed(4)
    expected = plain_sgd(make().double(), *rows_of(29), batch=4, beta=beta, l2=l2, steps=100)
    assert np.abs(expected - problem.start).max() > 0.1
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("beta", [0.0, 0.9])
def test_complete_graph_without_compression_is_averaged_gradients(beta):
    """As DistributedDataParallel does: each step the mean of the four batches' gradients."""
    from support.torching import averaged_sgd, method_of, train

    torch.manual_seed(4)
    flat = FlatModule(mlp((6,), 4, hidden=(8,)), dtype="float64")
    shards = [rows_of(20, seed=seed) for seed in range(4)]
    problems = [TorchProblem(flat, "softmax", *shard) for shard in shards]
    found = train(problems, method_of("d-psgd", beta, batch=5), steps=60, graph="complete")
    torch.manual_seed(4)
    expected = averaged_sgd(mlp((6,), 4, hidden=(8,)).double(), shards, batch=5, beta=beta, steps=60)
    for each in found:
        np.testing.assert_allclose(each, expected, rtol=0, atol=1e-12)


def test_value_figures_and_gradient_are_of_one_function():
    problem = problem_of(mlp((6,), 4, hidden=(7,), activation="tanh"), l2=0.2, count=600)
    x, h = np.random.default_rng(1).normal(size=problem.dim) * 0.5, 1e-6
    direction = np.random.default_rng(2).normal(size=problem.dim)
    slope = (problem.value(x + h * direction) - problem.value(x - h * direction)) / (2 * h)
    assert problem.gradient(x) @ direction == pytest.approx(slope, rel=1e-7)
    np.testing.assert_allclose(problem.sampled_gradient(x, np.arange(600)), problem.gradient(x), atol=1e-13)
    np.testing.assert_array_equal(problem.sampled_gradient(x, None), problem.gradient(x))
    figures = problem.figures(x)
    assert problem.value(x) == pytest.approx(figures.loss / 600 + problem.penalty(x))
    X, y = rows_of(600)
    with torch.no_grad():
        z = problem.flat.module(torch.from_numpy(X)).numpy()
    assert (figures.wrong, figures.rows) == ((z.argmax(1) != y).sum(), 600)
    assert figures.loss == pytest.approx((np.log(np.exp(z).sum(1)) - z[np.arange(600), y.astype(int)]).sum())


def test_sparse_rows_are_the_dense_ones():
    X, y = rows_of(9)
    X[X < 0] = 0
    flat = FlatModule(mlp((6,), 4), dtype="float64")
    dense, sparse = TorchProblem(flat, "softmax", X, y), TorchProblem(flat, "softmax", csr_array(X), y)
    for rows in (np.array([7, 0, 0]), None):
        np.testing.assert_array_equal(
            sparse.sampled_gradient(flat.start, rows), dense.sampled_gradient(flat.start, rows)
        )
    assert sparse.value(flat.start) == dense.value(flat.start)


def test_features_are_kept_not_copied():
    X, y = rows_of(9)
    problem = TorchProblem(FlatModule(mlp((6,), 4)), "softmax", X, y)
    before = problem.value(problem.start)
    X *= 2
    assert problem.value(problem.start) != before


def test_a_data_set_of_pytorch_is_the_same_problem():
    X, y = rows_of(9)
    flat = FlatModule(mlp((6,), 4), dtype="float64")
    pairs = torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(y).long())
    plain, own = TorchProblem(flat, "softmax", X, y), TorchProblem(flat, "softmax", pairs)
    rows = np.array([3, 1])
    np.testing.assert_array_equal(own.sampled_gradient(flat.start, rows), plain.sampled_gradient(flat.start, rows))
    assert own.figures(flat.start) == plain.figures(flat.start)


def test_parameters_and_gradients_stay_views_of_one_buffer():
    flat = FlatModule(cnn((1, 8, 8), 3, channels=[2], hidden=4, norm=True))
    X = np.random.default_rng(0).normal(size=(6, 64))
    problem = TorchProblem(flat, "softmax", X, np.arange(6) % 3.0, shape=(1, 8, 8))
    where = [(p.data_ptr(), p.grad.data_ptr()) for p in flat.module.parameters()]
    first = problem.sampled_gradient(flat.start, np.arange(4))
    problem.figures(flat.start)
    assert [(p.data_ptr(), p.grad.data_ptr()) for p in flat.module.parameters()] == where
    starts = [flat._values.data_ptr() + 4 * block.start for block in flat.blocks]
    assert [p.data_ptr() for p in flat.module.parameters()] == starts
    np.testing.assert_array_equal(problem.sampled_gradient(flat.start, np.arange(4)), first)


def test_blocks_cover_the_vector_in_order():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
            self.second.weight = self.first.weight
            self.frozen = nn.Parameter(torch.ones(5), requires_grad=False)

        def forward(self, x):
            return self.second(self.first(x))

    module = Tied()
    flat = FlatModule(module)
    assert [(b.name, b.start, b.size, b.shape) for b in flat.blocks] == [
        ("first.weight", 0, 9, (3, 3)),
        ("first.bias", 9, 3, (3,)),
        ("second.bias", 12, 3, (3,)),
    ]
    assert flat.dim == 15
    np.testing.assert_array_equal(flat.start[:9].reshape(3, 3), module.second.weight.detach().numpy())
    flat.load(np.arange(15.0))
    assert module.second.weight[2, 2] == 8
    assert module.frozen.eq(1).all()
    with pytest.raises(JobError, match="no parameter that takes a gradient"):
        FlatModule(nn.ReLU())


def test_resnet20_is_the_papers():
    """0.27 M parameters, 20 layers with weights (He et al. 2016, table 6); norms have a weight and a bias each."""
    net = resnet20((3, 32, 32), 10)
    flat = FlatModule(net)
    assert flat.dim == 269_722
    assert sum(isinstance(layer, nn.Conv2d | nn.Linear) for layer in net.modules()) == 20
    assert len(flat.blocks) == 19 + 2 * 19 + 2
    assert net(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_empty_shard_and_empty_batch_leave_the_penalty():
    flat = FlatModule(mlp((6,), 4), dtype="float64")
    x = np.full(flat.dim, 0.5)
    empty = TorchProblem(flat, "softmax", np.zeros((0, 6)), np.zeros(0), l2=0.1, scale=1.0)
    np.testing.assert_array_equal(empty.gradient(x), 0.1 * x)
    assert empty.value(x) == pytest.approx(0.05 * (x @ x))
    assert empty.figures(x) == (0.0, 0, 0)
    some = problem_of(mlp((6,), 4), l2=0.1)
    np.testing.assert_array_equal(some.sampled_gradient(x, np.zeros(0, dtype=np.int64)), 0.1 * x)


def test_points_that_are_not_finite_give_such_gradients_and_no_warning():
    problem = problem_of(mlp((6,), 4), dtype="float32")
    for value in (1e300, np.inf, np.nan):
        x = np.full(problem.dim, value)
        assert not np.isfinite(problem.sampled_gradient(x, np.arange(3))).all()
        assert not np.isfinite(problem.gradient(x)).all()
        assert not np.isfinite(problem.value(x))
        assert problem.figures(x).wrong == problem.rows


def test_dropout_is_drawn_by_the_key_alone():
    problem = problem_of(mlp((6,), 4, hidden=(20,), dropout=0.5))
    rows, found = np.arange(8), {}
    for step in (0, 1, 0):
        problem.draw_from(Key(1, 2, Purpose.MODULE, step))
        torch.rand(3)  # what others draw plays no part
        g = problem.sampled_gradient(problem.start, rows)
        assert np.array_equal(g, found.setdefault(step, g))
    assert not np.array_equal(found[0], found[1])
    assert problem.value(problem.start) == problem.value(problem.start)  # none in evaluation


@pytest.mark.parametrize(
    ("module", "loss", "labels", "error", "said"),
    [
        (lambda: nn.Linear(5, 4), "softmax", None, JobError, r"Linear raised RuntimeError on inputs of shape \(1, 6\)"),
        (lambda: nn.Linear(6, 1), "softmax", None, JobError, r"has shape \(1, 1\); .* two classes or more"),
        (lambda: nn.Linear(6, 2), "squared", None, JobError, r"has shape \(1, 2\); .* needs \(1,\) or \(1, 1\)"),
        (lambda: nn.Linear(6, 3), "softmax", None, DataError, r"found 0, 1, 2, 3; needed: whole numbers 0..2"),
        (lambda: nn.Linear(6, 4), "softmax", np.full(11, 0.5), DataError, "found 0.5"),
        (lambda: nn.Linear(6, 1), "squared", np.full(11, np.nan), DataError, "needed: finite numbers"),
        (lambda: nn.Linear(6, 4), "hinge", None, JobError, "allowed|takes softmax, squared"),
        (lambda: nn.Linear(6, 4), "softmax", np.zeros(3), ValueError, r"labels have shape \(3,\); \(11,\) is needed"),
    ],
)
def test_what_does_not_fit_is_refused(module, loss, labels, error, said):
    X, y = rows_of()
    with pytest.raises(error, match=said):
        TorchProblem(FlatModule(module()), loss, X, y if labels is None else labels)


class Ends(nn.Linear):
    """Whose output is something else than its layer's."""

    def __init__(self, end):
        super().__init__(6, 4)
        self.end = end

    def forward(self, rows):
        return self.end(super().forward(rows))


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (lambda z: z.long(), "output of Ends is torch.int64; allowed: a tensor of real"),
        (lambda z: z.to(torch.complex64), "output of Ends is torch.complex64"),
        (lambda z: (z, z), "output of Ends is tuple"),
        (lambda z: z.detach(), r"gradient of Ends raised RuntimeError on inputs of shape \(2, 6\): .*does not require"),
    ],
)
def test_outputs_of_which_there_is_no_gradient_are_refused(end, said):
    X, y = rows_of()

    def gradient():
        problem = TorchProblem(FlatModule(Ends(end)), "softmax", X, y)
        return problem.sampled_gradient(problem.start, np.arange(2))

    with pytest.raises(JobError, match=said):
        gradient()


def test_gradients_taken_away_come_back():
    """As ``zero_grad`` of the module, or of an optimizer that has it, takes them."""
    X, y = rows_of()
    flat = FlatModule(nn.Linear(6, 4))
    problem = TorchProblem(flat, "softmax", X, y)
    before = problem.sampled_gradient(problem.start, np.arange(5))
    flat.module.zero_grad()
    assert np.array_equal(problem.sampled_gradient(problem.start, np.arange(5)), before)
    assert before.any()


@pytest.mark.parametrize("taken", [FlatModule, lambda module: module.to(torch.float64)])
def test_a_module_taken_away_is_missed(taken):
    X, y = rows_of()
    flat = FlatModule(nn.Linear(6, 4))
    problem = TorchProblem(flat, "softmax", X, y)
    taken(flat.module)
    with pytest.raises(JobError, match="Linear was moved or converted, or is another FlatModule's"):
        problem.sampled_gradient(problem.start, np.arange(5))


def test_tensors_and_lists_are_rows_too():
    X, y = rows_of()
    flat = FlatModule(nn.Linear(6, 4))
    known = TorchProblem(flat, "softmax", X, y)
    for rows, labels in ((torch.from_numpy(X), torch.from_numpy(y)), (X.tolist(), y.tolist())):
        assert TorchProblem(flat, "softmax", rows, labels).value(flat.start) == known.value(flat.start)


class Items(Dataset):
    """So many times the same item."""

    def __init__(self, item):
        self.item = item

    def __len__(self):
        return 3

    def __getitem__(self, row):
        return self.item


@pytest.mark.parametrize(
    ("data", "error", "said"),
    [
        (
            DataLoader(Items((torch.zeros(6), 1))),
            ValueError,
            "DataLoader cannot be asked for rows by number; .*dataset",
        ),
        (Items(torch.zeros(6)), ValueError, "no pair of an input and a label"),
        (Items({"row": torch.zeros(6), "label": 1}), ValueError, "no pair of an input and a label"),
        (Items((torch.zeros(6), torch.ones(1))), ValueError, r"shape \(1,\); single numbers are needed"),
        (Items((torch.zeros(6), 4)), DataError, r"found 4 in row 0; needed: whole numbers 0\.\.3"),
        (Items((torch.zeros(6), -100)), DataError, "found -100"),  # what PyTorch's own loss would leave out
        (Items((torch.zeros(6), 1.5)), DataError, "found 1.5"),
    ],
)
def test_data_sets_that_do_not_fit_are_refused(data, error, said):
    flat = FlatModule(nn.Linear(6, 4))
    with pytest.raises(error, match=said):
        TorchProblem(flat, "softmax", data).value(flat.start)


def test_statistics_of_a_single_flat_row_are_refused():
    X, y = rows_of()
    flat = FlatModule(nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)))
    problem = TorchProblem(flat, "softmax", X, y)
    flat.calibrate(X[:1])
    with pytest.raises(JobError, match=r"raised ValueError on inputs of shape \(1, 6\): Expected more"):
        problem.value(problem.start)


def test_tensors_that_are_complex_or_have_no_shape_yet_are_refused():
    with pytest.raises(JobError, match=r"0.weight of Sequential has no shape before the first batch"):
        FlatModule(nn.Sequential(nn.LazyLinear(4)))
    with pytest.raises(JobError, match="weight of Linear is on the device meta, so has no values"):
        FlatModule(nn.Linear(2, 2, device="meta"))
    with pytest.raises(JobError, match="is of type str; allowed: a torch.nn.Module"):
        FlatModule("mlp")
    module = nn.Linear(2, 2)
    module.register_buffer("turns", torch.zeros(3, dtype=torch.complex64))
    with pytest.raises(JobError, match=r"turns of Linear is torch.complex64; allowed: real"):
        FlatModule(module)


def test_devices_and_types_that_are_not_there():
    for device in ("tpu", "meta", "cuda:99"):
        with pytest.raises(JobError, match="problem.device"):
            FlatModule(nn.Linear(2, 2), device=device)
    with pytest.raises(JobError, match="allowed: float32, float64"):
        FlatModule(nn.Linear(2, 2), dtype="float16")
