"""Many articulations in one program."""

from typing import TYPE_CHECKING

from artix.fleet.fleet import Fleet as Fleet
from artix.fleet.fleet import vmap_in_blocks as vmap_in_blocks
from artix.math.deprecated import exports as _exports

if not TYPE_CHECKING:
    __all__, __getattr__ = _exports(__name__)
