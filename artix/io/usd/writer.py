"""Writes USD with the UsdPhysics and PhysX schemas: links, and their shapes as colliders."""

from __future__ import annotations

import errno
import os
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from artix.io.common.atomic_file import write_atomically
from artix.io.common.diagnostics import Issue, Report
from artix.io.common.poses import IDENTITY, compose, inverse, joint_motion, principal_axes
from artix.io.common.values import shortest, writable_topology
from artix.io.usd.articulation import FRAME_KEY
from artix.io.usd.colliders import TRIGGER_SCHEMA
from artix.io.usd.joint_writer import (
    JOINT_TYPES,
    Author,
    author,
    author_floats,
    quaternion,
    relate,
    set_pose,
    vector,
    write_couplings,
    write_joint,
)
from artix.io.usd.joints import KINDS
from artix.io.usd.mass_properties import ZERO_KEY
from artix.io.usd.stage import DEGREE, first_usd_error, import_pxr
from artix.io.usd.tree import ROOT_SCHEMA
from artix.model.articulation import Articulation, State
from artix.model.checks import check_state
from artix.model.geometry import GeometryStructure, GeometryType
from artix.model.topology import Topology

if TYPE_CHECKING:
    from pxr import Sdf, Usd

SUFFIXES = (".usd", ".usda", ".usdc", ".usdz")


