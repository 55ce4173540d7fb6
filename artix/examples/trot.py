"""A quadruped trots by model-predictive control: plans follow a contact schedule, the simulation
has real contact.

Every 20 ms one iteration of iLQR improves a plan of half a second in which feet stand and swing on
a fixed schedule. The plan's policy then drives the joints at 200 Hz, in a simulation with contact
and joint friction that the plan ignores. ``python -m artix.examples.trot`` makes a batch of robots
walk, pushes each once, and prints how many arrive.
"""

from __future__ import annotations

import functools
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import artix
from artix import optimal_control

Array = jax.Array
FEET = ("front_left_foot", "front_right_foot", "rear_left_foot", "rear_right_foot")
#: Diagonal pairs of feet swing together.
OFFSETS = (0.0, 0.5, 0.5, 0.0)
FOOT_RADIUS = 0.018
FRICTION = 0.7


class Gait(NamedTuple):
    """Parameters of the trot.

    Attributes:
      speed: forward speed [m/s].
      period: duration of a cycle [s].
      duty: fraction of the cycle during which a foot stands.
      clearance: height to which feet swing [m].
    """

    speed: float | Array = 0.5
    period: float = 0.5
    duty: float = 0.6
    clearance: float = 0.06


class Plan(NamedTuple):
    """A plan, kept for the next replanning: flat states [T + 1, nx], controls [T, 12] and the
    policy's gain.
    """

    states: Array
    controls: Array
    gain: Array


def standing(robot: artix.Articulation) -> artix.State:
    """The quadruped on bent legs with its feet on level ground."""
    bent = jnp.array([0.0] * 4 + [0.8] * 4 + [-1.5] * 4, robot.dtype)
    state = artix.neutral_state(robot).replace(joint_position=bent)
    low = jnp.min(artix.frame_pose(robot, state, FEET)[:, 2])
    return state.replace(root_pose=state.root_pose.at[2].add(FOOT_RADIUS - low))


def running(knot: optimal_control.Knot) -> Array:
    """Attitude, height and velocity of the trunk, posture, torques, height of swinging feet,
    friction cones.
    """
    robot, state, nominal = knot.articulation, knot.state, knot.parameters["standing"]
    moved = optimal_control.posture(robot, state, nominal)
    velocity = artix.generalized_velocity(robot, state)
    height = artix.frame_pose(robot, state, FEET)[:, 2]
    return jnp.concatenate(
        [
            jnp.array([1.5, 40.0], robot.dtype) * moved[1:3],
            jnp.array([5.0, 5.0, 5.0], robot.dtype) * moved[3:6],
            0.8 * moved[6:],
            4.0 * (velocity[:3] - knot.parameters["velocity"]),
            0.5 * velocity[3:6],
            0.04 * velocity[6:],
            0.03 * knot.control,
            knot.reference["swing"] * 15.0 * (height - knot.reference["height"]),
            0.05
            * optimal_control.violation(
                optimal_control.friction_cone(knot.contact_force, FRICTION - 0.1)
            ),
        ]
    )


def final(knot: optimal_control.Knot) -> Array:
    """The same terms for the last state."""
    moved = optimal_control.posture(knot.articulation, knot.state, knot.parameters["standing"])
    velocity = (
        artix.generalized_velocity(knot.articulation, knot.state)[:3] - knot.parameters["velocity"]
    )
    scale = jnp.array([3.0, 60.0, 20.0, 20.0, 20.0] + [3.0] * 12, velocity.dtype)
    return jnp.concatenate([scale * moved[1:], 12.0 * velocity])


