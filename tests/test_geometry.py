"""Shapes on links and their distances from the ground, against MuJoCo and closed forms."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import artix

G = artix.Geometry
TURNED = (0.03, -0.02, 0.05, *(np.array([0.3, -0.5, 0.2, 0.7]) / np.linalg.norm([0.3, -0.5, 0.2, 0.7])))
SHAPES = {
    "sphere": G.sphere(0.07, position=TURNED[:3]),
    "capsule": G.capsule(0.05, 0.12, pose=TURNED),
    "box": G.box((0.1, 0.2, 0.3), pose=TURNED),
    "cylinder": G.cylinder(0.08, 0.11, pose=TURNED),
    "hull": G.hull([(0.1, 0, 0), (-0.1, 0.05, 0), (0, -0.1, 0.02), (0, 0, 0.2)], radius=0.0, pose=TURNED),
}


def one_body(*shapes: artix.Geometry, dtype=jnp.float64) -> artix.Articulation:
    """A free body with these shapes."""
    builder = artix.ArticulationBuilder()
    builder.add_link(mass=1.0, inertia=(0.1, 0.2, 0.15), name="body")
    for shape in shapes:
        builder.add_geometry("body", shape)
    return builder.build(dtype)


def two_links() -> artix.ArticulationBuilder:
    builder = artix.ArticulationBuilder(name="pair")
    root = builder.add_link(mass=1.0, inertia=(0.1, 0.2, 0.15), com_pose=(0.1, 0, 0.2, 0, 0, 0, 1), name="root")
    joint = artix.Joint.revolute(parent_pose=TURNED, child_pose=(0.1, 0.2, 0, 0, 0, 0, 1))
    builder.add_link(root, joint, mass=1.0, inertia=(0.1, 0.2, 0.15), name="leg")
    return builder


def random_states(robot: artix.Articulation, count: int) -> artix.State:
    return jax.vmap(lambda key: artix.random_state(robot, key))(jax.random.split(jax.random.key(1), count))


# --- distances, against MuJoCo ----------------------------------------------------------------------------------------


def mujoco_distance(kind: str, root_pose: np.ndarray, normal: np.ndarray, height: float) -> float:
    """MuJoCo's distance of the shape of that name from a plane."""
    shape = SHAPES[kind]
    model, data = _scene(kind, tuple(shape.pose), shape.size, None if shape.points is None else shape.points.tobytes())
    quaternion = np.zeros(4)
    mujoco.mju_quatZ2Vec(quaternion, normal)
    model.geom_sameframe[0] = mujoco.mjtSameFrame.mjSAMEFRAME_NONE
    model.geom_pos[0], model.geom_quat[0] = normal * height, quaternion
    data.qpos[:] = [*root_pose[:3], root_pose[6], *root_pose[3:6]]
    mujoco.mj_kinematics(model, data)
    return mujoco.mj_geomDistance(model, data, 0, 1, 100.0, None)


def _scene(kind, pose, size, points):
    spec = mujoco.MjSpec()
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1])
    body = spec.worldbody.add_body(mass=1.0, inertia=[0.1, 0.2, 0.15], explicitinertial=True)
    body.add_freejoint()
    options = {"pos": pose[:3], "quat": [pose[6], *pose[3:6]]}
    if kind == "hull":
        spec.add_mesh(name="hull", uservert=np.frombuffer(points).tolist())
        options["meshname"] = "hull"
    else:
        options["size"] = [*size, 0, 0][:3]
    name = {"hull": "MESH"}.get(kind, kind.upper())
    body.add_geom(type=getattr(mujoco.mjtGeom, f"mjGEOM_{name}"), **options)
    model = spec.compile()
    return model, mujoco.MjData(model)


@pytest.mark.parametrize("kind", SHAPES)
def test_distances_from_planes_are_mujocos(kind: str) -> None:
    robot = one_body(SHAPES[kind])
    rng = np.random.default_rng(0)
    states = random_states(robot, 20)
    for k in range(20):
        state = jax.tree.map(lambda leaf, k=k: leaf[k], states)
        normal = rng.normal(size=3)
        normal /= np.linalg.norm(normal)
        ground = artix.Ground(surfaces=(artix.Plane.of(normal=normal, point=0.2 * normal),))
        found = artix.geometry_distances(robot, state, ground)
        expected = mujoco_distance(kind, np.asarray(state.root_pose), normal, 0.2)
        # MuJoCo keeps the points of meshes in float32.
        np.testing.assert_allclose(found, [expected], rtol=0, atol=1e-7 if kind == "hull" else 1e-12)
