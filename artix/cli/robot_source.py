"""From what was typed on the command line to a robot description."""

from __future__ import annotations

from pathlib import Path


class UnreadableRobot(Exception):
    """What was named is neither a readable file nor a built-in robot; the message is for the user."""


def description_path(robot: str) -> Path:
    """The file that ``robot`` names: a path, or the name of a built-in robot.

    Raises:
      UnreadableRobot: there is no such file, it is a directory, it is not text, or it cannot be read.
    """
    from artix import robots

    if robot in robots.names() and not Path(robot).exists():
        return Path(robots.path(robot))
    path = Path(robot)
    if not path.exists():
        raise UnreadableRobot(
            f"there is no file {robot!r} and no built-in robot of that name; built-in robots: {', '.join(robots.names())}"
        )
    if not path.is_file():
        raise UnreadableRobot(f"{robot!r} is not a file; give the path of a URDF file")
    try:
        path.read_text(encoding="utf-8")
    except OSError as error:
        raise UnreadableRobot(f"{robot!r} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UnreadableRobot(f"{robot!r} is not a text file; a URDF file is XML in UTF-8") from error
    return path
