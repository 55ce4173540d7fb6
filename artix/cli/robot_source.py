"""Finds and reads the robot description that the command line names."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from artix import robots
from artix.cli.names import is_built_in, robot_file
from artix.cli.text import CommandFailure
from artix.io.common.diagnostics import DescriptionError, DescriptionWarning, Issue
from artix.io.load import BINARY_SUFFIXES, SUFFIXES, check, load
from artix.io.urdf.reader import check_urdf, load_urdf
from artix.model.articulation import Articulation


def description_path(robot: str) -> Path:
    """The file that ``robot`` names.

    A path, the name of a built-in robot, a name of :data:`artix.cli.names.INSTALLABLE`, or the
    folder of a training run with its robot.

    Raises:
      CommandFailure: there is no such file, it is a directory, it is not text, or it cannot be
        read.
    """
    path = robot_file(robot)
    if path.suffix.lower() in BINARY_SUFFIXES:
        return path
    try:
        path.read_text(encoding="utf-8")
    except OSError as error:
        raise CommandFailure(f"{robot!r} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CommandFailure(f"{robot!r} is not UTF-8 text, as robot descriptions are") from error
    return path


def check_robot(robot: str, **options: Any) -> list[Issue]:
    """The issues of the description that ``robot`` names.

    A file with an unknown suffix is assumed to be a URDF.

    Args:
      robot: a path, or the name of a built-in robot.
      **options: options of the reader of its format.

    Raises:
      CommandFailure: as :func:`description_path`, an option does not fit the format, or its package
        is missing.
    """
    path = description_path(robot)
    if is_built_in(robot):  # As it is loaded.
        options = {"fixed_base": robots.FIXED_BASE[robot], **options}
    return _read(path, check if path.suffix.lower() in SUFFIXES else check_urdf, options)


def load_robot(robot: str, **options: Any) -> Articulation:
    """Loads what ``robot`` names, with the options of the reader of its format.

    Raises:
      CommandFailure: as :func:`check_robot`, or an option's value does not fit the description.
      DescriptionError: the description has errors.
    """
    path = description_path(robot)
    reader: Callable[..., Articulation] = load if path.suffix.lower() in SUFFIXES else load_urdf
    if is_built_in(robot):
        path = Path(robot)
        reader = robots.load
    with warnings.catch_warnings():
        # The command prints the issues themselves.
        warnings.simplefilter("ignore", DescriptionWarning)
        return _read(path, reader, options)


_Result = TypeVar("_Result")


def _read(path: Path, reader: Callable[..., _Result], options: dict[str, Any]) -> _Result:
    """Calls a reader, and converts errors that the user of a command can fix to messages for
    them.
    """
    try:
        return reader(str(path) if reader is robots.load else path, **options)
    except DescriptionError:
        raise
    except (ImportError, ValueError) as error:
        raise CommandFailure(str(error)) from error
    except TypeError as error:
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if unknown is None:
            raise
        option = unknown[1].replace("_", "-")
        raise CommandFailure(f"--{option} does not apply to the format of {str(path)!r}") from error
