"""Dynamics under constraints: against Pinocchio, by its identities, and through JAX's
transformations."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Constraint, Constraints
from artix.constraints.frame_pairs import AnchorStructure, AnchorType
from tests.dynamics.test_dynamics_derivatives import (
    along_configuration,
    along_velocity,
    relative,
    robot_of,
    small_tree,
)
from tests.dynamics.test_dynamics_derivatives import case as dynamics_case
from tests.support import oracle_constraints, oracles
from tests.support.bases import BASES_FIXED_WEEKLY
from tests.support.models import nu_of, random_states, state_at, with_nu
from tests.support.oracle_constraints import ConstrainedOracle, constraints_of, point, weld
from tests.support.oracle_derivatives import differences

#: Rows on links by name of their joint: feet of the quadruped, the hand of the arm, loops; in both
#: kinds of axes.
CASES = {
    "anymal_b": [
        (point, "LF_KFE"),
        (point, "RF_KFE", None, "world_aligned"),
        (point, "LH_KFE"),
        (point, "RH_KFE"),
    ],
    "panda": [(weld, "panda_joint7", None, "world_aligned")],
    "spherical": [
        (point, "fingertip"),
        (weld, "wrist", "camera"),
        (point, "slider", None, "world_aligned"),
    ],
}


def _mark(robot: str, fixed: bool) -> pytest.MarkDecorator:
    return pytest.mark.exhaustive if robot == "panda" or fixed else pytest.mark.slow


EVERYDAY = ("panda", True)


#: One of them every day.
ON_PINOCCHIO = pytest.mark.parametrize(
    ("robot", "fixed_base"),
    [
        pytest.param(
            robot,
            fixed,
            marks=() if (robot, fixed) == EVERYDAY else _mark(robot, fixed),
        )
        for robot in CASES
        for fixed in (True, False)
    ],
)
GAINS = [(4.0, 3.0), (0.0, 2.0), (5.0, 0.0), (1.0, 1.0)]


def case(robot: str, fixed_base: bool, gains=GAINS):
    model, a = robot_of(robot, fixed_base=fixed_base)
    links = {None: -1} | {name: 1 + k for k, name in enumerate(a.topology.joint_names)}
    structure = [
        make(links[one], *(links.get(x, x) for x in rest)) for make, one, *rest in CASES[robot]
    ]
    anchors = oracle_constraints.random_anchors(structure, 3)
    gains = gains[: len(structure)]
    state = state_at(random_states(a, 1, seed=2), 0)
    force = jnp.asarray(np.random.default_rng(5).normal(size=a.topology.nv))
    return (
        oracles.Oracle.at(model, a, state),
        a,
        state,
        force,
        constraints_of(a, anchors, gains),
        gains,
    )


@jax.jit
def quantities(a, state, force, constraints):
    exact = {"damping": 0.0, "iterations": 1}
    found = artix.constrained_forward_dynamics(a, state, force, constraints, **exact)
    return {
        "forward": found,
        "impact": artix.impulse_dynamics(a, state, constraints, 0.3, **exact),
        "default": artix.constrained_forward_dynamics(a, state, force, constraints),
        "damped": artix.constrained_forward_dynamics(
            a, state, force, constraints, damping=1.0, iterations=1
        ),
        "delassus": artix.delassus_matrix(a, state, constraints),
        "inertia": artix.operational_space_inertia(a, state, constraints),
        "bias": artix.constraint_bias(a, state, constraints),
        "jacobian": artix.constraint_jacobian(a, state, constraints),
        "inverse": artix.constrained_inverse_dynamics(
            a, state, found.acceleration, constraints, constraint_force=found.constraint_force
        ),
    }


@pytest.mark.slow
@ON_PINOCCHIO
def test_against_pinocchio(robot: str, fixed_base: bool) -> None:
    oracle, a, state, force, constraints, gains = case(robot, fixed_base)
    found = quantities(a, state, force, constraints)
    pinocchio = ConstrainedOracle(oracle, constraints.anchors, gains)
    for have, wanted in zip(found["forward"], pinocchio.forward_dynamics(force), strict=False):
        assert relative(have, wanted) <= 1e-9
    assert relative(found["delassus"], pinocchio.delassus()) <= 1e-11
    if all(one.axes == "local" for one in constraints.anchors.structure):
        assert relative(found["delassus"], pinocchio.local_delassus()) <= 1e-11
    np.testing.assert_allclose(
        found["inertia"] @ found["delassus"], np.eye(constraints.num_rows), atol=1e-9
    )
    kept = found["jacobian"] @ found["forward"].acceleration
    assert relative(kept, -found["bias"]) <= 1e-10
    assert found["forward"].residual <= 1e-10 * max(1, np.max(np.abs(found["bias"])))
    # Damped rows lack something that can be measured; of exact ones only rounding errors are left.
    lacked = found["jacobian"] @ found["damped"].acceleration + found["bias"]
    np.testing.assert_allclose(found["damped"].residual, np.max(np.abs(lacked)), rtol=1e-6)
    for have, wanted in zip(found["default"], found["forward"], strict=False):
        assert relative(have, wanted) <= 1e-9
    np.testing.assert_allclose(found["inverse"].force, force, atol=1e-8)
    # Pinocchio's impacts do not know of frames b, nor of welds' other ends.
    if all(one.link_b < 0 for one in constraints.anchors.structure):
        for have, wanted in zip(found["impact"], pinocchio.impact(0.3), strict=True):
            assert relative(have, wanted) <= 1e-9
    after, before = found["impact"].velocity, nu_of(a, state)
    np.testing.assert_allclose(found["jacobian"] @ (after + 0.3 * before), 0, atol=1e-9)


@pytest.mark.slow
@ON_PINOCCHIO
def test_derivatives_against_pinocchio(robot: str, fixed_base: bool) -> None:
    # Pinocchio 4.1's derivatives of a weld in world-aligned axes with a position gain miss the
    # differences of its own dynamics by 9e-2, which artix's agree with to 1e-8.
    gains = [(0.0, 3.0)] if robot == "panda" else GAINS
    oracle, a, state, force, constraints, gains = case(robot, fixed_base, gains)
    found = exact_derivatives(a, state, force, constraints)
    pinocchio = ConstrainedOracle(oracle, constraints.anchors, gains)
    pinocchio.forward_dynamics(force)
    wanted = pinocchio.forward_dynamics_derivatives(force)
    for part, numbers in zip((found.acceleration, found.constraint_force), wanted, strict=True):
        for have, number in zip(part, numbers, strict=True):
            assert relative(have, number) <= 1e-9


@jax.jit
def exact_derivatives(a, state, force, constraints):
    exact = {"damping": 0.0, "iterations": 1}
    return artix.constrained_forward_dynamics_derivatives(a, state, force, constraints, **exact)


@pytest.mark.slow
@BASES_FIXED_WEEKLY
def test_derivatives_against_differences(fixed_base: bool) -> None:
    """Every type of anchor, both kinds of axes, wrenches, armature and gravity scales; impacts and
    rows, too."""
    a = small_tree(fixed_base)
    state, force, w = dynamics_case(a)
    structure = [
        weld(6, 4, "world_aligned"),
        weld(5),
        AnchorStructure(4, -1, AnchorType.JOINT, (1, 4, 5)),
    ]
    structure += [point(3, -1, "world_aligned"), AnchorStructure(6, -1, AnchorType.DISTANCE, (0,))]
    structure[0] = dataclasses.replace(structure[0], rows=(0, 2, 4))
    structure[1] = dataclasses.replace(structure[1], rows=(1, 5))
    structure[3] = dataclasses.replace(structure[3], rows=(0,))
    anchors = oracle_constraints.random_anchors(structure, 3)
    constraints = constraints_of(a, anchors, [*GAINS, (2.0, 0.5)])
    # More rows than a fixed base leaves free, so that the damped system is that of the proximal
    # method.
    options = {"damping": 0.1, "iterations": 1}

    @jax.jit
    def values(s):
        found = artix.constrained_forward_dynamics(a, s, force, constraints, w, **options)
        impact = artix.impulse_dynamics(a, s, constraints, 0.3, **options)
        rows = artix.constraint_kinematics(a, s, constraints)
        acceleration = rows.jacobian @ force + artix.constraint_bias(a, s, constraints)
        return jnp.concatenate([*found[:2], *impact, rows.error, rows.velocity, acceleration])

    @jax.jit
    def derivatives(s):
        forward = artix.constrained_forward_dynamics_derivatives(
            a, s, force, constraints, w, **options
        )
        impact = artix.impulse_dynamics_derivatives(a, s, constraints, 0.3, **options)
        rows = artix.constraint_derivatives(a, s, force, constraints)
        by_q = [
            forward.acceleration.configuration,
            forward.constraint_force.configuration,
            impact.velocity_by_configuration,
            impact.impulse_by_configuration,
            rows.error_by_configuration,
            rows.velocity_by_configuration,
            rows.acceleration_by_configuration,
        ]
        by_v = [
            forward.acceleration.velocity,
            forward.constraint_force.velocity,
            impact.velocity_by_velocity,
            impact.impulse_by_velocity,
            jnp.zeros_like(rows.jacobian),
            rows.jacobian,
            rows.acceleration_by_velocity,
        ]
        return jnp.concatenate(by_q), jnp.concatenate(by_v)

    nv = a.topology.nv
    found = derivatives(state)
    assert (
        relative(found[0], differences(values, along_configuration(a, state), nv, step=2e-4))
        <= 1e-9
    )
    assert relative(found[1], differences(values, along_velocity(a, state), nv, step=2e-4)) <= 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("iterations", [1, 7])
def test_redundant_rows_against_pinocchio(iterations: int) -> None:
    """A weld across five degrees of freedom, twice: every proximal iterate is Pinocchio's, and so
    are the derivatives."""
    model, a = robot_of("spherical", fixed_base=True)
    links = {name: 1 + k for k, name in enumerate(a.topology.joint_names)}
    anchors = oracle_constraints.random_anchors([weld(links["wrist"], links["finger"])] * 2, 3)
    constraints = constraints_of(a, anchors, [(0.0, 0.0)] * 2)
    state = state_at(random_states(a, 1, seed=2), 0)
    force = jnp.asarray(np.random.default_rng(5).normal(size=a.topology.nv))
    options = {"damping": 0.05, "iterations": iterations}
    found = jax.jit(
        lambda s: (
            artix.constrained_forward_dynamics(a, s, force, constraints, **options),
            artix.constrained_forward_dynamics_derivatives(a, s, force, constraints, **options),
        )
    )(state)
    pinocchio = ConstrainedOracle(
        oracles.Oracle.at(model, a, state), anchors, mu=0.05, iterations=iterations
    )
    for have, wanted in zip(found[0], pinocchio.forward_dynamics(force), strict=False):
        assert relative(have, wanted) <= 1e-9
    for part, numbers in zip(
        found[1][:2], pinocchio.forward_dynamics_derivatives(force), strict=True
    ):
        for have, number in zip(part, numbers, strict=True):
            assert relative(have, number) <= 1e-9


@pytest.mark.slow
def test_transformations() -> None:
    """``jvp`` and ``grad`` through states, parameters and constraints; in a batch, in float32,
    without a loop."""
    a = small_tree(False)
    state, force, w = dynamics_case(a)
    anchors = oracle_constraints.random_anchors([point(6), weld(5, axes="world_aligned")], 3)
    constraints = constraints_of(a, anchors, GAINS[:2])
    nv = a.topology.nv
    weights = jnp.cos(jnp.arange(1.0, nv + constraints.num_rows + 1))

    def moved(x, a=a, state=state, force=force, w=w, constraints=constraints):
        """The dynamics after a displacement, with changes of velocity, mass, frames and gains."""
        there = artix.integrate(a, state, x[:nv])
        there = with_nu(a, there, nu_of(a, there) + x[nv : 2 * nv])
        poses = constraints.anchors.pose_a * (1 + x[2 * nv])
        gains = constraints.position_gain + x[2 * nv]
        anchors = constraints.anchors.replace(pose_a=poses)
        changed = a.replace(
            link_mass=a.link_mass * (1 + x[2 * nv]), armature=a.armature * (1 + x[2 * nv])
        )
        constraints = constraints.replace(anchors=anchors, position_gain=gains)
        found = artix.constrained_forward_dynamics(changed, there, force, constraints, w)
        return jnp.concatenate([found.acceleration, found.constraint_force])

    zero = jnp.zeros(2 * nv + 1)
    forward = jax.jit(jax.jacfwd(moved))(zero)
    by = jax.jit(artix.constrained_forward_dynamics_derivatives)(a, state, force, constraints, w)
    for k, part in enumerate((by.acceleration, by.constraint_force)):
        rows = slice(0, nv) if k == 0 else slice(nv, None)
        assert relative(forward[rows, :nv], part.configuration) <= 1e-9
        assert relative(forward[rows, nv : 2 * nv], part.velocity) <= 1e-9
    values, unit = jax.jit(moved), jnp.eye(2 * nv + 1)[2 * nv :]
    parameters = differences(values, lambda k, h: h * unit[k], 1)
    assert relative(forward[:, 2 * nv :], parameters) <= 1e-9

    single = jax.tree.map(lambda x: x.astype("float32"), (a, state, force, w, constraints))
    batch = jax.jit(jax.vmap(jax.grad(lambda x: moved(x, *single) @ weights.astype("float32"))))
    points = jnp.zeros((3, 2 * nv + 1), "float32")
    assert " while(" not in batch.lower(points).compile().as_text()
    found = batch(points)
    assert found.dtype == jnp.float32
    assert relative(found[1], weights @ forward) <= 1e-2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "links", "bound"),
    [
        ("arm7", ["tool"], 1e-3),
        pytest.param("humanoid", ["left_foot", "right_foot"], 2e-4, marks=pytest.mark.slow),
    ],
)
def test_welds_in_single_precision(name, links, bound) -> None:
    """Nine of ten accelerations are those of float64, though hands turn a thousand times as easily
    as they move.

    The others are of nearly singular states of the arm, in which its rows nearly depend on each
    other.
    """
    a = artix.robots.load(name, dtype="float64")
    constraints = artix.Constraints.of(
        a, [artix.Constraint(frame_a=link, type="weld") for link in links]
    )
    states = jax.vmap(lambda key: artix.random_state(a, key))(
        jax.random.split(jax.random.key(0), 128)
    )
    force = jnp.asarray(np.random.default_rng(0).normal(size=(128, a.topology.nv)))

    def acceleration(dtype):
        inputs = jax.tree.map(lambda leaf: leaf.astype(dtype), (a, states, force, constraints))
        solve = jax.vmap(artix.constrained_forward_dynamics, in_axes=(None, 0, 0, None))
        return np.asarray(solve(*inputs).acceleration, np.float64)

    exact = acceleration("float64")
    errors = np.max(np.abs(acceleration("float32") - exact), axis=1) / np.max(np.abs(exact), axis=1)
    assert np.median(errors) <= 1e-4
    assert np.quantile(errors, 0.9) <= bound


def test_rows_that_cannot_move_leave_the_motion_alone() -> None:
    """A fixed base welded to the world, where the Delassus matrix is zero."""
    a = artix.robots.load("double_pendulum")
    constraints = artix.Constraints.of(
        a, [artix.Constraint(frame_a=a.topology.link_names[0], type="weld")]
    )
    state = artix.neutral_state(a).replace(joint_position=jnp.array([0.5, -1.0], a.dtype))
    held = artix.constrained_forward_dynamics(a, state, jnp.zeros(2, a.dtype), constraints)
    np.testing.assert_allclose(
        held.acceleration, artix.forward_dynamics(a, state, jnp.zeros(2, a.dtype)), rtol=1e-6
    )
    np.testing.assert_array_equal(held.constraint_force, 0)


def test_constraints_of_descriptors() -> None:
    a = small_tree(True)
    name = a.topology.frame_names[0]
    link = a.topology.frame_links[0]
    offset = np.array([0.1, 0.2, 0.3, 0.0, 0.0, 0.6, 0.8])
    found = Constraints.of(
        a,
        [
            Constraint(frame_a=name, pose_a=offset, axes="world_aligned", position_gain=2.0),
            Constraint(frame_a="link_1", frame_b="link_5", type="weld", rows=(0, 4)),
        ],
    )
    ends = a.topology.link_index("link_1"), a.topology.link_index("link_5")
    assert found.anchors.structure == (
        point(link, -1, "world_aligned"),
        dataclasses.replace(weld(*ends), rows=(0, 4)),
    )
    state = state_at(random_states(a, 1), 0)
    wanted = artix.frame_pose(a, state, name, jnp.asarray(offset))[:3]
    np.testing.assert_allclose(
        artix.constraint_kinematics(a, state, found).error[:3], wanted, atol=1e-14
    )
    for options, message in [
        ({"frame_a": "link_1", "frame_b": "link_1"}, "must differ"),
        ({"frame_a": None}, "must differ"),
        ({"frame_a": "link_1", "type": "line"}, "type must be"),
        ({"frame_a": "link_1", "axes": "world"}, "axes must be"),
        ({"frame_a": "link_1", "rows": (0, 3)}, "rows of a point"),
        ({"frame_a": "link_1", "rows": (0.7,)}, "rows of a point"),
        ({"frame_a": "link_1", "rows": 1}, "rows of a point"),
        ({"frame_a": "link_1", "velocity_gain": -1.0}, "velocity_gain"),
    ]:
        with pytest.raises(ValueError, match=message):
            Constraint(**options)
    with pytest.raises(KeyError, match="nowhere"):
        Constraints.of(a, [Constraint(frame_a="nowhere")])
    with pytest.raises(ValueError, match="no constraints"):
        Constraints.of(a, [])
    with pytest.raises(ValueError, match="no loop joints"):
        Constraints.of_loop_joints(a)
    with pytest.raises(ValueError, match="iterations"):
        artix.impulse_dynamics(a, state, found, iterations=0)
    with pytest.raises(ValueError, match=r"restitution: expected shape \(\), found \(2,\)"):
        artix.impulse_dynamics(a, state, found, jnp.zeros(2))
    with pytest.raises(ValueError, match=r"damping: expected zero or more, found -1\.0"):
        artix.impulse_dynamics(a, state, found, damping=-1.0)
    with pytest.raises(ValueError, match=r"damping: expected shape \(\) or \(5,\), found \(2,\)"):
        artix.constraints.delassus_matrix(a, state, found, damping=jnp.zeros(2))
    with pytest.raises(ValueError, match="restitution: expected a number between 0 and 1, found 2"):
        artix.impulse_dynamics(a, state, found, 2.0)
    for name in ("position_gain", "velocity_gain"):
        with pytest.raises(ValueError, match=rf"constraints.{name}.*\(2,\)"):
            artix.constraints.constraint_bias(a, state, found.replace(**{name: jnp.zeros(1)}))
    for given, message in (
        (iter([]), "expected a list of artix.Constraint"),
        ("link_1", r"constraints\[0\]"),
    ):
        with pytest.raises(TypeError, match=message):
            Constraints.of(a, given)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="dt: expected a finite number"):
        artix.linearize(a, state, jnp.zeros(a.topology.nv), np.inf)


@pytest.mark.slow
def test_reverse_mode_by_forces_or_velocities_alone() -> None:
    """One right side of the equations does not depend on them then."""
    a = artix.robots.load("quadruped").astype("float64")
    constraints = Constraints.of(a, [Constraint(frame_a=a.topology.link_names[-1])])
    state, force = artix.random_state(a, jax.random.key(0)), jnp.ones(a.topology.nv)

    def accelerate(force):
        return artix.constrained_forward_dynamics(a, state, force, constraints).acceleration

    by = jax.jit(
        lambda f: (
            artix.constrained_forward_dynamics_derivatives(
                a, state, f, constraints
            ).acceleration.force
        )
    )
    wanted = by(force)
    np.testing.assert_allclose(
        jax.jit(jax.jacrev(accelerate))(force), wanted, atol=1e-9 * float(jnp.abs(wanted).max())
    )

    def impact(velocity):
        return artix.impulse_dynamics(
            a, state.replace(joint_velocity=velocity), constraints
        ).velocity

    forward, reverse = (
        jax.jit(mode(impact))(state.joint_velocity) for mode in (jax.jacfwd, jax.jacrev)
    )
    np.testing.assert_allclose(reverse, forward, atol=1e-9 * float(jnp.abs(forward).max()))
