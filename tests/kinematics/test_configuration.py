"""The configuration manifold against Pinocchio: paths, distances, Jacobians, normal forms, and Lie
groups."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.math import lie
from tests.support import oracles
from tests.support.bases import BASES, BASES_FIXED_SLOW
from tests.support.models import random_states, state_at, tree_of
from tests.support.oracle_derivatives import differences

pin = oracles.pin

TOLERANCE = 1e-12
FRACTION = 0.3


@functools.cache
def case(fixed_base: bool):
    """A tree with spherical, revolute and prismatic joints, two configurations, a displacement, and
    all quantities."""
    model, a = oracles.spherical_model(4, fixed_base=fixed_base)
    start, end = (state_at(random_states(a, 2, seed=7), k) for k in range(2))
    if fixed_base:
        end = end.replace(root_pose=start.root_pose)
    dnu = jnp.asarray(np.random.default_rng(1).normal(size=a.topology.nv))

    @jax.jit
    def quantities(start, end, dnu):
        moved = artix.integrate_derivatives(a, start, dnu)

        def nowhere(q):
            return artix.distance(a, start, start.replace(joint_position=q))

        return {
            "integrate": artix.integrate(a, start, dnu),
            "difference": artix.difference(a, start, end),
            "interpolate": artix.interpolate(a, start, end, FRACTION),
            "squared_distance": artix.squared_distance(a, start, end),
            "distance": artix.distance(a, start, end),
            "gradient of no distance": jax.grad(nowhere)(start.joint_position),
            "integrate_derivatives": moved,
            "difference_derivatives": artix.difference_derivatives(a, start, end),
            "transport": artix.transport(a, start, dnu, moved.displacement),
            "configuration_rate_map": artix.configuration_rate_map(a, start),
        }

    oracle = [oracles.Oracle.at(model, a, state) for state in (start, end)]
    return model, a, oracle, (start, end, dnu), quantities(start, end, dnu)


def pinocchio_of(model, a, state) -> np.ndarray:
    return oracles.Oracle.at(model, a, state).q


def joint_entries(a, array):
    """The joints' part of rows, or of rows and columns, of ``nu``."""
    base = a.topology.num_base_dofs
    return array[base:] if array.ndim == 1 else array[base:, base:]


def close(found, wanted, tolerance: float = TOLERANCE) -> None:
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@BASES_FIXED_SLOW
def test_paths_against_pinocchio(fixed_base: bool) -> None:
    model, a, (first, second), (start, end, dnu), found = case(fixed_base)
    order = first.dof_order
    move = np.zeros(model.nv)
    move[order] = dnu
    if not fixed_base:
        # The same rotation along the base's own axes; its centre of mass moves on another path.
        move[3:6] = oracles.placement_of(start.root_pose).rotation.T @ np.asarray(dnu[3:6])
    paths = {
        "integrate": pin.integrate(model, first.q, move),
        "interpolate": pin.interpolate(model, first.q, second.q, FRACTION),
    }
    for name, wanted in paths.items():
        have = pinocchio_of(model, a, found[name])
        if not fixed_base:
            have[:3], wanted[:3] = 0.0, 0.0
        assert pin.isSameConfiguration(model, have, wanted, 1e-12) or same_up_to_sign(
            model, have, wanted
        ), name
    between = pin.difference(model, first.q, second.q)[order]
    close(joint_entries(a, found["difference"]), joint_entries(a, between))
    if not fixed_base:
        turned = oracles.placement_of(start.root_pose).rotation @ between[3:6]
        close(found["difference"][3:6], turned)
        lever = np.asarray(a.link_com_pose[0, :3])
        states = start, found["interpolate"], end
        centers = [oracles.placement_of(state.root_pose).act(lever) for state in states]
        close(found["difference"][:3], centers[2] - centers[0])
        close(centers[1], (1 - FRACTION) * centers[0] + FRACTION * centers[2])


def same_up_to_sign(model, have, wanted) -> bool:
    """Whether two of Pinocchio's configurations agree but for the signs of quaternions."""
    for joint in range(1, model.njoints):
        first, size = model.idx_qs[joint], model.nqs[joint]
        one, two = (q[first : first + size].copy() for q in (have, wanted))
        if size in (4, 7) and one[-4:] @ two[-4:] < 0:
            one[-4:] *= -1
        if np.abs(one - two).max() > TOLERANCE:
            return False
    return True


