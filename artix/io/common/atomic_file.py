"""Writes files completely or not at all, so that a full disk or an interruption never destroys a
good file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path


def write_atomically(path: str | os.PathLike[str], write: Callable[[Path], object]) -> None:
    """Writes a file so that, whatever happens, there is the whole new file or what was there
    before.

    The new content goes to a temporary file in the same folder and to the disk, and then takes the
    file's name. A symbolic link stays and its target is replaced; an existing file keeps its
    permissions, not its hard links. Anything but a regular file, such as ``/dev/null`` or a pipe,
    is written directly.

    Args:
      path: the file.
      write: writes the content to the path that it is given, which ends in the same suffix.

    Raises:
      OSError: the file cannot be written; the error names ``path``. Other exceptions of ``write``
        pass. In both cases the temporary file is removed.

    Examples:
      >>> import pathlib, tempfile
      >>> from artix.io.common.atomic_file import write_atomically
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "notes.txt"
      >>> write_atomically(path, lambda part: part.write_text("complete"))
      >>> print(path.read_text(), [file.name for file in path.parent.iterdir()])
      complete ['notes.txt']
    """
    try:
        check_writable(path)
        if os.path.exists(path) and not os.path.isfile(path):
            write(Path(path))
        else:
            _replace(Path(os.path.realpath(path)), write)
    except OSError as error:
        if error.errno is None:
            raise OSError(f"{os.fspath(path)!r} cannot be written: {error}") from error
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raises ``OSError``, which names ``path``, if a file cannot be written there; for use before
    long work.

    It looks at the folder and at the permissions. It writes nothing, so it cannot foresee a full
    disk.

    Examples:
      >>> from artix.io.common.atomic_file import check_writable
      >>> check_writable("/nonexistent/robot.urdf")
      Traceback (most recent call last):
      FileNotFoundError: [Errno 2] there is no folder '/nonexistent': '/nonexistent/robot.urdf'
    """
    name = os.fspath(path)
    target = Path(os.path.realpath(path))
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", name)
    if os.path.exists(path) and not os.path.isfile(path):
        return
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {str(target.parent)!r}", name)
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise PermissionError(errno.EACCES, "permission denied", name)


def _replace(target: Path, write: Callable[[Path], object]) -> None:
    part = target.with_name(f".{target.stem.strip('.')[:40]}-{secrets.token_hex(4)}{target.suffix}")
    try:
        write(part)
        with part.open("r+b") as file:
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, part)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    # The file's new name is on the disk with its folder. Not every system opens folders.
    with contextlib.suppress(OSError):
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
