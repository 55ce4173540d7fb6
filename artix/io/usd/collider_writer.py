"""Writes shapes as USD colliders, and their materials as physics materials."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from artix.io.usd.authoring import Author, author, author_floats, set_pose, vector
from artix.io.usd.colliders import TRIGGER_SCHEMA
from artix.io.usd.stage import import_pxr
from artix.model.geometry import GeometryStructure, GeometryType

if TYPE_CHECKING:
    from pxr import Usd

_KINDS = {
    GeometryType.SPHERE: "Sphere",
    GeometryType.CAPSULE: "Capsule",
    GeometryType.BOX: "Cube",
    GeometryType.CYLINDER: "Cylinder",
    GeometryType.HULL: "Mesh",
}


def write_colliders(out: Author) -> None:
    """Writes every shape below the prim of its link, sensors as PhysX triggers, and filters for contact pairs."""
    shapes, first = out.arrays.geometry, 0
    materials: dict[tuple[float, ...], Usd.Prim] = {}
    prims: dict[str, Usd.Prim] = {}
    for k, shape in enumerate(out.topology.geometries):
        prims[shape.name] = prim = out.define(_KINDS[shape.type], shape.name, out.bodies[shape.link])
        prim.AddAppliedSchema("PhysicsCollisionAPI")
        if shape.sensor:
            prim.AddAppliedSchema(TRIGGER_SCHEMA)
        pose, size = np.asarray(shapes.pose[k]), np.asarray(shapes.size[k])
        set_pose(prim, pose)
        _write_size(out, prim, shape, size, np.asarray(shapes.point[first : first + shape.num_points]))
        first += shape.num_points
        numbers = tuple(float(values[k]) for values in (shapes.friction, shapes.restitution))
        numbers += tuple(float(values[k]) for values in (shapes.stiffness, shapes.damping))
        if numbers != (0.0, 0.0, np.inf, 0.0):
            if numbers not in materials:
                materials[numbers] = _write_material(out, numbers)
            shade = import_pxr().UsdShade
            shade.MaterialBindingAPI.Apply(prim).Bind(
                shade.Material(materials[numbers]), shade.Tokens.weakerThanDescendants, "physics"
            )
    _write_pairs(out, prims)


def _write_pairs(out: Author, prims: dict[str, Usd.Prim]) -> None:
    """Enables self-collision if there are pairs, and filters all other pairs."""
    topology = out.topology
    author(out.owner, "bool", "physxArticulation:enabledSelfCollisions", bool(topology.geometry_pairs))
    if not topology.geometry_pairs:
        return
    touching = {frozenset(pair) for pair in topology.geometry_pairs}
    paired = {name for pair in topology.geometry_pairs for name in pair}
    for shape in topology.geometries:
        if shape.sensor and shape.name in paired:
            message = "a sensor is written as a trigger, which does not touch other links either"
            out.report_unsupported(prims[shape.name], message)
    for k, a in enumerate(topology.geometries):
        apart = [b.name for b in topology.geometries[k + 1 :] if frozenset((a.name, b.name)) not in touching]
        if apart:
            prims[a.name].AddAppliedSchema("PhysicsFilteredPairsAPI")
            relation = prims[a.name].CreateRelationship("physics:filteredPairs", False)
            relation.SetTargets([prims[name].GetPath() for name in apart])


def _write_size(out: Author, prim: Usd.Prim, shape: GeometryStructure, size: np.ndarray, points: np.ndarray) -> None:
    if shape.type is GeometryType.BOX:
        author(prim, "double", "size", 2.0)
        pxr = import_pxr()
        scale = pxr.UsdGeom.Xformable(prim).AddScaleOp(pxr.UsdGeom.XformOp.PrecisionDouble)
        scale.Set(pxr.Gf.Vec3d(*map(float, size)))
    elif shape.type is GeometryType.HULL:
        author(prim, "point3f[]", "points", [vector(point) for point in points])
        author(prim, "int[]", "faceVertexCounts", [])
        author(prim, "int[]", "faceVertexIndices", [])
        prim.AddAppliedSchema("PhysicsMeshCollisionAPI")
        author(prim, "token", "physics:approximation", "convexHull", uniform=True)
        if size[0]:
            out.report_unsupported(prim, "the rounding radius of a hull is dropped")
    else:
        author(prim, "double", "radius", float(size[0]))
        if shape.type is not GeometryType.SPHERE:
            author(prim, "double", "height", 2.0 * float(size[1]))
            author(prim, "token", "axis", "Z", uniform=True)


def _write_material(out: Author, numbers: tuple[float, ...]) -> Usd.Prim:
    """A physics material with the given friction, restitution, stiffness (``inf`` if rigid) and damping."""
    friction, restitution, stiffness, damping = numbers
    prim = out.define("Material", "physics_material")
    prim.AddAppliedSchema("PhysicsMaterialAPI")
    author_floats(prim, "physics", staticFriction=friction, dynamicFriction=friction, restitution=restitution)
    if np.isfinite(stiffness):
        prim.AddAppliedSchema("PhysxMaterialAPI")
        author_floats(prim, "physxMaterial", compliantContactStiffness=stiffness, compliantContactDamping=damping)
    return prim