def problem(
    robot: artix.Articulation,
    gait: Gait,
    moment: float | Array,
    *,
    dt: float = 0.02,
    num_knots: int = 25,
) -> optimal_control.Problem:
    """The planning problem of one horizon.

    Args:
      robot: the built-in quadruped, with any masses.
      gait: parameters of the trot.
      moment: time at the beginning of the horizon [s].
      dt: length of a knot [s].
      num_knots: number of knots.

    Returns:
      The problem, which starts from standing.
    """
    times = {"period": gait.period, "dt": dt, "start": moment}
    pattern = optimal_control.gait(OFFSETS, num_knots=num_knots, duty=gait.duty, **times)
    schedule = optimal_control.ContactSchedule.of(robot, FEET, pattern, velocity_gain=1 / dt)
    dynamics = optimal_control.discrete_dynamics(robot, dt, contact_schedule=schedule)
    moments = moment + dt * jnp.arange(num_knots + 1, dtype=robot.dtype)
    phase = jnp.mod(moments[:, None] / gait.period + jnp.array(OFFSETS, robot.dtype), 1.0)
    part = jnp.clip((phase - gait.duty) / (1 - gait.duty), 0.0, 1.0)
    references = {
        "swing": (phase >= gait.duty).astype(robot.dtype),
        "height": (FOOT_RADIUS + gait.clearance * jnp.sin(jnp.pi * part) ** 2).astype(robot.dtype),
    }
    nominal = standing(robot)
    velocity = jnp.stack([jnp.asarray(each, robot.dtype) for each in (gait.speed, 0.0, 0.0)])
    parameters = {"standing": nominal, "velocity": velocity}
    start = dynamics.pack(nominal)
    return optimal_control.Problem(
        dynamics, start, running, final, references=references, parameters=parameters
    )


def repeats(first: optimal_control.Knot, last: optimal_control.Knot) -> Array:
    """The last state is the first one, a stride further along x."""
    robot, stride = first.articulation, first.parameters["stride"]
    ahead = first.state.replace(root_pose=first.state.root_pose.at[0].add(stride))
    velocity = [artix.generalized_velocity(robot, each.state) for each in (first, last)]
    return jnp.concatenate(
        [artix.difference(robot, ahead, last.state), 0.2 * (velocity[1] - velocity[0])]
    )


def cycle_problem(
    robot: artix.Articulation, gait: Gait, num_knots: int = 25
) -> optimal_control.Problem:
    """One period of a trot that repeats itself, whose start is free but for the place, above the
    origin.
    """
    task = problem(robot, gait, 0.0, dt=gait.period / num_knots, num_knots=num_knots)
    stride = jnp.asarray(gait.speed * gait.period, robot.dtype)
    free = jnp.ones(task.dynamics.num_deviations, bool).at[:2].set(False)
    parameters = task.parameters | {"stride": stride}
    return task.replace(final=None, parameters=parameters, closure=repeats, free_start=free)


def cycle(
    robot: artix.Articulation, gait: Gait, num_knots: int = 25
) -> optimal_control.ConstrainedSolution:
    """The trot of least cost that repeats itself, near standing legs that move ahead."""
    task = cycle_problem(robot, gait, num_knots)
    share = jnp.linspace(0, 1, num_knots + 1, dtype=robot.dtype)
    states = (
        jnp.tile(task.start, (num_knots + 1, 1)).at[:, 0].add(share * task.parameters["stride"])
    )
    return optimal_control.solve_constrained(task, jnp.zeros((num_knots, 12), robot.dtype), states)


def first_plan(robot: artix.Articulation, gait: Gait, iterations: int = 10) -> Plan:
    """Plans from standing still, with several iterations."""
    task = problem(robot, gait, 0.0)
    num_knots = len(task.references["swing"]) - 1
    states = jnp.tile(task.start, (num_knots + 1, 1))
    return _plan(
        optimal_control.solve(
            task, jnp.zeros((num_knots, 12), robot.dtype), states, iterations=iterations
        )
    )


def replan(robot: artix.Articulation, gait: Gait, plan: Plan, x: Array, moment: Array) -> Plan:
    """Improves the previous plan, shifted by one knot, with one iteration.

    Args:
      robot: the robot that the plan assumes.
      gait: parameters of the trot.
      plan: the previous plan, one knot old.
      x: the measured state, flat.
      moment: the time [s].
    """
    states = jnp.concatenate([plan.states[1:], plan.states[-1:]])
    controls = jnp.concatenate([plan.controls[1:], plan.controls[-1:]])
    task = problem(robot, gait, moment).replace(start=x)
    solution = optimal_control.solve(
        task, controls, states, iterations=1, step_lengths=4, multiple_shooting=True, damping=1e-4
    )
    return _plan(solution)


def _plan(solution: optimal_control.Solution) -> Plan:
    return Plan(solution.states, solution.controls, solution.gain)


