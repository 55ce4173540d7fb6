"""MJCF: ``reader`` and ``writer``, and their helpers for one kind of element each."""

from artix.io.mjcf.reader import check_mjcf as check_mjcf
from artix.io.mjcf.reader import load_mjcf as load_mjcf
from artix.io.mjcf.reader import load_mjcf_all as load_mjcf_all
from artix.io.mjcf.state import MujocoCoordinates as MujocoCoordinates
from artix.io.mjcf.writer import save_mjcf as save_mjcf
