"""``solve_constrained`` beside IPOPT: seven problems, each from ten random starts, discretised alike.

Usage: ``python -m tests.optimal_control.against_ipopt [PROBLEM ...]`` prints the table of docs/optimal_control.md.
It needs ``pip install ipyopt``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix import optimal_control
from artix.optimal_control.problem import residual, residual_cost

Array = jax.Array
Knot, Problem = optimal_control.Knot, optimal_control.Problem
STARTS = 10
#: Relative difference of costs that count as the same.
SAME = 1e-6
#: Relative difference of costs that count as the same.
SAME = 1e-6


class Case(NamedTuple):
    """A problem and how its random starts are drawn."""

    problem: Problem
    knots: int
    noise: np.ndarray
    """Standard deviation of the controls of a start about the forces that hold the robot, [nu] [N m or N]."""
    hold: np.ndarray
    """Controls about which starts are drawn, [nu]."""

    def start(self, seed: int) -> np.ndarray:
        """Controls of a start, [T, nu]: noise that changes every five knots."""
        rng = np.random.default_rng(seed)
        steps = rng.normal(size=(-(-self.knots // 5), len(self.noise)))
        return self.hold + self.noise * np.repeat(steps, 5, axis=0)[: self.knots]


# --- robots ---------------------------------------------------------------------------------------------------------


def hinge(
    position: tuple[float, float, float], axis: artix.Axis = artix.Axis.SWING1, name: str | None = None
) -> artix.Joint:
    return artix.Joint.revolute(axis, wrapped=False, parent_pose=(*position, 0.0, 0.0, 0.0, 1.0), name=name)


def rod(length: float, mass: float, along: tuple[float, float, float] = (1.0, 0.0, 0.0)) -> dict[str, Any]:
    middle = [0.5 * length * each for each in along]
    moment = mass * length**2 / 12
    return {"mass": mass, "com_pose": [*middle, 0.0, 0.0, 0.0, 1.0], "inertia": [moment + 1e-3] * 3}


def arm() -> artix.Articulation:
    """Waist, shoulder and elbow of an arm 0.8 m long, which lies along x at zero."""
    builder = artix.ArticulationBuilder(fixed_base=True, name="arm")
    base = builder.add_link(name="base")
    waist = builder.add_link(base, hinge((0.0, 0.0, 0.0), artix.Axis.SWING2), mass=2.0, inertia=[0.02] * 3)
    upper = builder.add_link(waist, hinge((0.0, 0.0, 0.2)), **rod(0.4, 3.0))
    lower = builder.add_link(upper, hinge((0.4, 0.0, 0.0)), **rod(0.4, 2.0), name="lower")
    builder.add_frame("tool", lower, (0.4, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0))
    return builder.build(jnp.float64)


def pendulum() -> artix.Articulation:
    """Two rods of half a metre that hang at zero."""
    builder = artix.ArticulationBuilder(fixed_base=True, name="pendulum")
    base, down = builder.add_link(name="base"), (0.0, 0.0, -1.0)
    upper = builder.add_link(base, hinge((0.0, 0.0, 0.0)), **rod(0.5, 1.0, down))
    builder.add_link(upper, hinge((0.0, 0.0, -0.5)), **rod(0.5, 1.0, down))
    return builder.build(jnp.float64)


def cart_pole() -> artix.Articulation:
    """A cart of 1 kg whose pole, 0.6 m and 0.3 kg, hangs at zero."""
    builder = artix.ArticulationBuilder(fixed_base=True, name="cart pole")
    base = builder.add_link(name="base")
    slide = artix.Joint.prismatic(artix.Axis.X, name="slide")
    cart = builder.add_link(base, slide, mass=1.0, inertia=[0.01] * 3)
    builder.add_link(cart, hinge((0.0, 0.0, 0.0)), **rod(0.6, 0.3, (0.0, 0.0, -1.0)))
    return builder.build(jnp.float64)


def leg() -> artix.Articulation:
    """A trunk of 4 kg that moves in the x-z plane without turning, on a leg of two rods of 0.25 m."""
    builder = artix.ArticulationBuilder(fixed_base=True, name="leg")
    base, down = builder.add_link(name="base"), (0.0, 0.0, -1.0)
    along = builder.add_link(base, artix.Joint.prismatic(artix.Axis.X, name="along"), mass=0.5, inertia=[0.01] * 3)
    trunk = builder.add_link(along, artix.Joint.prismatic(artix.Axis.Z, name="up"), mass=3.5, inertia=[0.05] * 3)
    thigh = builder.add_link(trunk, hinge((0.0, 0.0, 0.0), name="hip"), **rod(0.25, 0.6, down))
    shank = builder.add_link(thigh, hinge((0.0, 0.0, -0.25), name="knee"), **rod(0.25, 0.3, down))
    builder.add_frame("foot", shank, (0.0, 0.0, -0.25, 0.0, 0.0, 0.0, 1.0))
    return builder.build(jnp.float64)


# --- what is asked of them ------------------------------------------------------------------------------------------


def effort(knot: Knot) -> Array:
    return jnp.concatenate([0.1 * knot.control, 0.03 * knot.state.joint_velocity])


def at_rest(knot: Knot) -> Array:
    return jnp.concatenate([knot.state.joint_position - knot.parameters["goal"], knot.state.joint_velocity])


def outside_sphere(knot: Knot) -> Array:
    """Elbow and tool stay outside a sphere [m^2]."""
    robot, state, (center, radius) = knot.articulation, knot.state, knot.parameters["sphere"]
    points = [artix.frame_pose(robot, state, name)[:3] for name in ("lower", "tool")]
    return jnp.stack([radius**2 - jnp.sum((point - center) ** 2) for point in points])


def within_speed(knot: Knot) -> Array:
    speed = knot.parameters["speed"]
    return jnp.concatenate([knot.state.joint_velocity - speed, -knot.state.joint_velocity - speed])


def within_track(knot: Knot) -> Array:
    track = knot.parameters["track"]
    return jnp.stack([knot.state.joint_position[0] - track, -knot.state.joint_position[0] - track])


def within_cone(knot: Knot) -> Array:
    return optimal_control.friction_cone(knot.contact_force, knot.parameters["friction"], 1.0)


def jump(knot: Knot) -> Array:
    """While the foot stands, its force pushes; the hip and the knee stay within their limits."""
    least, most = knot.parameters["least"], knot.parameters["most"]
    joints = knot.state.joint_position[2:]
    force = optimal_control.friction_cone(knot.contact_force, 0.6) * knot.reference
    return jnp.concatenate([0.02 * force, joints - most, least - joints])


def high(knot: Knot) -> Array:
    """The trunk's height is the goal, and it neither rises nor moves along."""
    q, v = knot.state.joint_position, knot.state.joint_velocity
    return jnp.stack([q[1] - knot.parameters["goal"][1], v[1], q[0]])


