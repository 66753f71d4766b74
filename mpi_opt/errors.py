"""Every error that ends a run, with the exit code it ends with.

| code | meaning |
|---|---|
| 0 | done |
| 2 | the job file or the command line is wrong |
| 3 | the data are wrong or missing |
| 4 | the launch or MPI is wrong |
| 5 | the run diverged |
| 6 | a rank failed |
| 75 | the run was asked to stop and can be resumed |
"""

from typing import ClassVar


class MpiOptError(Exception):
    """Base of the package's errors; ``exit_code`` is what the command ends with."""

    exit_code: ClassVar[int] = 6
    everywhere: bool = False
    """Every rank raises this error together, so that none needs to be ended by force."""


class JobError(MpiOptError):
    """A job key, a command-line value or an argument is wrong: names the key, the value and what is allowed."""

    exit_code = 2


class DataError(MpiOptError):
    """A data file is missing, malformed or does not fit the job: names file, line and column where there are any."""

    exit_code = 3


class LaunchError(MpiOptError):
    """The processes were not started as the job needs them: names the remedy."""

    exit_code = 4


class DivergedError(MpiOptError):
    """The iterates are no longer finite: names node, step and what to lower."""

    exit_code = 5


class RankFailedError(MpiOptError):
    """Another rank failed, or an answer it owed did not come."""

    exit_code = 6


class GarbledError(RankFailedError):
    """What came from other ranks is no object: one of them died as it sent, and MPI did not say so."""


class PausedError(MpiOptError):
    """The run was asked to stop before it had a state to keep; what was done so far is kept elsewhere."""

    exit_code = 75


EXIT_DONE = 0
EXIT_PAUSED = PausedError.exit_code