@BASES_FIXED_SLOW
def test_distances_against_pinocchio(fixed_base: bool) -> None:
    model, a, (first, second), _, found = case(fixed_base)
    squares = pin.squaredDistance(model, first.q, second.q)
    joints = [
        a.topology.joint_names.index(model.names[joint])
        for joint in range(1 if fixed_base else 2, model.njoints)
    ]
    close(found["squared_distance"][1:][np.array(joints)], squares[0 if fixed_base else 1 :])
    close(
        found["squared_distance"][0], np.sum(found["difference"][: a.topology.num_base_dofs] ** 2)
    )
    close(found["distance"] ** 2, np.sum(found["squared_distance"]))
    if fixed_base:
        close(found["distance"], pin.distance(model, first.q, second.q))
    assert np.all(np.isfinite(found["gradient of no distance"]))


@BASES_FIXED_SLOW
def test_jacobians_against_pinocchio(fixed_base: bool) -> None:
    model, a, (first, second), (_, _, dnu), found = case(fixed_base)
    order, move = first.dof_order, np.zeros(model.nv)
    move[order] = dnu
    wanted = {
        "integrate_derivatives": pin.dIntegrate(model, first.q, move),
        "difference_derivatives": pin.dDifference(model, first.q, second.q),
    }
    for name, pair in wanted.items():
        for have, want in zip(found[name], pair, strict=True):
            close(joint_entries(a, have), joint_entries(a, want[np.ix_(order, order)]))
    carried = np.asarray(found["integrate_derivatives"][1])
    columns = np.zeros_like(carried)
    columns[order] = carried
    transported = pin.dIntegrateTransport(model, first.q, move, columns, pin.ARG0)[order]
    close(joint_entries(a, found["transport"]), joint_entries(a, transported))
    if not fixed_base:
        # The root turns about the world's axes: Pinocchio's calculus of SO(3) from the left.
        w, unit, rest = np.asarray(dnu[3:6]), np.eye(3), np.zeros((3, 3))
        between = pin.exp3(np.asarray(found["difference"][3:6]))
        roots = {
            "integrate_derivatives": [(unit, pin.exp3(w)), (unit, pin.Jexp3(w).T)],
            "difference_derivatives": [(-unit, -pin.Jlog3(between)), (unit, pin.Jlog3(between).T)],
        }
        for name, pair in roots.items():
            for have, (linear, angular) in zip(found[name], pair, strict=True):
                close(have[:6, :6], np.block([[linear, rest], [rest, angular]]))
                assert not np.any(have[:6, 6:]) and not np.any(have[6:, :6])


@BASES_FIXED_SLOW
def test_rate_map_against_pinocchio(fixed_base: bool) -> None:
    model, a, (oracle, _), (start, _, _), found = case(fixed_base)
    wanted = pin.tangentMap(model, oracle.q) @ np.linalg.inv(oracle.twist_map)
    matrix, base = np.asarray(found["configuration_rate_map"]), 0 if fixed_base else 7
    signs = np.ones(base)
    signs[3:] = np.sign(start.root_pose[3:] @ oracle.q[3:7]) if base else 1.0
    close(matrix[:base] * signs[:, None], wanted[:base])
    for name in a.topology.joint_names:
        joint, dofs = model.getJointId(name), a.topology.dofs(name)
        rows = matrix[base:][dofs]
        if model.nqs[joint] == 4:
            vector = start.joint_position[dofs]
            rows = np.asarray(jax.jacfwd(lie.so3_exp)(vector)) @ rows
            rows *= np.sign(lie.so3_exp(vector) @ oracle.q[model.idx_qs[joint] :][:4])
        close(rows, wanted[model.idx_qs[joint] :][: model.nqs[joint]])


def test_jacobians_with_locked_axes() -> None:
    """Spherical joints with one or two free axes, whose third component integrate drops: against
    differences."""
    a = tree_of(["spherical_01", "spherical_2", "prismatic_x"], [0, 1, 2], fixed_base=False, seed=3)
    start, end = (state_at(random_states(a, 2, seed=3), k) for k in range(2))
    dnu, unit = (
        jnp.asarray(np.random.default_rng(4).normal(size=a.topology.nv)),
        jnp.eye(a.topology.nv),
    )
    integrate, difference = (
        jax.jit(functools.partial(one, a)) for one in (artix.integrate, artix.difference)
    )
    there = integrate(start, dnu)
    moved = (
        (
            lambda k, h: integrate(integrate(start, h * unit[k]), dnu),
            lambda state: difference(there, state),
        ),
        (lambda k, h: integrate(start, dnu + h * unit[k]), lambda state: difference(there, state)),
        (lambda k, h: integrate(start, h * unit[k]), lambda state: difference(state, end)),
        (lambda k, h: integrate(end, h * unit[k]), lambda state: difference(start, state)),
    )
    derivatives = jax.jit(
        lambda start, end: (
            *artix.integrate_derivatives(a, start, dnu),
            *artix.difference_derivatives(a, start, end),
        )
    )
    found = derivatives(start, end)
    for have, (state_of, function) in zip(found, moved, strict=True):
        close(have, differences(function, state_of, a.topology.nv), 1e-10)


