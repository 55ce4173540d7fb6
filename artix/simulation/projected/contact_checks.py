"""Refuses ground contacts that ``"pgs"`` and ``"tgs"`` do not support."""

from __future__ import annotations

import jax
import numpy as np

from artix.contact.ground import Ground
from artix.contact.ground_contacts import GroundContacts
from artix.contact.plane import Plane
from artix.model.articulation import Articulation
from artix.model.checks import check_vector
from artix.model.geometry import GeometryType
from artix.simulation.common.options import SolverOptions
from artix.simulation.projected.friction_anchors import FrictionAnchors, patches_of

_SHAPES = (GeometryType.SPHERE, GeometryType.CAPSULE, GeometryType.BOX)


def check_rigid(articulation: Articulation, ground: Ground, options: SolverOptions) -> None:
    """Raises ``ValueError`` for compliant shapes or surfaces, if their numbers are not traced."""
    if options.solver not in ("pgs", "tgs"):
        return
    every = {f"ground.surfaces[{k}]": surface.stiffness for k, surface in enumerate(ground.surfaces)}
    every["articulation.geometry"] = articulation.geometry.stiffness
    for where, stiffness in every.items():
        if not isinstance(stiffness, jax.core.Tracer) and not np.all(np.isinf(stiffness)):
            raise ValueError(
                f"solver={options.solver!r} has only rigid contacts, but {where}.stiffness is finite: make it inf, or "
                "use solver='implicit'"
            )


def check_solvable(
    articulation: Articulation, ground: Ground, found: GroundContacts, anchors: FrictionAnchors | None
) -> None:
    """Raises ``ValueError`` for unsupported surfaces and shapes, and for a memory of another size."""
    topology = articulation.topology
    for k, surface in enumerate(ground.surfaces):
        if not isinstance(surface, Plane):
            raise ValueError(
                f"solver='pgs' and 'tgs' support only planes; ground.surfaces[{k}] is a {type(surface).__name__}: use "
                "solver='implicit'"
            )
    for k in sorted(set(found.geometries)):
        shape = topology.geometries[k]
        if shape.type not in _SHAPES:
            raise ValueError(
                f"solver='pgs' and 'tgs' support spheres, capsules and boxes; {shape.name!r} is a {shape.type.value}: "
                "use solver='implicit', or make it a sensor"
            )
    if anchors is not None:
        pairs = len(patches_of(topology, found.geometries, len(ground.surfaces)))
        check_vector(
            "memory.on_link", anchors.on_link, (pairs, 2, 3), articulation.dtype, "P pairs of shape and surface"
        )
