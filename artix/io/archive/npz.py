"""artix's own lossless file format: ``.npz`` with a JSON header.

An archive is an uncompressed ZIP file: ``header.json`` describes the structure, and every array of the articulation is
a ``.npy`` member named after its field, such as ``drive.stiffness.npy``. Reading one never executes code from the file
and takes no more memory than the size of the file.
"""

from __future__ import annotations

import dataclasses
import io
import math
import os
import re
import unicodedata
import warnings
import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

from artix.io.archive.header import read_header, write_header
from artix.io.common.atomic_file import write_atomically
from artix.io.common.diagnostics import DescriptionError, DescriptionWarning, Issue
from artix.io.common.values import check_values, named_arrays
from artix.math.arrays import device_array
from artix.model.articulation import Articulation
from artix.model.geometry import Geometries

_HEADER = "header.json"
_DTYPES = ("float16", "float32", "float64")
_LARGEST_HEADER = 2**21  # bytes: some ten thousand links

#: Arrays missing from older files; they are read as zeros.
_ADDED = frozenset({"joint_pitch"})
#: Arrays that may be missing from the file of an articulation without geometry.
_GEOMETRY = frozenset(f"geometry.{field.name}" for field in dataclasses.fields(Geometries))

#: A header of version 1.0 of the .npy format as NumPy writes it: its length, the type of number, the shape.
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00(..)\{'descr': '(<f[248])', 'fortran_order': False, "
    rb"'shape': \(([0-9]{0,12}(?:, ?[0-9]{1,12}){0,8},?)\), \} *\n",
    re.DOTALL,
)


def save_archive(articulation: Articulation, path: str | os.PathLike[str]) -> list[Issue]:
    """Writes an articulation without loss: :func:`load_archive` restores it bit for bit.

    Args:
      articulation: any articulation; its arrays may have leading batch axes.
      path: the file, usually ``*.npz``.

    Returns:
      An empty list: the format expresses everything.

    Raises:
      TypeError: its arrays are not of a NumPy floating-point type.
      ValueError: a builder would refuse one of the numbers, such as a NaN or a negative mass.
      OSError: the file cannot be written.

    Examples:
      >>> import pathlib, tempfile
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "arm.npz"
      >>> print(artix.io.save_archive(artix.robots.load("arm7"), path), path.exists())
      [] True
    """
    topology = articulation.topology
    header = write_header(topology)
    if read_header(header).topology != topology:
        raise ValueError("two of its joints and degrees of freedom share a name; rename one before saving")
    arrays = named_arrays(articulation)
    check_values(arrays)
    wrong = {name: str(array.dtype) for name, array in arrays.items() if array.dtype.name not in _DTYPES}
    if wrong:
        raise TypeError(f"arrays must be of {', '.join(_DTYPES)}; found {wrong}; convert with articulation.astype(...)")
    write_atomically(path, lambda part: _write(part, header, arrays))
    return []


def _write(path: Path, header: str, arrays: dict[str, np.ndarray]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(_HEADER), header)
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, version=(1, 0), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getvalue())


