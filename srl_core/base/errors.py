"""The two kinds of error that reach a user."""


class UserError(Exception):
    """Bad input: the message is one sentence that names the field, the value and what would be right.

    The command line prints it alone on stderr and exits with code 2. It is raised before any process is spawned.
    """

    exit_code = 2


class RunError(Exception):
    """A run failed after it had started; the message is the root cause, and the exit code is 1."""

    exit_code = 1
