"""Failures that the command line explains in one line instead of a traceback."""


class UnreadableRobot(Exception):
    """The robot's name is neither a readable file nor a built-in robot; the message is for the user."""


class TrainingFailure(Exception):
    """A training cannot be started, continued or saved; the message is for the user."""