def test_normal_forms() -> None:
    model, a, _, (start, _, _), _ = case(False)
    long = start.replace(root_pose=start.root_pose * jnp.array([1, 1, 1, -2.5, -2.5, -2.5, -2.5]))
    shoulder = a.topology.dofs("shoulder")
    vector = np.asarray(start.joint_position[shoulder])
    whole_turn = vector * (1 - 2 * np.pi / np.linalg.norm(vector))
    long = long.replace(joint_position=long.joint_position.at[shoulder].set(whole_turn))
    assert not artix.is_normalized(a, long)
    short = artix.normalize(a, long)
    assert artix.is_normalized(a, short)
    unit = pin.normalize(model, pinocchio_of(model, a, long))
    assert same_up_to_sign(model, pinocchio_of(model, a, short), unit)
    close(short.joint_position[shoulder], vector)
    assert artix.kinematics.is_same_configuration(a, start, long)
    assert not artix.kinematics.is_same_configuration(
        a, start, start.replace(joint_position=start.joint_position + 1e-3)
    )
    b = tree_of(["revolute_twist"], [0], fixed_base=True)
    assert not artix.kinematics.is_same_configuration(
        b, artix.neutral_state(b), state_at(random_states(b, 1), 0)
    )
    q = jnp.array([6.5 * np.pi])
    close(
        artix.normalize(b, artix.neutral_state(b).replace(joint_position=q)).joint_position,
        q - 8 * np.pi,
    )


@pytest.mark.slow
@pytest.mark.parametrize("holds", [True, False])
def test_two_axes(holds: bool) -> None:
    """A Cardan joint has every identity between positions and velocities; a spherical joint of two
    axes lacks these."""
    axes = (artix.Axis.SWING1, artix.Axis.SWING2)
    builder = artix.ArticulationBuilder(fixed_base=True)
    builder.add_link(name="base")
    joint = artix.CompositeJoint.universal(axes) if holds else artix.Joint.spherical(axes)
    com = [0.1, 0.2, 0.3, 0.0, 0.0, 0.0, 1.0]
    builder.add_link(0, joint, mass=1.0, inertia=[0.1, 0.2, 0.3], com_pose=com, name="tip")
    a = builder.build("float64")
    s, t = (
        artix.neutral_state(a).replace(joint_position=jnp.array(q))
        for q in ([0.9, 0.7], [-0.3, 0.4])
    )
    d, still = jnp.array([0.3, -0.5]), jnp.zeros(2)

    def along(function):
        return lambda dnu: function(a, artix.integrate(a, s, dnu))

    step = artix.difference(a, s, t)
    inverse = artix.kinematics.difference_derivatives(a, s, t).end
    errors = {
        "difference(integrate)": artix.difference(a, s, artix.integrate(a, s, d)) - d,
        "integrate(difference)": artix.integrate(a, s, step).joint_position - t.joint_position,
        "derivatives": inverse @ artix.kinematics.integrate_derivatives(a, s, step).displacement
        - jnp.eye(2),
        "Jacobian": jax.jacfwd(along(artix.center_of_mass))(still)
        - artix.center_of_mass_jacobian(a, s),
        "gravity": jax.grad(along(artix.potential_energy))(still)
        - artix.gravity_compensation(a, s),
    }
    sizes = {name: float(jnp.max(jnp.abs(error))) for name, error in errors.items()}
    assert {name for name, size in sizes.items() if (size < 1e-14) != holds} == set(), sizes
    assert holds or all(size > 0.05 for size in sizes.values()), sizes


