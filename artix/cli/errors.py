"""Failures that the command line explains in one line instead of a traceback."""


class UnreadableRobot(Exception):
    """What was named is neither a readable file nor a built-in robot; the message is for the user."""
