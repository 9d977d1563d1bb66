"""The base of all errors that are the user's to mend."""


class UserError(Exception):
    """Something asked of dllint that it cannot do. The message says what and why; the exit code is 2."""
