"""The error for input that a user can mend: what was wrong, the value seen, the way out."""


class InputError(ValueError):
    """Raised for a user's mistake; commands print its sentence without a traceback."""
