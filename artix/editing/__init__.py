"""Makes articulations from others, and builders from articulations."""

from typing import TYPE_CHECKING

from artix.editing.surgery import MimicMap as MimicMap
from artix.editing.surgery import attach_articulation as attach_articulation
from artix.editing.surgery import lock_joints as lock_joints
from artix.editing.surgery import mimic_map as mimic_map
from artix.editing.surgery import possible_geometry_pairs as possible_geometry_pairs
from artix.editing.surgery import select_geometry as select_geometry
from artix.editing.surgery import select_geometry_pairs as select_geometry_pairs
from artix.editing.to_builder import builder_from_articulation as builder_from_articulation
from artix.math.deprecated import exports as _exports

if not TYPE_CHECKING:
    __all__, __getattr__ = _exports(__name__)