def crouched(bend: float) -> np.ndarray:
    """Positions of :func:`leg` with the foot at the origin."""
    return np.array([0.0, 0.5 * np.cos(bend), bend, -2 * bend])


def held(robot: artix.Articulation, q: Any) -> np.ndarray:
    state = artix.neutral_state(robot).replace(joint_position=jnp.asarray(q))
    return np.asarray(artix.gravity_compensation(robot, state))


def bounds(*limits: float) -> dict[str, Array]:
    return {"control_lower": -jnp.array(limits), "control_upper": jnp.array(limits)}


def obstacle(knots: int = 30) -> Case:
    robot, start, goal = arm(), np.array([-0.8, 0.2, 0.3]), np.array([0.8, 0.2, 0.3])
    sphere = jnp.array([0.65, 0.0, 0.1]), jnp.asarray(0.25)
    problem = Problem(
        optimal_control.discrete_dynamics(robot, 1.0 / knots), jnp.asarray([*start, 0, 0, 0]), effort,
        parameters={"goal": jnp.asarray(goal), "sphere": sphere}, final_equality=at_rest, inequality=outside_sphere,
        **bounds(30.0, 40.0, 15.0),
    )  # fmt: skip
    return Case(problem, knots, np.array([2.0, 2.0, 1.0]), held(robot, start))


def torques() -> Case:
    problem = Problem(
        optimal_control.discrete_dynamics(pendulum(), 0.03), jnp.zeros(4), effort,
        parameters={"goal": jnp.array([2.0, -1.0])}, final_equality=at_rest, **bounds(6.0, 2.0),
    )  # fmt: skip
    return Case(problem, 40, np.array([3.0, 1.0]), np.zeros(2))


