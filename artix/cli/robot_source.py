"""From what was typed on the command line to a robot description."""

from __future__ import annotations

from pathlib import Path

from artix import robots
from artix.articulation import Articulation
from artix.cli.errors import UnreadableRobot
from artix.io.urdf import load_urdf


def description_path(robot: str) -> Path:
    """The file that ``robot`` names: a path, or the name of a built-in robot.

    Raises:
      UnreadableRobot: there is no such file, it is a directory, it is not text, or it cannot be read.
    """
    if _is_built_in(robot):
        return robots.path(robot)
    path = Path(robot)
    if not path.exists():
        raise UnreadableRobot(
            f"there is no file {robot!r} and no built-in robot of that name; there are: {', '.join(robots.names())}"
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


def load_robot(robot: str, *, fixed_base: bool | None) -> Articulation:
    """Loads what ``robot`` names; ``fixed_base`` of ``None`` leaves the base to the built-in robot or the reader.

    Raises:
      UnreadableRobot: as :func:`description_path`.
      DescriptionError: the description has errors.
    """
    if _is_built_in(robot):
        return robots.load(robot, **({} if fixed_base is None else {"fixed_base": fixed_base}))
    return load_urdf(description_path(robot), fixed_base=fixed_base)


def _is_built_in(robot: str) -> bool:
    return robot in robots.names() and not Path(robot).exists()
