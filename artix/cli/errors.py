"""The failure that the command line explains in one line instead of a traceback."""


class CommandFailure(Exception):
    """What the user asked for cannot be read, computed or saved; the message is for the user."""
