"""Readers and writers of robot descriptions; ``load`` chooses one by the file's suffix."""

from typing import TYPE_CHECKING

from artix.io.archive import check_archive, load_archive, save_archive
from artix.io.common.diagnostics import DescriptionError, DescriptionWarning, Issue
from artix.io.load import check, load, load_world, save
from artix.io.mjcf.reader import check_mjcf, load_mjcf
from artix.io.mjcf.state import MujocoCoordinates
from artix.io.mjcf.writer import save_mjcf
from artix.io.srdf import Srdf, load_srdf
from artix.io.urdf.reader import check_urdf, check_xacro, load_urdf, load_xacro
from artix.io.urdf.writer import save_urdf
from artix.io.usd import check_usd, load_usd, save_usd
from artix.math.deprecated import old_names

__all__ = [
    "DescriptionError",
    "DescriptionWarning",
    "Issue",
    "MujocoCoordinates",
    "Srdf",
    "check",
    "check_archive",
    "check_mjcf",
    "check_urdf",
    "check_usd",
    "check_xacro",
    "load",
    "load_archive",
    "load_mjcf",
    "load_srdf",
    "load_urdf",
    "load_usd",
    "load_world",
    "load_xacro",
    "save",
    "save_archive",
    "save_mjcf",
    "save_urdf",
    "save_usd",
]

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)
