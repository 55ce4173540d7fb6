"""A quadruped jumps: iLQR through the step's own contact, without a contact schedule.

The cost asks for a high trunk halfway through and for standing still at the end. Nothing says when
feet leave the ground or come back: the optimiser finds out from the derivatives of
:func:`artix.step`, which include contact. As on a real robot, soft drives hold the posture and the
controls are torques added to them, so any trial lands on its legs.

``python -m artix.examples.jump`` solves the problem and prints how high the robot jumps.
"""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp

import artix
from artix import optimal_control
from artix.examples import trot

Array = jax.Array
DT, KNOTS = 0.01, 90
#: Desired height of the trunk in the middle [m]; it stands at 0.325 m on bent legs.
APEX = 0.52
FRICTION = 0.8


def jumper() -> artix.Articulation:
    """The built-in quadruped, with soft drives that hold its standing posture."""
    robot = artix.robots.load("quadruped")
    bent = trot.standing(robot).joint_position
    drive = robot.drive.replace(
        stiffness=jnp.full_like(bent, 40.0), damping=jnp.full_like(bent, 2.0), target_position=bent
    )
    return robot.replace(drive=drive)


def running(knot: optimal_control.Knot) -> Array:
    """Height at the apex; at all times attitude, posture, speed and torque, with weights low enough
    to allow a jump.
    """
    robot, state, nominal = knot.articulation, knot.state, knot.parameters
    moved = optimal_control.posture(robot, state, nominal)
    velocity = artix.generalized_velocity(robot, state)
    return jnp.concatenate(
        [
            40.0 * knot.reference * (state.root_pose[2:3] - APEX),
            2.0 * moved[:2],
            4.0 * moved[3:6],
            0.5 * moved[6:],
            0.2 * velocity[:2],
            0.2 * velocity[3:6],
            0.03 * velocity[6:],
            0.02 * knot.control,
        ]
    )


def final(knot: optimal_control.Knot) -> Array:
    """Back at the start, and at rest."""
    moved = optimal_control.posture(knot.articulation, knot.state, knot.parameters)
    velocity = artix.generalized_velocity(knot.articulation, knot.state)
    return jnp.concatenate(
        [20.0 * moved[:6], 5.0 * moved[6:], 3.0 * velocity[:6], 0.5 * velocity[6:]]
    )


def problem(robot: artix.Articulation) -> optimal_control.Problem:
    """The problem: a :func:`jumper` jumps from standing."""
    options = artix.SolverOptions(smooth_friction=0.1)
    ground = artix.Ground.flat(friction=FRICTION, dtype=robot.dtype)
    dynamics = optimal_control.discrete_dynamics(
        artix.Scene(robot, ground=ground), DT, options=options
    )
    stand = trot.standing(robot)
    apex = jnp.abs(jnp.arange(KNOTS + 1) - 50) < 3
    limit = robot.max_joint_force
    return optimal_control.Problem(
        dynamics,
        dynamics.pack(stand),
        running,
        final,
        references=apex.astype(robot.dtype),
        parameters=stand,
        control_lower=-limit,
        control_upper=limit,
    )


def guess(robot: artix.Articulation) -> Array:
    """Torques that carry the weight, and larger ones during one sixth of a second, [KNOTS, 12]."""
    stand = trot.standing(robot)
    gravity = artix.gravity_compensation(robot, stand)
    # A quarter of the weight acts upwards on each foot.
    lift = sum(artix.frame_jacobian(robot, stand, foot)[2, 6:] for foot in trot.FEET)
    return jnp.tile(gravity[6:] - lift * gravity[2] / 4, (KNOTS, 1)).at[15:32].multiply(PUSH)


#: Factor on the torques during push-off in the guess.
PUSH = 2.5


def solve(robot: artix.Articulation, iterations: int = 60) -> optimal_control.Solution:
    """Finds the jump by single shooting."""
    return optimal_control.solve(problem(robot), guess(robot), iterations=iterations, damping=1e-3)


def foot_heights(robot: artix.Articulation, states: Array) -> Array:
    """Heights of the lowest points of the feet above the ground, for flat states, [T + 1, 4]
    [m].
    """
    dynamics = problem(robot).dynamics

    def one(x: Array) -> Array:
        state = dynamics.unpack(x)
        return artix.frame_pose(robot, state, trot.FEET)[:, 2] - trot.FOOT_RADIUS

    return jax.vmap(one)(states)


def main() -> None:
    """Solves the jump and prints the result."""
    robot = jumper()
    begin = time.perf_counter()
    compiled = jax.jit(lambda: solve(robot)).lower().compile()
    middle = time.perf_counter()
    solution = jax.block_until_ready(compiled())
    print(f"compiled in {middle - begin:.0f} s, solved in {time.perf_counter() - middle:.1f} s")
    lowest = jnp.min(foot_heights(robot, solution.states), axis=1)
    print(f"cost from {solution.iterations.cost[0]:.1f} to {solution.cost:.1f}")
    print(
        f"trunk up to {jnp.max(solution.states[:, 2]):.3f} m, all feet up to "
        f"{jnp.max(lowest):.3f} m"
    )
    print(
        f"all feet in the air for {DT * jnp.sum(lowest > 0.005):.2f} s, at the end "
        f"{solution.states[-1, 2]:.3f} m"
    )


if __name__ == "__main__":
    main()
