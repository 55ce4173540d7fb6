"""Readers and writers of robot descriptions; ``load`` chooses one by the file's suffix."""

from typing import TYPE_CHECKING

from artix.io.archive import check_archive as check_archive
from artix.io.archive import load_archive as load_archive
from artix.io.archive import save_archive as save_archive
from artix.io.common.diagnostics import DescriptionError as DescriptionError
from artix.io.common.diagnostics import DescriptionWarning as DescriptionWarning
from artix.io.common.diagnostics import Issue as Issue
from artix.io.load import check as check
from artix.io.load import load as load
from artix.io.load import load_world as load_world
from artix.io.load import save as save
from artix.io.mjcf.reader import check_mjcf as check_mjcf
from artix.io.mjcf.reader import load_mjcf as load_mjcf
from artix.io.mjcf.state import MujocoCoordinates as MujocoCoordinates
from artix.io.mjcf.writer import save_mjcf as save_mjcf
from artix.io.srdf import Srdf as Srdf
from artix.io.srdf import load_srdf as load_srdf
from artix.io.urdf.reader import check_urdf as check_urdf
from artix.io.urdf.reader import load_urdf as load_urdf
from artix.io.urdf.writer import save_urdf as save_urdf
from artix.io.urdf.xacro import check_xacro as check_xacro
from artix.io.urdf.xacro import load_xacro as load_xacro
from artix.io.usd import check_usd as check_usd
from artix.io.usd import load_usd as load_usd
from artix.io.usd import save_usd as save_usd
from artix.math.deprecated import exports as _exports

if not TYPE_CHECKING:
    __all__, __getattr__ = _exports(__name__)
