"""What other processes need not compile or trace again, on disk in the user's cache folder: kernels
and signatures.
"""

from __future__ import annotations

import functools
import hashlib
import io
import logging
import operator
import os
import pickle
import stat
import sys
import tempfile
import types
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import jax

from artix.compiler.argument_types import portable

_log = logging.getLogger("artix")

_MAGIC = b"artix kernel 1\n"
_MAX_BYTES = 512 * 2**20


def cache_folder() -> Path | None:
    """The folder of what artix keeps between processes; ``None`` if it keeps nothing.

    The environment variable ``ARTIX_CACHE`` names it, or turns it off with ``0``. Otherwise it is
    ``artix-kernels`` beside JAX's compiled programs if ``jax.config.jax_compilation_cache_dir`` is
    set, else ``artix`` in the user's cache folder.
    """
    name = os.environ.get("ARTIX_CACHE", "")
    if name:
        return None if name == "0" else Path(name).expanduser()
    config: Any = jax.config  # JAX declares its options from 0.12 on.
    if not config.jax_enable_compilation_cache:
        return None
    if config.jax_compilation_cache_dir and "://" not in str(config.jax_compilation_cache_dir):
        return Path(config.jax_compilation_cache_dir) / "artix-kernels"
    try:
        return _user_cache() / "artix"
    except RuntimeError:  # The user has no home.
        return None


def folder_of_programs(machine: str) -> Path | None:
    """A folder in :func:`cache_folder` for what XLA compiles on machines of one kind; ``None`` if
    there is none that only this user can write to. Deletes what has not been used for longest.
    """
    kernels = cache_folder()
    if kernels is None:
        return None
    folder = kernels / f"xla-{hashlib.sha256(machine.encode()).hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (is_private(kernels) and is_private(folder)):
            _say_refused(kernels)
            return None
        _forget_oldest(folder)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


