"""Links on fixed joints: supported DOFs, joint wrenches, and masses of subtrees."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from tests.support.models import random_states, state_at

pin = pytest.importorskip("pinocchio")

#: A turning column that carries a bracket; the bracket holds a camera rigidly and an arm that
#: slides.
URDF = """<robot name="rig">
  <link name="base"/>
  <link name="column"><inertial><origin xyz="0.1 0 0.2" rpy="0.1 0.2 0.3"/><mass value="2"/>
    <inertia ixx="0.03" ixy="0.001" ixz="0.002" iyy="0.04" iyz="0.003" izz="0.05"/></inertial></link>
  <link name="bracket"><inertial><origin xyz="0 0.1 0.1"/><mass value="0.7"/>
    <inertia ixx="0.003" ixy="0" ixz="0.0002" iyy="0.004" iyz="0" izz="0.005"/></inertial></link>
  <link name="camera"><inertial><origin xyz="0.02 0.03 0"/><mass value="0.3"/>
    <inertia ixx="0.001" ixy="0" ixz="0" iyy="0.001" iyz="0" izz="0.001"/></inertial></link>
  <link name="arm"><inertial><origin xyz="0.2 0 0"/><mass value="1.1"/>
    <inertia ixx="0.002" ixy="0" ixz="0" iyy="0.02" iyz="0.001" izz="0.02"/></inertial></link>
  <joint name="turn" type="continuous"><parent link="base"/><child link="column"/>
    <origin xyz="0 0 0.3" rpy="0.3 0 0"/><axis xyz="0 0 1"/></joint>
  <joint name="hold" type="fixed"><parent link="column"/><child link="bracket"/>
    <origin xyz="0.1 0.2 0.3" rpy="0.4 0.5 0.6"/></joint>
  <joint name="mount" type="fixed"><parent link="bracket"/><child link="camera"/>
    <origin xyz="0.3 0 0.1" rpy="0 1 0"/></joint>
  <joint name="slide" type="prismatic"><parent link="bracket"/><child link="arm"/>
    <origin xyz="0 0.2 0" rpy="0 0 0.7"/><axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="9" velocity="9"/></joint>
