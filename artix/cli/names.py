"""What the user names on the command line: robots and files. Nothing here waits for JAX."""

from __future__ import annotations

import contextlib
import difflib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from artix import robots
from artix.cli.text import CommandFailure

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

#: A folder may hold millions of files; so many are looked at for a suggestion.
_MAX_FILES = 2000


def robot_file(robot: str) -> Path:
    """The file of a robot: a path, or the file of a built-in robot, of :data:`INSTALLABLE`, or of a
    training run.

    Args:
      robot: what the user typed.

    Raises:
      CommandFailure: there is no such file or robot, or it is a folder; the message suggests what
        was meant.
    """
    path = Path(robot)
    if is_built_in(robot):
        return robots.path(robot)
    if not robot.strip():
        raise CommandFailure(
            f"the name of the robot is empty; give a file, or one of: {', '.join(robots.names())}"
        )
    if robot in INSTALLABLE and not path.exists():
        path = _find_installed(robot)
    if not path.exists():
        known = [*robots.names(), *INSTALLABLE, *_beside(path)]
        raise CommandFailure(
            f"there is no file {robot!r} and no built-in robot of that "
            f"name{did_you_mean(robot, known)}; choose from: {', '.join(robots.names())}; or with "
            f"pip install example-robot-data, from: {', '.join(INSTALLABLE)}"
        )
    if path.is_dir() and (path / "robot.npz").is_file():
        path = path / "robot.npz"
    if not path.is_file():
        what = "a folder" if path.is_dir() else "no regular file"
        raise CommandFailure(f"{robot!r} is {what}; give the path of a robot description")
    return path


def _find_installed(name: str) -> Path:
    """The file of a robot of :data:`INSTALLABLE`."""
    roots = [Path(folder, "cmeel.prefix") for folder in sys.path if folder] + [Path(sys.prefix)]
    places = [root / _SHARE / INSTALLABLE[name] for root in roots]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise CommandFailure(
            f"the description of {name!r} is in the package example-robot-data: pip install "
            "example-robot-data"
        )
    return path


def is_built_in(robot: str) -> bool:
    """Whether this is the name of a built-in robot, and not of a file in this folder."""
    return robot in robots.names() and not Path(robot).exists()


def check_output(output: str, suffixes: Sequence[str] = ()) -> None:
    """Refuses the name of a file to write to if it cannot be written, before any work is done.

    Args:
      output: the name.
      suffixes: those that it may have, ``""`` for none; empty for any.

    Raises:
      CommandFailure: the name is empty or a folder's, has another suffix, or its folder is missing
        or read-only.
    """
    if not output.strip():
        raise CommandFailure("the name of the file to write is empty")
    path = Path(output)
    if suffixes and path.suffix.lower() not in suffixes and (path.is_file() or not path.exists()):
        ends = " or ".join(filter(None, suffixes))
        raise CommandFailure(f"{output!r} cannot be written: let its name end in {ends}")
    folder = path.resolve().parent
    if not folder.is_dir():
        raise CommandFailure(
            f"{output!r} cannot be written: there is no folder {str(folder)!r}; create it or save "
            "elsewhere"
        )
    if path.is_dir():
        raise CommandFailure(
            f"{output!r} cannot be written: it is a folder; add the name of a file"
        )
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise CommandFailure(f"{output!r} cannot be written: permission denied; save elsewhere")


@contextlib.contextmanager
def naming(output: str) -> Iterator[None]:
    """Names the file in what is said if it cannot be written, such as on a full disk.

    Raises:
      CommandFailure: in place of an ``OSError``.
    """
    try:
        yield
    except OSError as error:
        raise CommandFailure(f"{output!r} cannot be written: {error.strerror or error}") from error


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A suggestion for a message, ``; did you mean 'quadruped'?``, or nothing if no word is
    close.
    """
    by_lower = {one.lower(): one for one in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""


def _beside(path: Path) -> Sequence[str]:
    """The files of the folder in which a path is missing, as the user would type them."""
    try:
        with os.scandir(path.parent) as entries:
            names = [
                entry.name
                for entry, _ in zip(entries, range(_MAX_FILES), strict=False)
                if entry.is_file()
            ]
    except OSError:
        return ()
    return [str(path.parent / name) for name in names]