def _user_cache() -> Path:
    """Where programs of this platform keep what they can make again."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    folder = os.environ.get("XDG_CACHE_HOME", "")
    return Path(folder) if os.path.isabs(folder) else Path.home() / ".cache"


class KernelFiles:
    """Files of object code by name, each with a digest of its content, readable by their owner
    only.

    They are in :func:`cache_folder`. Files that are corrupt, or that another user owns or could
    have written, are never read.
    """

    @property
    def folder(self) -> Path | None:
        """The folder of the files; ``None`` if nothing is stored."""
        return cache_folder()

    def read(self, name: str) -> bytes | None:
        """The object code of that name, or ``None``."""
        content = None if self.folder is None else read_private(self.folder, name)
        if content is None:
            return None
        digest, code = content[len(_MAGIC) : len(_MAGIC) + 32], content[len(_MAGIC) + 32 :]
        is_intact = (
            content.startswith(_MAGIC) and hashlib.sha256(name.encode() + code).digest() == digest
        )
        return code if is_intact else None

    def write(self, name: str, code: bytes) -> None:
        """Writes object code; failure to write is not an error."""
        if self.folder is not None:
            write_private(
                self.folder, name, _MAGIC + hashlib.sha256(name.encode() + code).digest() + code
            )


def read_private(folder: Path, name: str) -> bytes | None:
    """The content of a file that no one else could have written; ``None`` without one."""
    try:
        if not is_private(folder):
            _say_refused(folder)
            return None
        descriptor = os.open(folder / name, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        with os.fdopen(descriptor, "rb") as file:
            if not _is_owned(os.fstat(file.fileno())):
                _say_refused(folder)
                return None
            content = file.read()
    except OSError:
        return None
    with suppress(OSError):  # A read-only file system is read all the same.
        os.utime(folder / name)
    return content


def write_private(folder: Path, name: str, content: bytes) -> None:
    """Writes a file at once, which only this user can read; failure to write is not an error."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not is_private(folder):
            _say_refused(folder)
            return
        descriptor, path = tempfile.mkstemp(dir=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            os.replace(path, folder / name)
        except OSError:  # For instance, the disk is full.
            os.unlink(path)
            return
        _forget_oldest(folder)
    except OSError:
        return


def _is_owned(status: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user, and no one else may write to it."""
    if not hasattr(os, "getuid"):
        return True
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def is_private(folder: Path) -> bool:
    """Whether a folder belongs to this user, and no one else may write to it."""
    return _is_owned(folder.lstat()) and stat.S_ISDIR(folder.lstat().st_mode)


@functools.cache  # Once, and not for every kernel.
def _say_refused(folder: Path) -> None:
    _log.warning(
        "kernels in %s are not used, so each process compiles its own: the folder or a file in it "
        "belongs to another user, or others may write to it; remove the folder or set ARTIX_CACHE "
        "to one of your own",
        folder,
    )


def _forget_oldest(folder: Path) -> None:
    files = sorted(
        (entry.stat().st_mtime, entry.stat().st_size, entry.path)
        for entry in os.scandir(folder)
        if entry.is_file()
    )
    excess = sum(size for _, size, _ in files) - _MAX_BYTES
    for _, size, path in files:
        if excess <= 0:
            break
        os.unlink(path)
        excess -= size


class Signature(NamedTuple):
    """Types and pytree structure of a program's results, and the types of what it keeps for
    derivatives.
    """

    types: tuple[jax.ShapeDtypeStruct, ...]
    structure: Any
    kept: tuple[jax.ShapeDtypeStruct, ...]


def signature_of(results: Any, kept: tuple[jax.ShapeDtypeStruct, ...]) -> Signature:
    """The signature of a program with a pytree of shapes and dtypes that keeps these."""
    leaves, structure = jax.tree.flatten(results)
    types = tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves)
    return Signature(types, structure, kept)


#: Packages whose classes and functions are what they were if these and Python have their versions.
_PACKAGES = frozenset({"artix", "jax", "jaxlib", "ml_dtypes", "numpy", *sys.stdlib_module_names})


class _Pickler(pickle.Pickler):
    """Refuses classes and functions that a pickle would only name, since users change theirs."""

    def reducer_override(self, value: Any) -> Any:
        for named in (value, type(value)):
            if isinstance(named, type | types.FunctionType) and not _is_of_packages(named):
                raise pickle.PicklingError(f"{named!r} may be another one in another process")
        return NotImplemented


def _is_of_packages(named: Any) -> bool:
    # Functions and classes defined by ``exec`` may have no module.
    module = named.__module__ or ""
    return module.partition(".")[0] in _PACKAGES


def _pickled(value: Any) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer).dump(value)
    return buffer.getvalue()


def program_key(function: Callable[..., Any], structure: Any, rest: Sequence[Any]) -> bytes | None:
    """A digest of a function of artix, the structure of its arguments and everything else that is
    static in a call.

    It is ``None`` if other processes may mean something else by the name of the function, of a
    class of its arguments, or of a function among them: all that users write. It is ``None`` for
    static arguments that cannot be pickled, too.
    """
    if not _is_named(function):
        return None
    content = hashlib.sha256(source_digest())
    content.update(f"{jax.__version__} {function.__module__}.{function.__qualname__}".encode())
    try:
        _add_structure(content, structure)
        content.update(_pickled([portable(item) for item in rest]))
    except (pickle.PicklingError, TypeError, AttributeError):
        return None
    return content.digest()


def _is_named(function: Callable[..., Any]) -> bool:
    """Whether a function is what a module of artix calls so, and not a function of a user that
    :func:`functools.wraps` or :func:`jax.vmap` have given its name.
    """
    module = getattr(function, "__module__", None) or ""
    if not module.startswith("artix."):
        return False
    try:
        named = operator.attrgetter(function.__qualname__)(sys.modules[module])
    except (AttributeError, KeyError):  # A function within a function.
        return False
    while named is not function and hasattr(named, "__wrapped__"):
        named = named.__wrapped__
    return named is function


def _add_structure(content: Any, structure: Any) -> None:
    node = structure.node_data()
    if node is None:
        content.update(b"leaf;" if structure.num_leaves else b"none;")
        return
    kind, static = node
    content.update(_pickled((kind, portable(static))))
    for child in structure.children():
        _add_structure(content, child)
    content.update(b";")


@functools.cache
def source_digest() -> bytes:
    """The digest of all modules of artix: a change in any of them invalidates everything stored."""
    folder = Path(__file__).resolve().parent.parent
    content = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        content.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return content.digest()


_files = KernelFiles()


def read_signature(key: bytes | None) -> Signature | None:
    """The signature of a program that this or another process traced earlier."""
    content = None if key is None else _files.read(f"signature_{key.hex()[:40]}")
    return None if content is None else signature_of(*pickle.loads(content))


def write_signature(key: bytes | None, signature: Signature) -> None:
    """Writes a signature for other processes."""
    if key is None or _files.folder is None:
        return
    try:
        # Structures cannot be pickled, but what has them.
        results = jax.tree.unflatten(signature.structure, signature.types)
        content = pickle.dumps((results, signature.kept))
    except (pickle.PicklingError, TypeError, AttributeError):
        return
    _files.write(f"signature_{key.hex()[:40]}", content)
