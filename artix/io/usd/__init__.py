"""Reads and writes USD with the UsdPhysics and PhysX schemas."""

from artix.io.usd.reader import check_usd as check_usd
from artix.io.usd.reader import load_usd as load_usd
from artix.io.usd.reader import load_usd_with_state as load_usd_with_state
from artix.io.usd.world import load_usd_world as load_usd_world
from artix.io.usd.writer import save_usd as save_usd