def speed() -> Case:
    robot, start = arm(), np.array([-0.8, 0.2, 0.3])
    problem = Problem(
        optimal_control.discrete_dynamics(robot, 0.03), jnp.asarray([*start, 0, 0, 0]), effort,
        parameters={"goal": jnp.array([0.8, -0.5, 1.2]), "speed": jnp.array([2.2, 1.0, 1.2])},
        final_equality=at_rest, inequality=within_speed,
    )  # fmt: skip
    return Case(problem, 30, np.array([2.0, 2.0, 1.0]), held(robot, start))


def swing_up() -> Case:
    problem = Problem(
        optimal_control.discrete_dynamics(cart_pole(), 0.04, actuated=["slide"]), jnp.zeros(4), effort,
        parameters={"goal": jnp.array([0.0, np.pi]), "track": jnp.asarray(0.4)}, final_equality=at_rest,
        inequality=within_track, **bounds(15.0),
    )  # fmt: skip
    return Case(problem, 50, np.array([4.0]), np.zeros(1))


def terminal() -> Case:
    problem = Problem(
        optimal_control.discrete_dynamics(pendulum(), 0.03), jnp.zeros(4), effort,
        parameters={"goal": jnp.array([np.pi, 0.0])}, final_equality=at_rest,
    )  # fmt: skip
    return Case(problem, 40, np.array([3.0, 1.0]), np.zeros(2))


def on_leg(active: np.ndarray, bend: float, **options: Any) -> tuple[optimal_control.DiscreteDynamics, Array]:
    robot = leg()
    schedule = optimal_control.ContactSchedule.of(robot, ["foot"], active[:, None])
    dynamics = optimal_control.discrete_dynamics(
        robot, 0.025, contact_schedule=schedule, actuated=["hip", "knee"], **options
    )
    return dynamics, jnp.asarray([*crouched(bend), 0, 0, 0, 0])


def standing_torques(dynamics: optimal_control.DiscreteDynamics, x: Array) -> np.ndarray:
    """Torques of hip and knee under which :func:`leg` stays where it is, [2] [N m]."""
    linear = dynamics.linearize_tangent(x, jnp.zeros(2))
    nv = len(x) // 2
    rows, rest = np.asarray(linear.control_matrix[nv:]), np.asarray(linear.next_state - x)[nv:]
    return np.linalg.lstsq(rows, -rest, rcond=None)[0]


def friction() -> Case:
    dynamics, x = on_leg(np.ones(20, bool), 0.7)
    goal = jnp.asarray([0.12, *crouched(0.7)[1:]])
    problem = Problem(
        dynamics, x, effort, parameters={"goal": goal, "friction": jnp.asarray(0.28)}, final_equality=trunk_at_rest,
        inequality=within_cone,
    )  # fmt: skip
    return Case(problem, 20, np.array([0.5, 0.5]), standing_torques(dynamics, x))


def trunk_at_rest(knot: Knot) -> Array:
    q, v = knot.state.joint_position, knot.state.joint_velocity
    return jnp.concatenate([q[:2] - knot.parameters["goal"][:2], v[:2]])


def joint_limits() -> Case:
    stands = np.arange(20) < 13
    dynamics, x = on_leg(stands, 0.8)
    limits = {"least": jnp.array([-0.2, -1.8]), "most": jnp.array([1.0, -0.45])}
    problem = Problem(
        dynamics, x, effort, references=jnp.asarray(np.append(stands, 0.0)),
        parameters={"goal": jnp.array([0.0, 0.62])} | limits, final_equality=high, inequality=jump,
    )  # fmt: skip
    return Case(problem, 20, np.array([0.5, 0.5]), standing_torques(dynamics, x))


CASES: dict[str, Callable[[], Case]] = {
    "reach around a sphere, torque bounds": obstacle,
    "reach with weak motors": torques,
    "speed limits": speed,
    "swing-up on a short track": swing_up,
    "stand up, end given": terminal,
    "friction cone": friction,
    "jump within joint limits": joint_limits,
}


# --- the same problem for IPOPT -------------------------------------------------------------------------------------


class Transcribed(NamedTuple):
    """What IPOPT found."""

    cost: float
    violation: float
    status: int
    controls: np.ndarray