class Push(NamedTuple):
    """A horizontal push on the trunk: its force in world axes [2] [N], and the times when it begins
    and ends [s].
    """

    force: Array
    begin: Array
    end: Array


def walk(
    robot: artix.Articulation,
    gait: Gait,
    push: Push,
    plan: Plan,
    *,
    seconds: float = 11.0,
    dt: float = 0.02,
    substeps: int = 4,
) -> artix.State:
    """Walks in closed loop on level ground.

    Args:
      robot: the robot for both plan and simulation; its joint friction acts only in the simulation.
      gait: parameters of the trot.
      push: the push.
      plan: the first plan.
      seconds: duration of the walk [s].
      dt: time between two plans [s].
      substeps: simulation steps between two plans; the policy acts in each.

    Returns:
      The states at the end of each planning period, every array with a leading axis.
    """
    scene, step = artix.Scene(robot, ground=artix.Ground.flat(friction=FRICTION)), dt / substeps
    dynamics = problem(robot, gait, 0.0).dynamics
    trunk = jnp.zeros((robot.topology.num_links, 6), robot.dtype).at[0, :2].set(1)

    def simulate(state: artix.State, moment: Array, plan: Plan) -> artix.State:
        x = dynamics.pack(state)
        torque = plan.controls[0] + plan.gain[0] @ dynamics.difference(plan.states[0], x)
        pushed = jnp.where(
            (moment >= push.begin) & (moment < push.end), push.force, jnp.zeros_like(push.force)
        )
        external = trunk * jnp.pad(pushed, (0, 4))
        limit = robot.max_joint_force
        control = artix.Control(
            joint_force=jnp.clip(torque, -limit, limit), external_force=external
        )
        return artix.step(scene, state, control, step)

    def body(carry: Any, count: Array) -> tuple[Any, artix.State]:
        state, plan = carry
        moment = (count * dt).astype(robot.dtype)
        plan = replan(robot, gait, plan, dynamics.pack(state), moment)
        for k in range(substeps):
            state = simulate(state, moment + k * step, plan)
        return (state, plan), state

    start = artix.remember_contacts(scene, standing(robot)), plan
    return jax.lax.scan(body, start, jnp.arange(round(seconds / dt)))[1]


def random_pushes(key: Array, count: int, newtons: float = 30.0, seconds: float = 0.2) -> Push:
    """Random pushes in all directions, at times between 2 and 8 s."""
    keys = jax.random.split(key)
    angle = jax.random.uniform(keys[0], (count,), maxval=2 * jnp.pi)
    begin = jax.random.uniform(keys[1], (count,), minval=2.0, maxval=8.0)
    return Push(
        newtons * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1), begin, begin + seconds
    )


def survived(states: artix.State) -> Array:
    """Whether the trunk stayed above 20 cm, within 60 degrees of upright, and moved 5 m forward;
    states [..., T].
    """
    x, y = states.root_pose[..., 3], states.root_pose[..., 4]
    lowest = jnp.min(states.root_pose[..., 2], axis=-1)
    least_cosine = jnp.min(1 - 2 * (x**2 + y**2), axis=-1)
    return (lowest > 0.2) & (least_cosine > 0.5) & (states.root_pose[..., -1, 0] > 5.0)


def main(count: int = 32) -> None:
    """Makes a batch of robots walk, pushes them, and prints how many arrive."""
    robot, gait = artix.robots.load("quadruped"), Gait()
    plan = jax.jit(functools.partial(first_plan, robot, gait))()
    pushes = random_pushes(jax.random.key(0), count)
    walk_all = jax.jit(jax.vmap(lambda push: walk(robot, gait, push, plan)))
    begin = time.perf_counter()
    compiled = walk_all.lower(pushes).compile()
    middle = time.perf_counter()
    states = jax.block_until_ready(compiled(pushes))
    end = time.perf_counter()
    print(f"compiled in {middle - begin:.0f} s, {count} robots walked 11 s in {end - middle:.0f} s")
    print(
        f"{int(jnp.sum(survived(states)))} of {count} arrived; distances [m]: "
        f"{states.root_pose[:, -1, 0].round(2)}"
    )


if __name__ == "__main__":
    main()