def load_archive(path: str | os.PathLike[str], *, dtype: Any = None) -> Articulation:
    """Reads an articulation that :func:`save_archive` wrote; safe on files of unknown origin.

    Args:
      path: the file.
      dtype: floating-point type of the arrays; ``None`` keeps that of the file if JAX's x64 mode allows it.

    Returns:
      The articulation.

    Raises:
      DescriptionError: the file is not such an archive, is damaged or of a later version, or holds numbers that a
        builder would refuse.
      OSError: the file cannot be read.

    Identity: ``load_archive`` of what ``save_archive(a, path)`` wrote equals ``a``, bit for bit.

    Examples:
      >>> import pathlib, tempfile
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "arm.npz"
      >>> arm = artix.robots.load("arm7")
      >>> _ = artix.io.save_archive(arm, path)
      >>> print(artix.io.load_archive(path).topology == arm.topology)
      True
    """
    try:
        articulation, arrays = _read(Path(path))
    except (ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        fix = "write the file again with artix.save"
        raise DescriptionError([Issue("error", os.fspath(path), 1, "archive", str(error), fix)]) from None
    for issue in _odd_names(articulation, os.fspath(path)):
        warnings.warn(str(issue), DescriptionWarning, stacklevel=2)
    leaves = [device_array(array, dtype) for array in arrays.values()]
    return jax.tree.unflatten(jax.tree.structure(articulation), leaves)


def check_archive(path: str | os.PathLike[str]) -> list[Issue]:
    """Checks an archive.

    Args:
      path: the file.

    Returns:
      A single error; or, if :func:`load_archive` reads the file, its warnings.

    Raises:
      OSError: the file cannot be read.

    Examples:
      >>> import pathlib, tempfile
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "arm.npz"
      >>> _ = artix.io.save_archive(artix.robots.load("arm7"), path)
      >>> print(artix.io.check_archive(path))  # no issues
      []
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DescriptionWarning)
        try:
            return _odd_names(load_archive(path), os.fspath(path))
        except DescriptionError as error:
            return list(error.issues)


def _odd_names(articulation: Articulation, file: str) -> list[Issue]:
    """A warning if names have characters that are not printed, such as those with which terminals are commanded."""
    topology = articulation.topology
    names = (
        topology.name,
        *topology.link_names,
        *topology.joint_names,
        *topology.frame_names,
        *(tendon.name for tendon in topology.fixed_tendons),
        *(tendon.name for tendon in topology.spatial_tendons),
        *(joint.name for joint in topology.loop_joints),
        *(shape.name for shape in topology.geometries),
    )
    odd = [name for name in names if any(unicodedata.category(letter) in ("Cc", "Zl", "Zp") for letter in name)]
    if not odd:
        return []
    message = f"names with control characters: {', '.join(map(repr, odd[:3]))}{', ...' if odd[3:] else ''}"
    return [Issue("warning", file, 1, "archive", message, "rename them in the program that wrote the file")]


def _read(path: Path) -> tuple[Articulation, dict[str, np.ndarray]]:
    """An articulation with the structure in the file and placeholder numbers, and the arrays in the file by name."""
    size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        members = {info.filename: info for info in entries}
        # Without compression and overlaps, the content cannot exceed the file.
        if any(info.compress_type != zipfile.ZIP_STORED for info in entries):
            raise ValueError("its members must not be compressed")
        too_much = sum(info.file_size for info in members.values()) > size
        if too_much or len(members) != len(entries) or any(info.header_offset < 0 for info in entries):
            raise ValueError("its table of contents is damaged")
        if _HEADER not in members or members[_HEADER].file_size > _LARGEST_HEADER:
            raise ValueError(f"it has no {_HEADER}, or one of more than {_LARGEST_HEADER} bytes")
        articulation = read_header(archive.read(_HEADER).decode("utf-8"))
        expected = named_arrays(articulation)
        required = {_HEADER, *(f"{name}.npy" for name in expected)}
        optional = _ADDED if articulation.geometry.size.size else _ADDED | _GEOMETRY
        wrong = (required ^ set(members)) - {f"{name}.npy" for name in optional}
        if wrong:
            raise ValueError(f"its members do not match its header: {', '.join(sorted(wrong)[:5])}")
        arrays = {
            name: _array(name, archive.read(f"{name}.npy"), like.shape)
            for name, like in expected.items()
            if f"{name}.npy" in members
        }
    mass = arrays["link_mass"]
    for name in optional - set(arrays):
        arrays[name] = np.zeros((*mass.shape[:-1], *expected[name].shape), mass.dtype)
    arrays = {name: arrays[name] for name in expected}
    check_values(arrays)
    return articulation, arrays


def _array(name: str, content: bytes, shape: tuple[int, ...]) -> np.ndarray:
    """Parses one ``.npy`` member in the exact form that artix writes; NumPy's reader would evaluate the header."""
    match = _NPY.match(content)
    if match is None or int.from_bytes(match[1], "little") != match.end() - 10:
        raise ValueError(f"{name}: it is not an array of floats in the form that artix writes")
    dtype = np.dtype(match[2].decode())
    stored = tuple(int(size) for size in match[3].split(b",") if size.strip())
    leading = len(stored) - len(shape)
    if leading < 0 or stored[leading:] != shape:
        raise ValueError(f"{name}: expected shape (..., {', '.join(map(str, shape))}), found {stored}")
    if math.prod(stored) * dtype.itemsize != len(content) - match.end():
        raise ValueError(f"{name}: its length does not match its shape")
    return np.frombuffer(content, dtype, offset=match.end()).reshape(stored)
