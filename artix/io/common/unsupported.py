"""Finds features of an articulation that a file format cannot express, for the writers to report."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from artix.io.common.values import check_values, named_arrays
from artix.model.articulation import Articulation
from artix.model.builder import STANDARD_GRAVITY
from artix.model.geometry import GeometryType
from artix.model.topology import Topology


def writable_topology(articulation: Articulation) -> Topology:
    """Returns the topology of an articulation, which must not be batched, and checks its numbers.

    Raises:
      ValueError: its arrays have leading axes, or a builder would refuse a number, as the readers would.
    """
    if articulation.link_mass.ndim != 1:
        raise ValueError("only one articulation can be written; its arrays have leading axes: pick one of the batch")
    check_values(named_arrays(articulation))
    return articulation.topology


def unsupported_features(articulation: Articulation, supported: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yields what an articulation uses and a format cannot describe: the element, and a phrase for messages.

    Args:
      articulation: a single articulation.
      supported: the features, by their names in :func:`_features`, that the format expresses or the writer handles.
    """
    return ((element, what) for feature, element, what in _features(articulation) if feature not in supported)


def _features(articulation: Articulation) -> Iterator[tuple[str, str, str]]:
    """Yields each feature in use: its name, the element that uses it, and a phrase for messages."""
    topology = articulation.topology
    drive, friction, envelope = articulation.drive, articulation.friction, articulation.envelope
    per_dof: dict[str, tuple[Any, str]] = {
        "armature": (articulation.armature != 0.0, "armature"),
        "max_velocity": (articulation.max_joint_velocity < np.inf, "its speed limit"),
        "max_force": (articulation.max_joint_force < np.inf, "its effort limit"),
        "drive": ((drive.stiffness != 0.0) | (drive.damping != 0.0), "its drive"),
        "envelope": (envelope.max_effort < np.inf, "its performance envelope"),
        "viscous": (friction.viscous != 0.0, "viscous friction"),
        "friction": (friction.static != 0.0, "dry friction"),
        "stiction": (friction.static != friction.dynamic, "static friction other than dynamic friction"),
    }
    for feature, (used, what) in per_dof.items():
        for dof in np.flatnonzero(np.asarray(used)):
            yield feature, f"joint {topology.dof_names[dof]!r}", what
    per_link: dict[str, tuple[Any, str]] = {
        "gravity_scale": (articulation.gravity_scale != 1.0, "its gravity scale"),
        "link_damping": ((articulation.link_linear_damping + articulation.link_angular_damping) != 0.0, "its damping"),
        "link_velocity": (
            np.minimum(articulation.max_link_linear_velocity, articulation.max_link_angular_velocity) < np.inf,
            "its speed limits",
        ),
        "cfm_scale": (~np.isclose(articulation.link_cfm_scale, 0.025), "its cfm scale"),
    }
    for feature, (used, what) in per_link.items():
        for link in np.flatnonzero(np.asarray(used)):
            yield feature, f"link {topology.link_names[link]!r}", what
    if not np.allclose(articulation.gravity, STANDARD_GRAVITY):
        yield "gravity", "gravity", f"a gravity of {np.asarray(articulation.gravity).tolist()}"
    for index, (follower, _) in enumerate(topology.mimic_dofs):
        yield "mimic", f"joint {topology.dof_names[follower]!r}", "its mimic relation"
        if articulation.mimic.natural_frequency[index] > 0:
            yield "mimic_compliance", f"joint {topology.dof_names[follower]!r}", "the compliance of its mimic relation"
    yield from _geometry_features(articulation, topology)
    for kind in ("fixed_tendon", "spatial_tendon", "loop_joint"):
        for coupling in getattr(topology, f"{kind}s"):
            yield kind, f"{kind.replace('_', ' ')} {coupling.name!r}", f"a {kind.replace('_', ' ')}"


def _geometry_features(articulation: Articulation, topology: Topology) -> Iterator[tuple[str, str, str]]:
    """The same for shapes: each shape itself, and each material parameter that differs from its default."""
    arrays = articulation.geometry
    materials = {
        "friction": (arrays.friction != 0.0, "its friction"),
        "restitution": (arrays.restitution != 0.0, "its restitution"),
        "stiffness": (arrays.stiffness < np.inf, "its stiffness"),
    }
    paired = {name for pair in topology.geometry_pairs for name in pair}
    for a, b in topology.geometry_pairs:
        yield "geometry_pair", f"geometry {a!r}", f"its contact with {b!r}"
    for k, shape in enumerate(topology.geometries):
        where = f"geometry {shape.name!r}"
        if shape.sensor or shape.type is GeometryType.HULL:
            kind = ("paired_sensor" if shape.name in paired else "sensor") if shape.sensor else "hull"
            yield f"geometry_{kind}", where, "a sensor shape" if shape.sensor else "a hull of points"
            continue
        yield "geometry", where, f"a {shape.type.value}"
        for feature, (used, what) in materials.items():
            if used[k]:
                yield f"geometry_{feature}", where, what