def save_usd(
    articulation: Articulation, path: str | os.PathLike[str], *, state: State | None = None
) -> list[Issue]:
    """Writes an articulation as USD in metres, kilograms and degrees, with z up; :func:`load_usd`
    reads it back.

    Bodies, joints, drives, friction, mimic joints, tendons and loop joints use the schemas of
    UsdPhysics and PhysX; frames become ``Xform`` prims and shapes become colliders. USD stores most
    numbers in float32.

    Args:
      articulation: the articulation.
      path: the file, ending in ``.usda`` (text), ``.usdc`` or ``.usd`` (binary) or ``.usdz`` (a
        package).
      state: state of its bodies and joints in the file; the neutral state when ``None``.

    Returns:
      One warning for each thing that USD cannot express, or that only :func:`load_usd` reads.

    Raises:
      ValueError: the suffix is not one of these, USD has no joints of a type, the articulation is a
        batch, a builder would refuse one of its numbers, or the state has other shapes or numbers
        that are not finite.
      TypeError: the state has another dtype.
      OSError: the file cannot be written; a file that was there before stays as it was.
      ModuleNotFoundError: ``usd-core`` is not installed.

    Examples:
      >>> import pathlib, tempfile
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "pendulum.usda"
      >>> _ = artix.io.save_usd(artix.robots.load("double_pendulum"), path)
      >>> print("PhysicsRevoluteJoint" in path.read_text())
      True
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(
            f"{os.fspath(path)}: a USD file ends in {', '.join(SUFFIXES)}, not in {suffix!r}"
        )
    topology = writable_topology(articulation)
    if state is not None:
        check_state(articulation, state)
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state)):
            raise ValueError("state: its numbers must be finite")
    joints = list(zip(topology.joint_names, topology.joint_types[1:], strict=True))
    for kind in {*topology.joint_types} - {*JOINT_TYPES}:
        names = ", ".join(name for name, each in joints if each is kind)
        raise ValueError(
            f"USD has no {kind.name.lower()} joints, such as {names}; write an .npz archive instead"
        )
    report = Report(os.fspath(path))
    stage = _author_stage(topology, articulation, state, report)
    _export(stage, Path(path))
    return report.issues


def _export(stage: Usd.Stage, path: Path) -> None:
    """Writes a stage to a file, or raises ``OSError`` and leaves the file as it was."""
    pxr = import_pxr()
    try:
        write_atomically(path, lambda part: _write_layer(stage.GetRootLayer(), part, path.stem))
    except pxr.Tf.ErrorException as error:  # Its message has thousands of lines, all alike.
        raise OSError(errno.EIO, first_usd_error(error), os.fspath(path)) from None


def _write_layer(layer: Sdf.Layer, path: Path, stem: str) -> None:
    """Writes a layer to a file of its own, or to a package that calls it by the given stem."""
    if path.suffix.lower() != ".usdz":
        written = layer.Export(os.fspath(path))
    else:
        from pxr import Sdf, UsdUtils

        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            inner = os.path.join(folder, f"{stem}.usdc")
            written = layer.Export(inner)
            written = written and UsdUtils.CreateNewUsdzPackage(
                Sdf.AssetPath(inner), os.fspath(path)
            )
        written = written and _is_whole(path)
    if not written:
        raise OSError(errno.EIO, "USD reports a failure without a reason; is the disk full?")


def _is_whole(package: Path) -> bool:
    """Whether all of a package has been written: USD reports success where the disk has no room for
    its end.
    """
    try:
        with zipfile.ZipFile(package) as file:
            return file.testzip() is None
    except zipfile.BadZipFile:
        return False


def _author_stage(
    topology: Topology, articulation: Articulation, state: State | None, report: Report
) -> Usd.Stage:
    """Writes the articulation to a stage in memory."""
    arrays, values = jax.tree.map(shortest, (articulation, state))
    poses = _link_poses(topology, arrays, values)
    out = Author(topology, arrays, values, report)
    _write_gravity(out)
    out.bodies = [_write_body(out, link, pose) for link, pose in enumerate(poses)]
    out.joints = [write_joint(out, link) for link in range(1, topology.num_links)]
    _write_root(out, poses[0])
    _note_order(out)
    write_couplings(out)
    write_colliders(out)
    for name, link, pose in zip(
        topology.frame_names, topology.frame_links, arrays.frame_local_pose, strict=True
    ):
        frame = out.define("Xform", name, out.bodies[link])
        frame.SetCustomDataByKey(FRAME_KEY, True)
        set_pose(frame, pose)
    return out.finish()


def _link_poses(topology: Topology, arrays: Articulation, state: State | None) -> list[np.ndarray]:
    """World poses of the links; without a state, at zero joint positions."""
    poses = [IDENTITY if state is None else np.asarray(state.root_pose)]
    for link in range(1, topology.num_links):
        dofs = np.flatnonzero(topology.dof_link == link)
        position = np.zeros(len(dofs)) if state is None else np.asarray(state.joint_position)[dofs]
        parent = arrays.joint_parent_pose[link]
        child = arrays.joint_child_pose[link]
        motion = joint_motion(topology.joint_axes[link], position)
        above = compose(poses[topology.parent[link]], np.asarray(parent))
        poses.append(compose(compose(above, motion), inverse(np.asarray(child))))
    return poses


def _write_gravity(out: Author) -> None:
    gravity = np.asarray(out.arrays.gravity)
    scene = out.define("PhysicsScene", "PhysicsScene", out.world)
    size = float(np.linalg.norm(gravity))
    author(
        scene,
        "vector3f",
        "physics:gravityDirection",
        vector(gravity / size if size else np.array([0.0, 0, -1])),
    )
    author_floats(scene, "physics", gravityMagnitude=size)


def _write_root(out: Author, pose: np.ndarray) -> None:
    """Applies the root schemas, and writes the joint to the world of a fixed base, or the state's
    root velocity.
    """
    root = out.bodies[0]
    for schema in (ROOT_SCHEMA, "PhysxArticulationAPI"):
        out.owner.AddAppliedSchema(schema)
    if out.topology.fixed_base:
        joint = out.define("PhysicsFixedJoint", "root_joint")
        relate(joint, "physics:body1", root)
        author(joint, "point3f", "physics:localPos0", vector(pose[:3]))
        author(joint, "quatf", "physics:localRot0", quaternion(pose[3:]))
    elif out.state is not None:
        velocity = np.asarray(out.state.root_velocity)
        author(root, "vector3f", "physics:velocity", vector(velocity[:3]))
        author(root, "vector3f", "physics:angularVelocity", vector(velocity[3:] / DEGREE))


def _write_body(out: Author, link: int, pose: np.ndarray) -> Usd.Prim:
    """Writes a rigid body with its mass properties and PhysX's damping and velocity limits."""
    arrays = out.arrays
    body = out.define("Xform", out.topology.link_names[link])
    for schema in ("PhysicsRigidBodyAPI", "PhysicsMassAPI", "PhysxRigidBodyAPI"):
        body.AddAppliedSchema(schema)
    set_pose(body, pose)
    com_pose = np.asarray(arrays.link_com_pose[link])
    moments, axes = principal_axes(np.asarray(arrays.link_inertia[link]), com_pose[3:])
    moments = np.maximum(moments, 0.0)
    author_floats(body, "physics", mass=arrays.link_mass[link])
    author(body, "point3f", "physics:centerOfMass", vector(com_pose[:3]))
    author(body, "float3", "physics:diagonalInertia", vector(moments))
    author(body, "quatf", "physics:principalAxes", quaternion(axes))
    if arrays.link_mass[link] == 0.0 or not np.any(moments):
        body.SetCustomDataByKey(ZERO_KEY, True)
        out.report_unsupported(
            body, "USD has no bodies without mass or inertia; only load_usd reads it as such"
        )
    scale = float(arrays.gravity_scale[link])
    if scale not in (0.0, 1.0):
        out.report_unsupported(body, f"USD has no gravity scale of {scale:g}, only 0 and 1")
    author(body, "bool", "physxRigidBody:disableGravity", scale == 0.0)
    author_floats(
        body,
        "physxRigidBody",
        linearDamping=arrays.link_linear_damping[link],
        angularDamping=arrays.link_angular_damping[link],
        maxLinearVelocity=arrays.max_link_linear_velocity[link],
        maxAngularVelocity=arrays.max_link_angular_velocity[link] / DEGREE,
        cfmScale=arrays.link_cfm_scale[link],
    )
    return body