def transcribed(problem: Problem, knots: int) -> Callable[[np.ndarray, np.ndarray], Transcribed]:
    """IPOPT on the same knots: states and controls are unknowns, steps are equations; exact Hessians by JAX.

    For fixed bases, whose states are vectors.
    """
    import ipyopt

    dynamics, nx, nu = problem.dynamics, problem.dynamics.num_states, problem.dynamics.num_controls
    robot, width, seen = dynamics.articulation, nx + nu, 2 * nx + nu

    def at_knot(z: Array, time: Array) -> tuple[Array, Array, Array]:
        x, control, after = jnp.split(z, [nx, nx + nu])
        end, force = dynamics.step(x, control, time)
        parts = (x, control, force, problem.reference(time), problem.parameters)
        equality, inequality = (
            jnp.zeros(0) if each is None else residual(robot, each, *parts)
            for each in (problem.equality, problem.inequality)
        )
        return residual_cost(robot, problem.running, *parts), jnp.concatenate([after - end, equality]), inequality

    def at_end(x: Array) -> tuple[Array, Array, Array]:
        parts = (x, None, None, problem.reference(-1), problem.parameters)
        equality, inequality = (
            jnp.zeros(0) if each is None else residual(robot, each, *parts)
            for each in (problem.final_equality, problem.final_inequality)
        )
        return residual_cost(robot, problem.final, *parts), equality, inequality

    def rows(values: tuple[Array, Array, Array]) -> Array:
        return jnp.concatenate(values[1:])

    times = jnp.arange(knots)

    def windows(z: Array) -> Array:
        return z[width * np.arange(knots)[:, None] + np.arange(seen)]

    def lagrangian(z: Array, multiplier: Array, factor: Array, time: Array) -> Array:
        values = at_knot(z, time)
        return factor * values[0] + jnp.sum(multiplier * rows(values))

    def last(x: Array, multiplier: Array, factor: Array) -> Array:
        values = at_end(x)
        return factor * values[0] + jnp.sum(multiplier * rows(values))

    shapes = jax.eval_shape(at_knot, jnp.zeros(seen), times[0]), jax.eval_shape(at_end, jnp.zeros(nx))
    (_, equal, unequal), (_, final_equal, final_unequal) = [[each.size for each in shape] for shape in shapes]
    each, end = equal + unequal, final_equal + final_unequal
    count = knots * each + end

    @jax.jit
    def values(z: Array) -> tuple[Array, Array]:
        along, after = jax.vmap(at_knot)(windows(z), times), at_end(z[-nx:])
        constraints = [jax.vmap(lambda *parts: rows(parts))(*along).reshape(-1), rows(after)]
        return jnp.sum(along[0]) + after[0], jnp.concatenate(constraints)

    @jax.jit
    def slopes(z: Array) -> tuple[Array, Array]:
        by_knot = jax.vmap(jax.jacfwd(lambda z, time: (lambda v: (v[0], rows(v)))(at_knot(z, time))))
        by_cost, by_rows = by_knot(windows(z), times)
        end_cost, end_rows = jax.jacfwd(lambda x: (lambda v: (v[0], rows(v)))(at_end(x)))(z[-nx:])
        gradient = jnp.zeros_like(z).at[width * np.arange(knots)[:, None] + np.arange(seen)].add(by_cost)
        return gradient.at[-nx:].add(end_cost), jnp.concatenate([by_rows.reshape(-1), end_rows.reshape(-1)])

    lower, end_lower = np.tril_indices(seen), np.tril_indices(nx)

    @jax.jit
    def curvatures(z: Array, multipliers: Array, factor: Array) -> Array:
        of_knots = multipliers[: knots * each].reshape(knots, each)
        blocks = jax.vmap(jax.hessian(lagrangian), in_axes=(0, 0, None, 0))(windows(z), of_knots, factor, times)
        block = jax.hessian(last)(z[-nx:], multipliers[knots * each :], factor)
        return jnp.concatenate([blocks[:, lower[0], lower[1]].reshape(-1), block[end_lower]])

    columns = width * np.arange(knots)[:, None] + np.arange(seen)
    end_columns = width * knots + np.arange(nx)
    row = each * np.arange(knots)[:, None] + np.arange(each)
    jacobian = (
        np.concatenate([np.repeat(row, seen), np.repeat(knots * each + np.arange(end), nx)]),
        np.concatenate([np.repeat(columns, each, axis=0).ravel(), np.tile(end_columns, end)]),
    )
    hessian = tuple(
        np.concatenate([columns[:, k].ravel(), end_columns[e]]) for k, e in zip(lower, end_lower, strict=True)
    )
    least, most = np.full(width * knots + nx, -np.inf), np.full(width * knots + nx, np.inf)
    least[:nx] = most[:nx] = np.asarray(problem.start)
    if problem.has_bounds:
        controls = width * np.arange(knots)[:, None] + nx + np.arange(nu)
        least[controls], most[controls] = problem.control_lower, problem.control_upper
    low = np.concatenate([np.tile(np.repeat([0.0, -np.inf], [equal, unequal]), knots),
                          np.repeat([0.0, -np.inf], [final_equal, final_unequal])])  # fmt: skip

    def put(out: np.ndarray, value: Any) -> None:
        out[:] = value

    program = ipyopt.Problem(
        n=len(least), x_l=least, x_u=most, m=count, g_l=low, g_u=np.zeros(count),
        sparsity_indices_jac_g=jacobian, sparsity_indices_h=hessian,
        eval_f=lambda z: float(values(z)[0]),
        eval_grad_f=lambda z, out: put(out, slopes(z)[0]),
        eval_g=lambda z, out: put(out, values(z)[1]),
        eval_jac_g=lambda z, out: put(out, slopes(z)[1]),
        eval_h=lambda z, multipliers, factor, out: put(out, curvatures(z, multipliers, factor)),
        ipopt_options={"print_level": 0, "sb": "yes", "tol": 1e-9, "constr_viol_tol": 1e-9, "max_iter": 1000,
                       "bound_relax_factor": 0.0, "acceptable_iter": 0},
    )  # fmt: skip

    def solve(states: np.ndarray, controls: np.ndarray) -> Transcribed:
        guess = np.concatenate([np.concatenate([states[:-1], controls], axis=1).ravel(), states[-1]])
        z, cost, status = program.solve(guess)
        rest = np.asarray(values(z)[1])
        violation = np.max(np.where(np.isinf(low), np.maximum(rest, 0), np.abs(rest)))
        return Transcribed(cost, float(violation), status, z[:-nx].reshape(knots, width)[:, nx:])

    return solve


