"""Finds and reads the robot description that the command line names."""

from __future__ import annotations

import difflib
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from artix import robots
from artix.cli.text import CommandFailure
from artix.io.common.diagnostics import DescriptionError, DescriptionWarning, Issue
from artix.io.load import BINARY_SUFFIXES, SUFFIXES, check, load
from artix.io.urdf.reader import check_urdf, load_urdf
from artix.model.articulation import Articulation

#: Legged robots of the package example-robot-data by name, in its folder ``robots``.
INSTALLABLE = {
    "a1": "a1_description/urdf/a1.urdf",
    "anymal_b": "anymal_b_simple_description/robots/anymal.urdf",
    "anymal_c": "anymal_c_simple_description/urdf/anymal.urdf",
    "b1": "b1_description/urdf/b1.urdf",
    "bolt": "bolt_description/robots/bolt.urdf",
    "g1": "g1_description/urdf/g1_29dof_rev_1_0.urdf",
    "go1": "go1_description/urdf/go1.urdf",
    "go2": "go2_description/urdf/go2.urdf",
    "hyq": "hyq_description/robots/hyq_no_sensors.urdf",
    "icub": "icub_description/robots/icub.urdf",
    "laikago": "laikago_description/urdf/laikago.urdf",
    "solo8": "solo_description/robots/solo.urdf",
    "solo12": "solo_description/robots/solo12.urdf",
    "talos": "talos_data/robots/talos_reduced.urdf",
}
#: Where a wheel of it, or a package of conda, keeps them, below a folder of packages and a prefix.
_SHARE = "share/example-robot-data/robots"

#: Options that only readers take, not checkers.
_READER_OPTIONS = ("body", "merge_fixed_joints")
#: Suffixes of formats whose checkers do not take ``fixed_base``.
_OTHERS = tuple(suffix for suffix in SUFFIXES if suffix not in (".urdf", ".xacro"))


def description_path(robot: str) -> Path:
    """The file that ``robot`` names.

    A path, the name of a built-in robot, a name of :data:`INSTALLABLE`, or the folder of a training run with its robot.

    Raises:
      CommandFailure: there is no such file, it is a directory, it is not text, or it cannot be read.
    """
    if _is_built_in(robot):
        return robots.path(robot)
    path = Path(robot)
    if robot in INSTALLABLE and not path.exists():
        path = _installed(robot)
    if not path.exists():
        known = [*robots.names(), *INSTALLABLE]
        like = difflib.get_close_matches(robot, known, 3)
        raise CommandFailure(
            f"there is no file {robot!r} and no built-in robot of that name; "
            + (f"did you mean {' or '.join(like)}? Or " if like else "")
            + f"choose from: {', '.join(robots.names())}; or with pip install example-robot-data, from: "
            f"{', '.join(INSTALLABLE)}"
        )
    if path.is_dir() and (path / "robot.npz").is_file():
        path = path / "robot.npz"
    if not path.is_file():
        what = "a folder" if path.is_dir() else "no regular file"
        raise CommandFailure(f"{robot!r} is {what}; give the path of a robot description")
    if path.suffix.lower() in BINARY_SUFFIXES:
        return path
    try:
        path.read_text(encoding="utf-8")
    except OSError as error:
        raise CommandFailure(f"{robot!r} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CommandFailure(f"{robot!r} is not UTF-8 text, as robot descriptions are") from error
    return path


def _installed(name: str) -> Path:
    """The file of a robot of :data:`INSTALLABLE`."""
    roots = [Path(folder, "cmeel.prefix") for folder in sys.path if folder] + [Path(sys.prefix)]
    places = [root / _SHARE / INSTALLABLE[name] for root in roots]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise CommandFailure(
            f"the description of {name!r} is in the package example-robot-data: pip install example-robot-data; "
            "or give the path of a file"
        )
    return found


def check_robot(robot: str, **options: Any) -> list[Issue]:
    """The issues of the description that ``robot`` names.

    A file with an unknown suffix is assumed to be a URDF.

    Args:
      robot: a path, or the name of a built-in robot.
      **options: options of the reader of its format; those that only readers take are ignored.

    Raises:
      CommandFailure: as :func:`description_path`, an option does not fit the format, or its package is missing.
    """
    path = description_path(robot)
    left = (*_READER_OPTIONS, "fixed_base") if path.suffix.lower() in _OTHERS else _READER_OPTIONS
    options = {name: value for name, value in options.items() if name not in left}
    return _explained(path, check if path.suffix.lower() in SUFFIXES else check_urdf, options)


def load_robot(robot: str, **options: Any) -> Articulation:
    """Loads what ``robot`` names, with the options of the reader of its format.

    Raises:
      CommandFailure: as :func:`check_robot`, or an option's value does not fit the description.
      DescriptionError: the description has errors.
    """
    path = description_path(robot)
    reader: Callable[..., Articulation] = load if path.suffix.lower() in SUFFIXES else load_urdf
    if _is_built_in(robot):
        path, reader = Path(robot), robots.load
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DescriptionWarning)  # The command prints the issues themselves.
        return _explained(path, reader, options)


_Result = TypeVar("_Result")


def _explained(path: Path, reader: Callable[..., _Result], options: dict[str, Any]) -> _Result:
    """Calls a reader, and converts errors that the user of a command can fix to messages for them."""
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


def _is_built_in(robot: str) -> bool:
    return robot in robots.names() and not Path(robot).exists()
