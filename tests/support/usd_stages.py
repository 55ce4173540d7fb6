"""Stages for the USD tests, and comparison of two articulations."""

from __future__ import annotations

import zipfile
from pathlib import Path

import jax
import numpy as np

import artix
from artix.io.common.poses import compose, inverse, rotation_matrix
from artix.model.articulation import with_equal_parts

DATA = Path(__file__).parents[1] / "data" / "usd"


def _texts(archive: str) -> dict[str, str]:
    with zipfile.ZipFile(DATA / archive) as file:
        return {Path(name).stem: file.read(name).decode() for name in sorted(file.namelist())}


#: USD texts of the mechanisms recorded from PhysX, and of robots that public converters converted,
#: by their names.
MECHANISMS, CONVERTED = _texts("mechanisms.zip"), _texts("converted.zip")

HEADER = '#usda 1.0\n(\n    metersPerUnit = 1\n    upAxis = "Z"\n    defaultPrim = "World"\n)\n'


def body(
    name: str, content: str = "", schemas: str = "", place: str = "(0, 0, 0)", inner: str = ""
) -> str:
    """Text of a rigid body of 2 kg with more schemas (each with a leading comma), attributes and
    prims."""
    return f"""
    def Xform "{name}" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"{schemas}])
    {{
        double3 xformOp:translate = {place}
        uniform token[] xformOpOrder = ["xformOp:translate"]
        float physics:mass = 2
        point3f physics:centerOfMass = (0.1, 0.2, 0.3)
        float3 physics:diagonalInertia = (0.1, 0.2, 0.25)
        {content}
        {inner}
    }}"""


def joint(
    name: str,
    first: str | None,
    second: str | None,
    content: str = "",
    kind: str = "Revolute",
    schemas: str = "",
) -> str:
    """Text of a joint between two bodies of a robot; ``None`` is the world."""
    ends = zip("01", (first, second), strict=True)
    bodies = "\n        ".join(
        f"rel physics:body{k} = </World/robot/{body}>" for k, body in ends if body
    )
    applied = f"(prepend apiSchemas = [{schemas}])" if schemas else ""
    return f"""
    def Physics{kind}Joint "{name}" {applied}
    {{
        {bodies}
        {content}
    }}"""


def robot(
    *prims: str,
    schemas: str = '"PhysicsArticulationRootAPI"',
    before: str = "",
    header: str = HEADER,
) -> str:
    """Text of a stage with one robot, ``/World/robot``."""
    applied = f"(prepend apiSchemas = [{schemas}])" if schemas else ""
    inside = "".join(prims)
    return f'{header}{before}\ndef Xform "World"\n{{\n  def Xform "robot" {applied}\n  {{{inside}\n  }}\n}}\n'


def numbers(tree) -> dict[str, np.ndarray]:
    """Every array of an articulation, or of a part of it, by its path, in float64; constants of
    what a robot lacks."""
    if isinstance(tree, artix.Articulation):
        (tree,) = with_equal_parts([tree], tree.absent)
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path)[1:]: np.asarray(leaf, float) for path, leaf in leaves}


def relative_error(found: np.ndarray, wanted: np.ndarray) -> float:
    """Largest difference, relative where numbers exceed one; infinite numbers must agree
    exactly."""
    assert found.shape == wanted.shape
    assert np.array_equal(np.isfinite(found), np.isfinite(wanted))
    assert np.array_equal(found[~np.isfinite(found)], wanted[~np.isfinite(wanted)])
    finite = np.isfinite(wanted)
    difference = np.abs(found[finite] - wanted[finite]) / np.maximum(1.0, np.abs(wanted[finite]))
    return float(np.max(difference, initial=0.0))


def joint_geometry(articulation) -> np.ndarray:
    """Joint geometry: poses of links in their parents at zero, origins and axes of motion in the
    child."""
    tree = articulation.topology
    rows = []
    for link in range(1, tree.num_links):
        parent, child = (
            np.asarray(pose[link], float)
            for pose in (articulation.joint_parent_pose, articulation.joint_child_pose)
        )
        relative = compose(parent, inverse(child))
        axes = [rotation_matrix(child[3:])[:, axis % 3] for axis in tree.joint_axes[link]]
        origin = child[:3] if axes and tree.joint_axes[link][0] < 3 else np.zeros(3)
        across = origin - axes[0] * (axes[0] @ origin) if len(axes) == 1 else origin
        rows.append(
            np.concatenate([relative[:3], rotation_matrix(relative[3:]).ravel(), across, *axes])
        )
    return np.concatenate(rows) if rows else np.zeros(0)


def body_inertias(articulation) -> np.ndarray:
    """Inertias of the links about their centres of mass in the links' axes [L, 3, 3]."""
    turns = [rotation_matrix(pose) for pose in np.asarray(articulation.link_com_pose, float)[:, 3:]]
    inertias = np.asarray(articulation.link_inertia, float)
    return np.array(
        [turn @ inertia @ turn.T for turn, inertia in zip(turns, inertias, strict=True)]
    )
