"""Composite and helical joints against Pinocchio's own joint models: kinematics, dynamics and
derivatives."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import ArticulationBuilder, Axis, CompositeJoint, Joint
from tests.io.test_archive import members_of, write
from tests.kinematics.test_configuration import close
from tests.support import oracle_derivatives, oracles
from tests.support.bases import BASES_FIXED_SLOW
from tests.support.models import random_link, random_pose, random_states, state_at, tree_of

pin = oracles.pin

X, Y, Z = np.eye(3)


def _composite(*joints) -> pin.JointModelComposite:
    composite = pin.JointModelComposite()
    for joint in joints:
        composite.addJoint(joint, pin.SE3.Identity())
    return composite


#: How artix makes each joint, and Pinocchio's model of it; their frames coincide at position zero.
JOINTS = {
    "universal": (CompositeJoint.universal, pin.JointModelUniversal(X, Y)),
    "universal_zx": (
        functools.partial(CompositeJoint.universal, (Axis.SWING2, Axis.TWIST)),
        pin.JointModelUniversal(Z, X),
    ),
    "spherical_zyx": (CompositeJoint.spherical_zyx, pin.JointModelSphericalZYX()),
    "cylindrical": (CompositeJoint.cylindrical, _composite(pin.JointModelPX(), pin.JointModelRX())),
    "translation": (CompositeJoint.translation, pin.JointModelTranslation()),
    "planar": (CompositeJoint.planar, pin.JointModelPlanar()),
    "free": (CompositeJoint.free, pin.JointModelFreeFlyer()),
}


@functools.cache
def branches() -> tuple[pin.Model, artix.Articulation]:
    """One branch per joint on a fixed base, each with a hinge at its end, so that what is above
    carries something."""
    rng = np.random.default_rng(3)
    model, builder = pin.Model(), ArticulationBuilder(fixed_base=True, gravity=(1.0, -2.0, -9.0))
    model.gravity = pin.Motion(np.array([1.0, -2.0, -9.0]), np.zeros(3))
    builder.add_link(name="root", mass=1.0, inertia=[0.1, 0.1, 0.1])

    def add(joint: int, parent: int, name: str, made, theirs) -> tuple[int, int]:
        place, link = random_pose(rng), random_link(rng)
        joint = model.addJoint(joint, theirs, oracles.placement_of(place), name)
        center = oracles.placement_of(link["com_pose"])
        model.appendBodyToJoint(
            joint, pin.Inertia(link["mass"], np.zeros(3), link["inertia"]), center
        )
        return joint, builder.add_link(
            parent, made(name=name, parent_pose=place), name=f"{name} link", **link
        )

    for name, (made, theirs) in JOINTS.items():
        joint, link = add(0, 0, name, made, theirs)
        add(joint, link, f"{name} hinge", Joint.revolute, pin.JointModelRX())
    return model, builder.build()


def dofs_of(a: artix.Articulation, name: str) -> np.ndarray:
    """The DOFs of a composite joint, in the order of its joints."""
    names = [one for one in a.topology.joint_names if one == name or one.startswith(f"{name}:")]
    return np.concatenate([np.arange(a.topology.num_dofs)[a.topology.dofs(one)] for one in names])


def to_pinocchio(model, a, state, acceleration):
    """Pinocchio's q, v, a and the matrix E of ``v = E qd``: its planar and free joints move along
    their own axes."""
    q, v, rate, matrix = (
        pin.neutral(model),
        np.zeros(model.nv),
        np.zeros(model.nv),
        np.zeros((model.nv, model.nv)),
    )
    for joint in range(1, model.njoints):
        name, (first, size) = model.names[joint], (model.idx_vs[joint], model.nvs[joint])
        dofs = dofs_of(a, name)
        x, xd, xdd = (
            np.asarray(array)[dofs]
            for array in (state.joint_position, state.joint_velocity, acceleration)
        )
        entries, block, drift = x, np.eye(size), np.zeros(size)
        if name == "planar":
            entries = np.array([*x[:2], np.cos(x[2]), np.sin(x[2])])
            block[:2, :2] = pin.rpy.rpyToMatrix(0.0, 0.0, -x[2])[:2, :2]
            drift[:2] = -np.cross([0.0, 0.0, xd[2]], [*(block[:2, :2] @ xd[:2]), 0.0])[:2]
        elif name == "free":
            entries = np.concatenate([x[:3], pin.exp3_quat(x[3:])])
            block[:3, :3] = pin.exp3(x[3:]).T
            drift[:3] = -np.cross(xd[3:], block[:3, :3] @ xd[:3])
        q[model.idx_qs[joint] : model.idx_qs[joint] + model.nqs[joint]] = entries
        rows = slice(first, first + size)
        v[rows], rate[rows] = block @ xd, block @ xdd + drift
        matrix[rows, dofs] = block
    return q, v, rate, matrix


def compare(model, a, seed: int = 2) -> None:
    """Poses, velocities, mass matrix, inverse and forward dynamics of a fixed base at the
    origin."""
    state = state_at(random_states(a, 1, seed=seed), 0)
    state = state.replace(root_pose=artix.neutral_state(a).root_pose)
    acceleration = jnp.asarray(np.random.default_rng(5).normal(size=a.topology.nv))

    @jax.jit
    def quantities(state, acceleration):
        force = artix.inverse_dynamics(a, state, acceleration)
        links = artix.forward_kinematics(a, state)
        again = artix.forward_dynamics(a, state, force)
        return links.pose, links.velocity, artix.mass_matrix(a, state), force, again

    poses, velocities, matrix, force, again = quantities(state, acceleration)
    q, v, rate, map_ = to_pinocchio(model, a, state, acceleration)
    data = model.createData()
    close(map_.T @ pin.rnea(model, data, q, v, rate), force, 1e-11)
    mass = np.triu(pin.crba(model, data, q))
    close(map_.T @ (mass + np.triu(mass, 1).T) @ map_, matrix, 1e-11)
    close(again, acceleration, 1e-9)
    pin.forwardKinematics(model, data, q, v)
    for joint in range(1, model.njoints):
        link = a.topology.link_index(f"{model.names[joint]} link")
        placement = oracles.placement_of(poses[link])
        assert np.abs(placement.homogeneous - data.oMi[joint].homogeneous).max() <= 1e-12
        center = np.asarray(a.link_com_pose[link, :3])
        speed = data.oMi[joint].rotation @ (
            data.v[joint].linear + np.cross(data.v[joint].angular, center)
        )
        close(
            velocities[link],
            np.concatenate([speed, data.oMi[joint].rotation @ data.v[joint].angular]),
            1e-12,
        )


def test_composite_joints_against_pinocchio() -> None:
    compare(*branches())


URDF = """<robot name="table">
  <link name="world"/>
  {links}
  <joint name="planar" type="planar"><origin xyz="0.1 0.2 0.3" rpy="0.3 0.2 0.1"/>
    <parent link="world"/><child link="planar link"/><axis xyz="{axis}"/></joint>
  <joint name="free" type="floating"><origin xyz="0.2 0.1 0.5" rpy="0 0.2 0.4"/>
    <parent link="planar link"/><child link="free link"/></joint>
  <joint name="hinge" type="revolute"><origin xyz="0 0 0.2"/>
    <parent link="free link"/><child link="hinge link"/><axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="9" velocity="9"/></joint>
