"""Check of the accounting: what the package counts is what it hands to MPI, by a count of its own."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mpi_opt.algorithms.base import Algorithm
from mpi_opt.verify import cases
from mpi_opt.verify.findings import Outcome
from mpi_opt.verify.setting import Setting

_EVALUATE_EVERY = 20


@dataclass(slots=True)
class Ledger:
    """What was handed to MPI.

    Attributes
    ----------
    tally : Counter of str
        ``bytes``, ``messages`` and ``silences`` of the method; ``apart``, bytes of evaluation and control.
    evaluating : bool
        Whether an evaluation is being made.
    """

    tally: "Counter[str]" = field(default_factory=Counter)
    evaluating: bool = False

    def add(self, nbytes: int, copies: int = 1, *, control: bool = False) -> None:
        """Add ``copies`` messages of so many bytes each."""
        if self.evaluating or control:
            self.tally["apart"] += nbytes * copies
            return
        self.tally["bytes"] += nbytes * copies
        self.tally["messages" if nbytes else "silences"] += copies


class Meter:
    """Stands where the package's communicator would, and notes the buffers that it is handed to send.

    Calls that send nothing pass through; a call that nobody counts is an error, so that none is overlooked.
    """

    _SILENT = frozenset({"rank", "size", "Recv_init", "Recv", "Irecv", "Free"})

    def __init__(self, comm: Any, ledger: Ledger) -> None:
        self._comm, self._ledger = comm, ledger

    def __getattr__(self, name: str) -> Any:
        if name not in self._SILENT:
            raise AttributeError(f"the package calls MPI's {name}, whose bytes nobody counts")
        return getattr(self._comm, name)

    def Dup(self) -> "Meter":
        """Return a meter on a duplicate, with the same ledger."""
        return Meter(self._comm.Dup(), self._ledger)

    def Isend(self, buffer: Any, dest: int, tag: int = 0) -> Any:
        """Count, and send."""
        self._ledger.add(_size(buffer))
        return self._comm.Isend(buffer, dest, tag)

    def Send(self, buffer: Any, dest: int, tag: int = 0) -> None:
        """Count, and send."""
        self._ledger.add(_size(buffer))
        self._comm.Send(buffer, dest, tag)

    def Sendrecv(self, sendbuf: Any, dest: int, sendtag: int, recvbuf: Any, source: int, recvtag: int) -> None:
        """Count, and send."""
        self._ledger.add(_size(sendbuf))
        self._comm.Sendrecv(sendbuf, dest, sendtag, recvbuf, source, recvtag)

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Any, root: int) -> None:
        """Count one message from everybody but the root."""
        if self._comm.rank != root:
            self._ledger.add(_size(sendbuf))
        self._comm.Reduce(sendbuf, recvbuf, op=op, root=root)

    def Bcast(self, buffer: Any, root: int) -> None:
        """Count one message from the root to everybody else."""
        if self._comm.rank == root:
            self._ledger.add(_size(buffer), self._comm.size - 1)
        self._comm.Bcast(buffer, root=root)

    def Iallreduce(self, sendbuf: Any, recvbuf: Any, op: Any) -> Any:
        """Count control flags apart."""
        self._ledger.add(_size(sendbuf) if self._comm.size > 1 else 0, control=True)
        return self._comm.Iallreduce(sendbuf, recvbuf, op=op)


def _size(buffer: Any) -> int:
    """Return the bytes of what MPI is told to send: an array, or [array, count, datatype]."""
    if isinstance(buffer, list):
        _, count, datatype = buffer
        return int(count * datatype.Get_size())
    return memoryview(buffer).nbytes


def check(setting: Setting) -> Outcome:
    """Run a compressed method and one that reduces under a meter, and compare what they count."""
    if setting.comm is None:
        return Outcome(left_out="needs MPI: start with mpiexec -n 4 mpi-opt verify")
    faults: list[str] = []
    methods: dict[str, Algorithm] = {"SPARQ-SGD": cases.sparq(), "allreduce-SGD": cases.allreduce()}
    totals = np.zeros(3)
    for name, algorithm in methods.items():
        for ordered in (False, True):
            counted, metered = _both(setting, algorithm, ordered=ordered)
            totals += [metered["bytes"], metered["messages"], metered["silences"]]
            for kind in sorted(counted.keys() | metered.keys()):
                if counted[kind] != metered[kind]:
                    what = "evaluation and control bytes" if kind == "apart" else kind
                    faults.append(f"{name}: {counted[kind]} {what} counted, {metered[kind]} handed to MPI")
    all_bytes, messages, silences = setting.collectives.sum(totals).tolist()
    if setting.nodes > 1 and not (messages and silences):
        faults.append(f"{messages:.0f} messages and {silences:.0f} silences: nothing is shown")
    detail = (
        f"{all_bytes:.0f} bytes in {messages:.0f} messages counted are those handed to MPI, {silences:.0f} silences"
    )
    return Outcome(f"{detail} of no bytes", faults)


def _both(setting: Setting, algorithm: Algorithm, *, ordered: bool) -> "tuple[Counter[str], Counter[str]]":
    """Return what the package counted on this rank, and what the meter did."""
    ledger = Ledger()
    case = cases.make(algorithm, setting.nodes)
    network = setting.connect(case.neighbours, case.codec, ordered=ordered, comm=Meter(setting.comm, ledger))
    drive = cases.Drive(case, network)
    for t in range(1, cases.STEPS + 1):
        drive.step()
        if t % _EVALUATE_EVERY == 0:
            network.control_start(np.array([float(t)]))
            network.control_finish()
            ledger.evaluating = True
            (model,) = drive.models()
            network.mean([model])
            network.rotate([model.copy()])
            network.share([model])
            ledger.evaluating = False
    traffic = network.traffic[0]
    network.close()
    counted = Counter(
        {
            "bytes": traffic.payload_bytes + traffic.header_bytes,
            "messages": traffic.messages,
            "silences": traffic.silences,
            "apart": traffic.evaluation_bytes + traffic.control_bytes,
        }
    )
    return counted, ledger.tally