def _note_order(out: Author) -> None:
    """Reports siblings that readers will number differently: they sort by joint type, then by
    path.
    """
    kinds = list(KINDS)
    topology = out.topology
    keys: dict[int, list[Any]] = {}
    for link, joint in enumerate(out.joints, start=1):
        key = kinds.index(str(joint.GetTypeName())), str(joint.GetPath())
        keys.setdefault(topology.parent[link], []).append(key)
    for parent, siblings in keys.items():
        if siblings != sorted(siblings):
            message = (
                f"the joints of link {topology.link_names[parent]!r} will be read sorted by type "
                "and name"
            )
            out.report_unsupported(out.top, message, "address links and joints by name")


# --- shapes -------------------------------------------------------------------------------------

_KINDS = {
    GeometryType.SPHERE: "Sphere",
    GeometryType.CAPSULE: "Capsule",
    GeometryType.BOX: "Cube",
    GeometryType.CYLINDER: "Cylinder",
    GeometryType.HULL: "Mesh",
}


def write_colliders(out: Author) -> None:
    """Writes every shape below the prim of its link, sensors as PhysX triggers, and filters for
    contact pairs.
    """
    shapes = out.arrays.geometry
    first = 0
    materials: dict[tuple[float, ...], Usd.Prim] = {}
    prims: dict[str, Usd.Prim] = {}
    for k, shape in enumerate(out.topology.geometries):
        if shape.type not in _KINDS:
            message = f"USD has no {shape.type.value}s: {shape.name!r} is left out"
            out.report_unsupported(out.bodies[shape.link], message)
            continue
        prims[shape.name] = prim = out.define(
            _KINDS[shape.type], shape.name, out.bodies[shape.link]
        )
        prim.AddAppliedSchema("PhysicsCollisionAPI")
        if shape.sensor:
            prim.AddAppliedSchema(TRIGGER_SCHEMA)
        pose, size = np.asarray(shapes.pose[k]), np.asarray(shapes.size[k])
        set_pose(prim, pose)
        _write_size(
            out, prim, shape, size, np.asarray(shapes.point[first : first + shape.num_points])
        )
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
    author(
        out.owner, "bool", "physxArticulation:enabledSelfCollisions", bool(topology.geometry_pairs)
    )
    if not topology.geometry_pairs:
        return
    touching = {frozenset(pair) for pair in topology.geometry_pairs}
    paired = {name for pair in topology.geometry_pairs for name in pair}
    for shape in topology.geometries:
        if shape.sensor and shape.name in paired:
            message = "a sensor is written as a trigger, which does not touch other links either"
            out.report_unsupported(prims[shape.name], message)
    link_of = {shape.name: shape.link for shape in topology.geometries}
    for a, b in topology.geometry_pairs:
        first, second = link_of[a], link_of[b]
        joined = first == topology.parent[second] or second == topology.parent[first]
        if joined and {a, b} <= {*prims}:
            message = f"PhysX keeps links apart that a joint connects: {a!r} does not touch {b!r}"
            out.report_unsupported(prims[a], message)
    names = list(prims)
    for k, a in enumerate(names):
        apart = [b for b in names[k + 1 :] if frozenset((a, b)) not in touching]
        if apart:
            prims[a].AddAppliedSchema("PhysicsFilteredPairsAPI")
            relation = prims[a].CreateRelationship("physics:filteredPairs", False)
            relation.SetTargets([prims[name].GetPath() for name in apart])


def _write_size(
    out: Author, prim: Usd.Prim, shape: GeometryStructure, size: np.ndarray, points: np.ndarray
) -> None:
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
    """A physics material with the given friction, restitution, stiffness (``inf`` if rigid) and
    damping.
    """
    friction, restitution, stiffness, damping = numbers
    prim = out.define("Material", "physics_material")
    prim.AddAppliedSchema("PhysicsMaterialAPI")
    author_floats(
        prim, "physics", staticFriction=friction, dynamicFriction=friction, restitution=restitution
    )
    if np.isfinite(stiffness):
        prim.AddAppliedSchema("PhysxMaterialAPI")
        author_floats(
            prim,
            "physxMaterial",
            compliantContactStiffness=stiffness,
            compliantContactDamping=damping,
        )
    return prim