class Run(NamedTuple):
    """What both found from one start."""

    found: optimal_control.ConstrainedSolution
    ipopt: Transcribed

    @property
    def difference(self) -> float:
        """By how much the cost exceeds IPOPT's, relative to it."""
        return float(self.found.cost) / self.ipopt.cost - 1


def compare(case: Case, seeds: Sequence[int], **options: Any) -> tuple[list[Run], list[Transcribed]]:
    """Both from the same starts; and IPOPT from what artix found, which it leaves as it is if that is an optimum."""
    peer = transcribed(case.problem, case.knots)
    states_of = jax.jit(lambda controls: optimal_control.rollout(case.problem, controls))
    find = jax.jit(lambda controls: optimal_control.solve_constrained(case.problem, controls, **options))
    runs, checks = [], []
    for seed in seeds:
        controls = case.start(seed)
        found = find(jnp.asarray(controls))
        runs.append(Run(found, peer(np.asarray(states_of(jnp.asarray(controls))), controls)))
        checks.append(peer(np.asarray(found.solution.states), np.asarray(found.solution.controls)))
    return runs, checks


def main() -> None:
    """Prints a row of the table for each problem."""
    jax.config.update("jax_enable_x64", True)
    names = [name for name in CASES if not sys.argv[1:] or CASES[name].__name__ in sys.argv[1:]]
    print(
        "| problem | converged | same | lower | higher | IPOPT confirms | IPOPT fails |\n|---|---|---|---|---|---|---|"
    )
    for name in names:
        runs, checks = compare(CASES[name](), range(STARTS))
        done = [bool(run.found.converged) for run in runs]
        both = [run for run, ok in zip(runs, done, strict=True) if ok and run.ipopt.status == 0]
        differences = np.array([run.difference for run in both])
        same, lower = np.sum(np.abs(differences) <= SAME), np.sum(differences < -SAME)
        confirmed = sum(
            ok and check.status == 0 and abs(float(run.found.cost) / check.cost - 1) <= SAME
            for run, check, ok in zip(runs, checks, done, strict=True)
        )
        failed = sum(run.ipopt.status != 0 for run in runs)
        counts = sum(done), same, lower, len(both) - same - lower, confirmed, failed
        print(f"| {name} | " + " | ".join(str(int(each)) for each in counts) + " |", flush=True)


if __name__ == "__main__":
    main()
