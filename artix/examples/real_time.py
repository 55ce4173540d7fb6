"""An arm follows a moving target by model-predictive control against the clock.

Every 20 ms the state is measured. The plan that is made from it arrives some milliseconds later,
when the arm has moved on: computing takes time, and so does the way to the computer and back. Each
plan therefore begins at the state that the arm will have by then, which the model predicts under
the plan that is still acting. Between plans, the policy of the last one drives the arm at 1 kHz. If
a plan is late, the one before acts on.

``python -m artix.examples.real_time`` prints how long plans took by the clock, and how far the tool
is from its target with and without the policy and the prediction.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix import optimal_control

Array = jax.Array
#: Time between two plans, which is that of a knot, and between two commands to the motors [s].
PERIOD, COMMAND = 0.02, 0.001
KNOTS = 20
#: Joint positions at the beginning.
BENT = (0.0, -0.1, 0.0, 1.9, 0.0, 0.8, 0.0)


class Plan(NamedTuple):
    """A plan and its policy."""

    start: Array
    """When it begins [s]."""
    states: Array
    """Flat states, [T + 1, nx]."""
    controls: Array
    """[T, nu] [N m]"""
    gain: Array
    """[T, nu, ndx]"""


class Run(NamedTuple):
    """What :func:`follow_target` recorded.

    Attributes:
      ticks: how long each plan took by the clock [s].
      late: which plans arrived after the delay that the prediction assumed.
      errors: distance of the tool from its target at every command [m].
    """

    ticks: np.ndarray
    late: np.ndarray
    errors: np.ndarray


def target(moment: Array) -> Array:
    """Where the tool should be: on a lying figure of eight, once in two seconds, [3] [m]."""
    angle = jnp.pi * moment
    return jnp.stack([0.45 + 0.0 * angle, 0.2 * jnp.sin(angle), 0.45 + 0.08 * jnp.sin(2 * angle)])


def running(knot: optimal_control.Knot) -> Array:
    """Distance from the target, speed, torques beyond those that hold the arm."""
    robot, state = knot.articulation, knot.state
    missed = optimal_control.frame_position(robot, state, "tool", knot.reference)
    effort = knot.control - artix.gravity_compensation(robot, state)
    return jnp.concatenate([30.0 * missed, 0.1 * state.joint_velocity, 0.02 * effort])


def final(knot: optimal_control.Knot) -> Array:
    """Distance from the target, and speed."""
    missed = optimal_control.frame_position(knot.articulation, knot.state, "tool", knot.reference)
    return jnp.concatenate([60.0 * missed, 0.3 * knot.state.joint_velocity])


def problem(robot: artix.Articulation, x: Array, start: Array) -> optimal_control.Problem:
    """The planning problem of the horizon that begins at a time [s] in a flat state."""
    dynamics, limit = optimal_control.discrete_dynamics(robot, PERIOD), robot.max_joint_force
    references = jax.vmap(target)(start + PERIOD * jnp.arange(KNOTS + 1, dtype=robot.dtype))
    bounds: dict[str, Any] = {"control_lower": -limit, "control_upper": limit}
    return optimal_control.Problem(dynamics, x, running, final, references=references, **bounds)


def first_plan(robot: artix.Articulation, x: Array) -> Plan:
    """Plans from rest, with several iterations."""
    start = jnp.zeros((), robot.dtype)
    task = problem(robot, x, start)
    hold = artix.gravity_compensation(robot, task.dynamics.unpack(x))
    solution = optimal_control.solve(task, jnp.tile(hold, (KNOTS, 1)), iterations=20)
    return Plan(start, solution.states, solution.controls, solution.gain)


def command(
    dynamics: optimal_control.DiscreteDynamics, plan: Plan, x: Array, moment: Array, feedback: bool
) -> Array:
    """Torques of the plan at a moment and, with feedback, what its policy adds in a state, [nu]."""
    knots = jnp.clip((moment - plan.start) / PERIOD, 0, KNOTS - 1e-3)
    passed = jnp.floor(knots)
    k = passed.astype(int)
    if not feedback:
        return plan.controls[k]
    ahead = (knots - passed) * dynamics.difference(plan.states[k], plan.states[k + 1])
    expected = dynamics.integrate(plan.states[k], ahead)
    return plan.controls[k] + plan.gain[k] @ dynamics.difference(expected, x)


def moved(
    robot: artix.Articulation, plan: Plan, x: Array, begin: Array, commands: int, feedback: bool
) -> Array:
    """The states after each of some commands from a moment on, under a plan, [commands, nx]."""
    dynamics = optimal_control.discrete_dynamics(robot, COMMAND)
    limit = robot.max_joint_force

    def body(x: Array, count: Array) -> tuple[Array, Array]:
        moment = begin + COMMAND * count.astype(x.dtype)
        end = dynamics(x, jnp.clip(command(dynamics, plan, x, moment, feedback), -limit, limit))
        return end, end

    return jax.lax.scan(body, x, jnp.arange(commands))[1]


def tick(
    robot: artix.Articulation, plan: Plan, x: Array, moment: Array, lead: int, feedback: bool
) -> Plan:
    """The next plan, by one iteration from the previous one.

    Args:
      robot: the robot that the plan assumes.
      plan: the previous plan, which acts until this one arrives.
      x: the measured state, flat.
      moment: when it was measured [s].
      lead: number of commands until this plan arrives, over which the state is predicted.
      feedback: whether the previous plan's policy acts, or its torques alone.
    """
    if lead:
        x = moved(robot, plan, x, moment, lead, feedback)[-1]
    start = moment + lead * COMMAND
    passed = jnp.round((start - plan.start) / PERIOD).astype(int)
    knots = jnp.minimum(jnp.arange(KNOTS + 1) + passed, KNOTS)
    controls = plan.controls[jnp.minimum(knots[:-1], KNOTS - 1)]
    solution = optimal_control.solve(
        problem(robot, x, start),
        controls,
        plan.states[knots],
        iterations=1,
        step_lengths=4,
        multiple_shooting=True,
    )
    return Plan(start, solution.states, solution.controls, solution.gain)


def follow_target(
    model: artix.Articulation,
    *,
    robot: artix.Articulation | None = None,
    seconds: float = 4.0,
    delay: float = 0.01,
    predict: bool = True,
    feedback: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> Run:
    """Follows the target in closed loop.

    Args:
      model: the arm that plans assume.
      robot: the arm that moves; the same by default.
      seconds: duration [s].
      delay: how long a plan takes to arrive [s], at most ``PERIOD``; one that takes longer to
        compute arrives later.
      predict: whether plans begin at the predicted state when they arrive, or at the measured one.
      feedback: whether the policy drives the arm between plans, or the plans' torques alone.
      clock: tells the time [s].

    Returns:
      How long plans took, and how far the tool was from its target.
    """
    dynamics, commands = optimal_control.discrete_dynamics(model, COMMAND), round(PERIOD / COMMAND)
    arrival = round(delay / COMMAND)
    x = dynamics.pack(
        artix.neutral_state(model).replace(joint_position=jnp.array(BENT, model.dtype))
    )
    plan = jax.jit(functools.partial(first_plan, model))(x)
    # All that a tick does is one compiled function, in which the model is known.
    replan = jax.jit(
        functools.partial(tick, model, lead=arrival if predict else 0, feedback=feedback)
    )
    jax.block_until_ready(replan(plan, x, plan.start))
    move = jax.jit(functools.partial(moved, robot or model, commands=commands, feedback=feedback))

    @jax.jit
    @jax.vmap
    def missed(x: Array, moment: Array) -> Array:
        tool = artix.frame_pose(model, dynamics.unpack(x), "tool")[:3]
        return jnp.linalg.norm(tool - target(moment))

    ticks, late, errors = [], [], []
    for count in range(round(seconds / PERIOD)):
        moment = jnp.asarray(count * PERIOD, model.dtype)
        begin = clock()
        new = jax.block_until_ready(replan(plan, x, moment))
        ticks.append(clock() - begin)
        needed = max(arrival, int(np.ceil(ticks[-1] / COMMAND)))
        late.append(needed > arrival)
        before = move(plan, x, moment)
        switch = min(needed, commands)
        x = before[switch - 1] if switch else x
        after = move(new, x, moment + switch * COMMAND)
        states = jnp.concatenate([before[:switch], after[: commands - switch]])
        x, plan = states[-1], new if needed <= commands else plan
        moments = moment + COMMAND * jnp.arange(1, commands + 1, dtype=model.dtype)
        errors.append(np.asarray(missed(states, moments)))
    return Run(np.array(ticks), np.array(late), np.concatenate(errors))


def comparison(delay: float = 0.015) -> dict[str, Run]:
    """Runs of an arm that is 5 % heavier than planned, in three ways.

    Call it before anything else computes: functions then run in the calling thread. Handing them
    over to another one, as JAX does by default, takes longer than a plan where other programs are
    busy.
    """
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    arm = artix.robots.load("arm7")
    follow = functools.partial(
        follow_target, arm, robot=arm.replace(link_mass=1.05 * arm.link_mass), delay=delay
    )
    return {
        "policy, predicted state": follow(),
        "torques, predicted state": follow(feedback=False),
        "torques, measured state": follow(feedback=False, predict=False),
    }


def report(runs: dict[str, Run]) -> None:
    """Prints times and distances."""
    for name, run in runs.items():
        median, most, worst = 1e3 * np.quantile(run.ticks, [0.5, 0.95, 1.0])
        settled = 1e3 * run.errors[1000:]
        distance = np.sqrt(np.mean(settled**2))
        print(
            f"{name}: plans took {median:.2f} ms (median), {most:.2f} ms (95 %), {worst:.2f} ms "
            f"(longest), {run.late.sum()} of {len(run.late)} were late; the tool was "
            f"{distance:.2f} mm from its target (rms), {settled.max():.2f} mm at most"
        )


def main() -> None:
    """Follows the target for four seconds in three ways."""
    report(comparison())


if __name__ == "__main__":
    main()