</robot>
"""
INERTIAL = """<link name="{0} link"><inertial><origin xyz="0.1 0.2 0"/><mass value="2"/>
  <inertia ixx="0.1" ixy="0.01" ixz="0.02" iyy="0.2" iyz="0" izz="0.15"/></inertial></link>"""
LINKS = "\n".join(INERTIAL.format(name) for name in ("planar", "free", "hinge"))


def test_planar_and_floating_joints_of_urdf() -> None:
    text = URDF.format(links=LINKS, axis="0 0 1")
    compare(pin.buildModelFromXML(text), artix.load_urdf(text))
    # Pinocchio takes every normal for z; the plane is perpendicular to the axis.
    a = artix.load_urdf(URDF.format(links=LINKS, axis="0.36 0.48 0.8"))
    moved = artix.neutral_state(a)
    moved = moved.replace(
        joint_position=moved.joint_position.at[:3].set(jnp.array([0.3, -0.2, 0.7]))
    )
    turn, origin = pin.rpy.rpyToMatrix(0.3, 0.2, 0.1), np.array([0.1, 0.2, 0.3])
    pose = oracles.placement_of(artix.frame_pose(a, moved)[a.topology.link_index("planar link")])
    normal = turn @ np.array([0.36, 0.48, 0.8])
    assert abs(np.linalg.norm(pose.translation - origin) - np.hypot(0.3, 0.2)) <= 1e-12
    assert abs((pose.translation - origin) @ normal) <= 1e-12
    close(pin.log3(pose.rotation @ turn.T), 0.7 * normal)


def test_refusals_about_planar_and_floating_joints_of_urdf() -> None:
    taken = URDF.format(links=LINKS, axis="0 0 1").replace("hinge", "planar:x")
    with pytest.raises(
        artix.DescriptionError,
        match=r"clashes with the parts of the planar joint 'planar' \(planar:x, ",
    ):
        artix.load_urdf(taken)
    floating = (
        '<robot name="x"><link name="world"/>'
        + INERTIAL.format("a")
        + """<joint name="free" type="floating">
      <parent link="world"/><child link="a link"/><limit effort="1" velocity="1"/></joint></robot>"""
    )
    ignored, costs = artix.check_urdf(floating)[::-1]
    assert (ignored.severity, costs.severity) == ("warning", "note")
    assert "URDF defines no <limit> for a floating joint" in str(ignored)
    assert "a floating base costs less; fix: delete the joint and the link 'world'" in str(costs)


@pytest.mark.slow
def test_derivatives_against_differences_of_pinocchio() -> None:
    """Pinocchio's own derivatives are wrong for joints whose motion is not constant in their frame
    (pin 4.1)."""
    model, a = branches()
    state = state_at(random_states(a, 1, seed=2), 0)
    state = state.replace(root_pose=artix.neutral_state(a).root_pose)
    acceleration = jnp.asarray(np.random.default_rng(5).normal(size=a.topology.nv))
    data, unit, integrate = (
        model.createData(),
        jnp.eye(a.topology.nv),
        jax.jit(functools.partial(artix.integrate, a)),
    )

    def force(state):
        q, v, rate, matrix = to_pinocchio(model, a, state, acceleration)
        return matrix.T @ pin.rnea(model, data, q, v, rate)

    def sped(k, h):
        return state.replace(joint_velocity=state.joint_velocity + h * unit[k])

    found = jax.jit(functools.partial(artix.inverse_dynamics_derivatives, a))(state, acceleration)
    for have, moved in (
        (found.configuration, lambda k, h: integrate(state, h * unit[k])),
        (found.velocity, sped),
    ):
        wanted = oracle_derivatives.differences(force, moved, a.topology.nv)
        assert np.abs(have - wanted).max() <= 1e-9 * np.abs(wanted).max()


@pytest.mark.slow
@BASES_FIXED_SLOW
def test_helical_joints_against_pinocchio(fixed_base: bool) -> None:
    model, a = oracles.helical_model(fixed_base=fixed_base)
    rng = np.random.default_rng(1)
    state = state_at(random_states(a, 1, seed=4), 0)
    x, w = (
        jnp.asarray(rng.normal(size=a.topology.nv)),
        jnp.asarray(rng.normal(size=(a.topology.num_links, 6))),
    )
    offset = random_pose(rng)

    @jax.jit
    def quantities(state, x, w):
        links = artix.forward_kinematics(a, state)
        return {
            "link_poses": links.pose,
            "link_velocities": links.velocity,
            "link_accelerations": artix.frame_acceleration(
                a, state, x, offset="com", classical=True
            ),
            "dense_jacobian": artix.physx.dense_jacobian(a, state),
            "frame_jacobian_rate_local": artix.frame_jacobian_rate(
                a, state, 3, offset, axes="local"
            ),
            "mass_matrix": artix.mass_matrix(a, state),
            "coriolis_compensation": artix.coriolis_compensation(a, state),
            "gravity_compensation": artix.gravity_compensation(a, state),
            "inverse_dynamics": artix.inverse_dynamics(a, state, x, w),
            "centroidal_momentum_matrix": artix.centroidal_momentum_matrix(a, state)[0],
        }, artix.inverse_dynamics_derivatives(a, state, x)

    found, derivatives = quantities(state, x, w)
    oracle = oracles.Oracle.at(model, a, state)
    wanted = oracle.quantities(x, w, 3, offset)
    for name, have in found.items():
        want = wanted[name]
        if name == "link_poses":
            want = (
                want * np.where(np.sum(have[:, 3:] * want[:, 3:], axis=1) < 0, -1.0, 1.0)[:, None]
            )
            want[:, :3] = wanted[name][:, :3]
        np.testing.assert_allclose(have, want, rtol=1e-11, atol=1e-11, err_msg=name)
    for have, want in zip(
        derivatives, oracle_derivatives.inverse_dynamics_derivatives(oracle, x), strict=True
    ):
        close(have, want, 1e-10)


@pytest.mark.slow
def test_pitch_is_differentiable_and_part_of_fleets() -> None:
    """The gradient by a pitch against central differences, and a screw in a fleet beside a
    slide."""
    builder = ArticulationBuilder(fixed_base=True)
    base = builder.add_link(name="base", mass=1.0)
    rng = np.random.default_rng(2)
    arm = builder.add_link(base, Joint.revolute(parent_pose=random_pose(rng)), **random_link(rng))
    builder.add_link(
        arm, Joint.helical(pitch=0.2, parent_pose=random_pose(rng)), **random_link(rng)
    )
    a, b = builder.build(), tree_of(["prismatic_y"], [0], fixed_base=True)
    states = [state_at(random_states(one, 1, seed=4), 0) for one in (a, b)]
    energy = jax.jit(lambda pitch: artix.kinetic_energy(a.replace(joint_pitch=pitch), states[0]))
    gradient, h = jax.jit(jax.grad(energy))(a.joint_pitch), 1e-4
    ends = [energy(a.joint_pitch.at[1].add(sign * h)) for sign in (1, -1)]
    assert abs(gradient[1] - (ends[0] - ends[1]) / (2 * h)) <= 1e-9 < abs(gradient[1])
    assert gradient[0] == 0.0  # A hinge does not look at it.
    fleet = artix.Fleet([a, b])
    found = fleet.evaluate(artix.inverse_dynamics, fleet.stack_states(states), jnp.ones((2, 2)))
    for k, (one, state) in enumerate(zip((a, b), states, strict=True)):
        force = jax.jit(artix.inverse_dynamics)(one, state, jnp.ones(one.topology.nv))
        close(found[k, : one.topology.nv], force, 1e-11)


@pytest.mark.slow
def test_steps_keep_the_energy_of_a_screw() -> None:
    """A nut that spins down a fixed screw without friction: angle'' = m g pitch / (I + m
    pitch^2)."""
    builder = ArticulationBuilder(fixed_base=True)
    builder.add_link(name="screw")
    nut = {"mass": 2.0, "inertia": [0.02, 0.02, 0.03]}
    builder.add_link(0, Joint.helical(Axis.SWING2, pitch=0.05), name="nut", **nut)
    a = builder.build()
    states = artix.rollout(a, artix.neutral_state(a), None, 0.01, num_steps=50)
    acceleration = -2.0 * 9.81 * 0.05 / (0.03 + 2.0 * 0.05**2)
    close(states.joint_velocity[:, 0], acceleration * 0.01 * np.arange(1, 51), 1e-9)
    close(
        artix.frame_pose(a, jax.tree.map(lambda leaf: leaf[-1], states))[1, 2],
        0.05 * states.joint_position[-1, 0],
    )


def test_composite_joints_are_named_and_refused() -> None:
    builder = ArticulationBuilder(fixed_base=True)
    base = builder.add_link(name="base", mass=1.0)
    options = {
        "limits": [(-1.0, 1.0), None, (-2.0, 2.0)],
        "armature": [0.1, 0.2, 0.3],
        "max_force": 5.0,
    }
    builder.add_link(
        base, CompositeJoint.planar(**options), name="puck", mass=1.0, inertia=[1, 1, 1]
    )
    twice = CompositeJoint(joints=[Joint.revolute(), Joint.revolute()], name="knee")
    builder.add_link(base, twice, name="leg", mass=1.0)
    a = builder.build()
    names = ("puck_joint:x", "puck_joint:y", "puck_joint:swing2")
    assert set(a.topology.joint_names) == {*names, "knee:0", "knee:1"}
    assert "puck:puck_joint:x" in a.topology.link_names
    dofs = np.array([a.topology.dof_index(name) for name in names])
    close(a.armature[dofs], [0.1, 0.2, 0.3])
    close(a.joint_upper_limit[dofs], [1.0, np.inf, 2.0])
    close(a.max_joint_force[dofs], 5.0)
    with pytest.raises(
        ValueError,
        match=r"composite joint 'hip': armature must have one entry per .*\(2\); found 3",
    ):
        CompositeJoint.universal(name="hip", armature=[0.1, 0.2, 0.3])
    with pytest.raises(TypeError, match="composite joint 'hip': unknown option 'stiffness'"):
        CompositeJoint.universal(name="hip", stiffness=1.0)
    with pytest.raises(ValueError, match="it has no joints"):
        CompositeJoint(joints=[])
    with pytest.raises(
        ValueError,
        match=r"joint 'hip': pitch must be zero: only helical joints have one; found 0\.1",
    ):
        Joint(type=artix.JointType.REVOLUTE, axes=(Axis.TWIST,), name="hip", pitch=0.1)
    with pytest.raises(ValueError, match="pitch must be finite; found nan"):
        Joint.helical(pitch=np.nan)


def test_files_keep_or_refuse_a_screw(tmp_path) -> None:
    _, a = oracles.helical_model(fixed_base=True)
    artix.save(a, tmp_path / "screw.npz")
    again = artix.load(tmp_path / "screw.npz")
    assert again.topology == a.topology
    assert np.array_equal(again.joint_pitch, a.joint_pitch)
    older = {
        name: content
        for name, content in members_of(tmp_path / "screw.npz").items()
        if "pitch" not in name
    }
    write(tmp_path / "older.npz", older)
    assert not np.any(artix.load(tmp_path / "older.npz").joint_pitch)
    for suffix, error in (("urdf", "no helical"), ("xml", "no helical"), ("usda", "no helical")):
        with pytest.raises(ValueError, match=error):
            artix.save(a, tmp_path / f"screw.{suffix}")