</robot>"""
RIGID = ("bracket", "camera")
JOINTS = {"bracket": "hold", "camera": "mount"}


@pytest.fixture(scope="module")
def rig():
    """Pinocchio's model with data after ``rnea``, and the articulation with its state and
    acceleration."""
    model, a = pin.buildModelFromXML(URDF), artix.load_urdf(URDF, fixed_base=True, dtype="float64")
    s, acceleration = state_at(random_states(a, 1, seed=3), 0), jnp.array([0.7, -1.3])
    s = s.replace(root_pose=jnp.zeros(7).at[6].set(1.0))
    turn, slide = s.joint_position
    q = np.array([np.cos(turn), np.sin(turn), slide])
    data = model.createData()
    pin.rnea(model, data, q, np.asarray(s.joint_velocity), np.asarray(acceleration))
    # The force that a frame supports needs accelerations, too, which rnea does not leave.
    pin.forwardKinematics(model, data, q, np.asarray(s.joint_velocity), np.asarray(acceleration))
    pin.updateFramePlacements(model, data)
    return model, data, a, s, acceleration


@jax.jit
def supported(a, s, acceleration, offset) -> dict:
    """By link, and by a pose in the bracket's frame: what it supports, with and without what moves,
    and the wrench."""
    poses = {name: (name, None) for name in (*RIGID, "arm")} | {"offset": ("bracket", offset)}
    return {
        key: (
            artix.supported_inertia(a, s, *frame),
            artix.supported_inertia(a, s, *frame, with_subtree=False),
            artix.supported_force(a, s, acceleration, *frame),
        )
        for key, frame in poses.items()
    }


@pytest.mark.slow
def test_supported_by_frames(rig) -> None:
    model, data, a, s, acceleration = rig
    offset = jnp.array([0.1, -0.2, 0.3, 0.5, 0.5, 0.5, 0.5])
    found = supported(a, s, acceleration, offset)
    for name in RIGID:
        # Pinocchio keeps the inertias of rigidly held links in the frames of their joints.
        frame = model.getFrameId(JOINTS[name])
        whole, own = (
            pin.computeSupportedInertiaByFrame(model, data, frame, k).matrix()
            for k in (True, False)
        )
        through = pin.computeSupportedForceByFrame(model, data, frame).vector
        np.testing.assert_allclose(found[name][1], own, atol=1e-12)
        if name == "camera":
            # Nothing moves on it, so it supports itself alone; Pinocchio counts whatever moves on
            # the same body.
            np.testing.assert_allclose(found[name][0], own, atol=1e-12)
            continue
        np.testing.assert_allclose(found[name][0], whole, atol=1e-12)
        np.testing.assert_allclose(found[name][2], through, atol=1e-12)
    for have in found["arm"][:2]:
        np.testing.assert_allclose(have, model.inertias[2].matrix(), atol=1e-12)
    np.testing.assert_allclose(found["arm"][2], data.f[2].vector, atol=1e-12)
    # Seen from elsewhere.
    place = pin.XYZQUATToSE3(np.asarray(offset))
    action, dual = place.toActionMatrix(), place.inverse().toDualActionMatrix()
    whole, own, through = found["bracket"]
    for have, inertia in zip(found["offset"], (whole, own), strict=False):
        np.testing.assert_allclose(have, action.T @ np.asarray(inertia) @ action, atol=1e-12)
    np.testing.assert_allclose(found["offset"][2], dual @ np.asarray(through), atol=1e-12)


@pytest.mark.slow
def test_rows_of_rigid_links(rig) -> None:
    """The rows of links that fixed joints hold say what flows through those joints."""
    _, _, a, s, acceleration = rig
    index = [a.topology.link_index(name) for name in (*RIGID, "arm")]
    wanted = supported(a, s, acceleration, jnp.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]))

    @jax.jit
    def rows(s):
        return (
            artix.composite_spatial_inertias(a, s, axes="local"),
            artix.joint_wrenches(a, s, acceleration, axes="local"),
            artix.articulated_body_inertias(a, s, armature=False, axes="local"),
            artix.articulated_body_inertias(a, s, armature=False, projected=True, axes="local"),
            artix.subtree_centers_of_mass(a, s),
            artix.joint_placements(a, s),
        )

    composite, wrenches, articulated, projected, centers, placements = rows(s)
    for k, name in zip(index, (*RIGID, "arm"), strict=True):
        np.testing.assert_allclose(composite[k], wanted[name][0], atol=1e-12)
        np.testing.assert_allclose(wrenches[k], wanted[name][2], atol=1e-12)
    bracket, camera, arm = index
    np.testing.assert_allclose(
        artix.subtree_masses(a)[jnp.array(index)], [2.1, 0.3, 1.1], atol=1e-15
    )
    # A fixed joint passes everything on; the bracket feels the arm but along the direction in which
    # it slides.
    np.testing.assert_allclose(projected[bracket], articulated[bracket], atol=1e-12)
    place = pin.XYZQUATToSE3(np.asarray(placements[arm])).inverse().toActionMatrix()
    carried = place.T @ np.asarray(projected[arm]) @ place
    np.testing.assert_allclose(articulated[bracket], wanted["bracket"][1] + carried, atol=1e-12)
    direction = np.array([0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(projected[arm] @ direction, np.zeros(6), atol=1e-12)
    np.testing.assert_allclose(
        centers[camera], artix.frame_pose(a, s)[camera, :3] + _turned(a, s, camera), atol=1e-12
    )


def _turned(a, s, link: int) -> np.ndarray:
    """From a link's origin to its centre of mass, in world axes."""
    turn = pin.XYZQUATToSE3(np.asarray(artix.frame_pose(a, s)[link])).rotation
    return turn @ np.asarray(a.link_com_pose[link, :3])


@pytest.mark.slow
def test_subtrees_without_mass() -> None:
    """They have a centre, that of their link's mass frame, and no NaN, nor has a gradient."""
    a = artix.robots.load("double_pendulum").astype("float64")
    a = a.replace(link_mass=a.link_mass.at[-1].set(0.0))
    s = state_at(random_states(a, 1, seed=4), 0)
    last = a.topology.num_links - 1

    def center(position):
        return artix.subtree_centers_of_mass(a, s.replace(joint_position=position))[last]

    wanted = artix.frame_pose(a, s)[last, :3] + _turned(a, s, last)
    np.testing.assert_allclose(center(s.joint_position), wanted, atol=1e-12)
    np.testing.assert_allclose(
        jax.jacfwd(center)(s.joint_position),
        artix.subtree_center_of_mass_jacobian(a, s, last),
        atol=1e-12,
    )


@pytest.mark.parametrize(
    "function", ["frame_velocity", "composite_spatial_inertias", "link_momenta"]
)
def test_unknown_axes_are_refused(rig, function: str) -> None:
    with pytest.raises(
        ValueError, match="axes must be 'world_aligned', 'local' or 'world'; found 'body'"
    ):
        getattr(artix, function)(rig[2], rig[3], axes="body")