def test_wrapped_angles() -> None:
    """Angles 4 pi apart are one configuration, however many turns there are between them."""
    robot = artix.robots.load("double_pendulum").astype("float64")
    assert robot.topology.dof_wraps.all()

    def at(angle: float) -> artix.State:
        return artix.neutral_state(robot).replace(joint_position=jnp.asarray([angle, 0.0]))

    for start, change in ((6.2, 0.2), (-6.2, -0.3), (0.0, 6.0), (3.0, -5.0)):
        step = jnp.asarray([change, 0.0])
        end = artix.integrate(robot, at(start), step)
        np.testing.assert_allclose(artix.difference(robot, at(start), end), step, atol=1e-14)
        half = artix.interpolate(robot, at(start), end, 0.5)
        np.testing.assert_allclose(artix.difference(robot, at(start), half), step / 2, atol=1e-14)
    for angle in (7.0, -20.0, 100.0):
        normal = artix.normalize(robot, at(angle))
        assert artix.kinematics.is_same_configuration(robot, at(angle), normal)
        np.testing.assert_allclose(
            artix.integrate(robot, at(0.0), jnp.asarray([angle, 0.0])).joint_position[0],
            normal.joint_position[0],
        )
        assert abs(normal.joint_position[0]) <= 2 * np.pi


@pytest.mark.slow
def test_lie_groups_against_pinocchio() -> None:
    rng = np.random.default_rng(0)
    scales = np.array([0.0, 1e-9, 1e-3, 0.3, 0.6, 1.0, 2.0, 3.1])
    directions = rng.normal(size=(len(scales), 3))
    angular = scales[:, None] * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    twists = np.concatenate([rng.normal(size=(len(scales), 3)), angular], axis=1)

    @jax.jit
    @jax.vmap
    def found(twist):
        vector, pose = twist[3:], lie.se3_exp(twist)
        return {
            "exp3": lie.so3_exp(vector),
            "log3": lie.so3_log(-2 * lie.so3_exp(vector)),
            "Jexp3": lie.so3_right_jacobian(vector),
            "Jlog3": lie.so3_right_jacobian_inverse(vector),
            "left3": lie.so3_left_jacobian(-vector),
            "leftlog3": lie.so3_left_jacobian_inverse(-vector),
            "exp6": pose,
            "log6": lie.se3_log(pose),
            "Jexp6": lie.se3_right_jacobian(twist),
            "Jlog6": lie.se3_right_jacobian_inverse(twist),
            "left6": lie.se3_left_jacobian(-twist),
            "leftlog6": lie.se3_left_jacobian_inverse(-twist),
        }

    batch = found(jnp.asarray(twists))
    for k, twist in enumerate(twists):
        have, vector = {name: value[k] for name, value in batch.items()}, twist[3:]
        wanted = {
            "exp3": pin.exp3_quat(vector),
            "log3": vector,
            "Jexp3": pin.Jexp3(vector),
            "Jlog3": pin.Jlog3(pin.exp3(vector)),
            "exp6": pin.exp6_quat(twist),
            "log6": twist,
            # Pinocchio's Jexp6 has eight digits at an angle of a thousandth; the series that
            # defines it has all.
            "Jexp6": pin.Jexp6(twist) if scales[k] >= 0.3 else jacobian_by_series(twist),
        }
        wanted |= {"Jlog6": np.linalg.inv(wanted["Jexp6"])}
        wanted |= {f"left{name[4:]}": wanted[name] for name in ("Jexp3", "Jexp6")}
        wanted |= {f"leftlog{name[4:]}": wanted[name] for name in ("Jlog3", "Jlog6")}
        for name, want in wanted.items():
            close(have[name], want, 1e-9)


def jacobian_by_series(twist: np.ndarray) -> np.ndarray:
    """The right Jacobian of SE(3) as the sum of ``(-ad)^k / (k + 1)!``."""
    adjoint, total, term = pin.Motion(twist).action, np.eye(6), np.eye(6)
    for k in range(1, 12):
        term = -term @ adjoint / (k + 1)
        total = total + term
    return total


@BASES
def test_generalized_velocities(fixed_base: bool) -> None:
    """They move links as the Jacobian says, and states take them back."""
    a = oracles.spherical_model(4, fixed_base=fixed_base)[1]
    state, other = (state_at(random_states(a, 2, seed=3), k) for k in range(2))
    nu = artix.generalized_velocity(a, state)
    assert nu.shape == (a.topology.nv,)
    links = artix.frame_velocity(a, state, offset="com")[1 if fixed_base else 0 :].ravel()
    np.testing.assert_allclose(artix.physx.dense_jacobian(a, state) @ nu, links, rtol=0, atol=1e-12)
    moved = artix.with_generalized_velocity(a, other, nu)
    np.testing.assert_array_equal(artix.generalized_velocity(a, moved), nu)
    np.testing.assert_array_equal(moved.joint_position, other.joint_position)
    with pytest.raises(ValueError, match=r"velocity: expected shape \(\d+,\) \(nv\)"):
        artix.with_generalized_velocity(a, state, nu[:-1])
