"""``solve_constrained`` beside IPOPT: 21 problems, each from ten random starts, discretised alike.

Usage: ``python -m tests.optimal_control.against_ipopt [--weight WEIGHT ...] [PROBLEM ...]`` prints
the table of docs/constrained_motions.md. It needs the extra ``ipopt``.
"""

from __future__ import annotations

import argparse
import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from scipy.optimize import lsq_linear

import artix
from artix import optimal_control
from artix.optimal_control import sparse_program, transcription
from tests.support.oracles import ROBOT_FILES, ROBOTS

Array = jax.Array
Knot, Problem = optimal_control.Knot, optimal_control.Problem
STARTS = 10
#: Relative difference of costs that count as the same.
SAME = 1e-6


class Case(NamedTuple):
    """A problem and how its random starts are drawn."""

    problem: Problem
    knots: int
    noise: np.ndarray
    """Standard deviation of the controls of a start about the forces that hold the robot, [nu]
    [N m or N]."""
    hold: np.ndarray
    """Controls about which starts are drawn, [nu]."""

    def start(self, seed: int) -> np.ndarray:
        """Controls of a start, [T, nu]: noise that changes every five knots."""
        rng = np.random.default_rng(seed)
        steps = rng.normal(size=(-(-self.knots // 5), len(self.noise)))
        return self.hold + self.noise * np.repeat(steps, 5, axis=0)[: self.knots]


# --- robots -------------------------------------------------------------------------------------


def hinge(
    position: tuple[float, float, float],
    axis: artix.Axis = artix.Axis.SWING1,
    name: str | None = None,
) -> artix.Joint:
    return artix.Joint.revolute(
        axis, wrapped=False, parent_pose=(*position, 0.0, 0.0, 0.0, 1.0), name=name
    )


def rod(
    length: float, mass: float, along: tuple[float, float, float] = (1.0, 0.0, 0.0)
) -> dict[str, Any]:
    middle = [0.5 * length * each for each in along]
    moment = mass * length**2 / 12
    return {"mass": mass, "com_pose": [*middle, 0.0, 0.0, 0.0, 1.0], "inertia": [moment + 1e-3] * 3}


def arm() -> artix.Articulation:
    """Waist, shoulder and elbow of an arm 0.8 m long, which lies along x at zero."""
    builder = artix.ArticulationBuilder(fixed_base=True, name="arm")
    base = builder.add_link(name="base")
    waist = builder.add_link(
        base, hinge((0.0, 0.0, 0.0), artix.Axis.SWING2), mass=2.0, inertia=[0.02] * 3
    )
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
    """A trunk of 4 kg that moves in the x-z plane without turning, on a leg of two rods of 0.25
    m."""
    builder = artix.ArticulationBuilder(fixed_base=True, name="leg")
    base, down = builder.add_link(name="base"), (0.0, 0.0, -1.0)
    along = builder.add_link(
        base, artix.Joint.prismatic(artix.Axis.X, name="along"), mass=0.5, inertia=[0.01] * 3
    )
    trunk = builder.add_link(
        along, artix.Joint.prismatic(artix.Axis.Z, name="up"), mass=3.5, inertia=[0.05] * 3
    )
    thigh = builder.add_link(trunk, hinge((0.0, 0.0, 0.0), name="hip"), **rod(0.25, 0.6, down))
    shank = builder.add_link(thigh, hinge((0.0, 0.0, -0.25), name="knee"), **rod(0.25, 0.3, down))
    builder.add_frame("foot", shank, (0.0, 0.0, -0.25, 0.0, 0.0, 0.0, 1.0))
    return builder.build(jnp.float64)


# --- what is asked of them ----------------------------------------------------------------------


def effort(knot: Knot) -> Array:
    return jnp.concatenate([0.1 * knot.control, 0.03 * knot.state.joint_velocity])


def at_rest(knot: Knot) -> Array:
    return jnp.concatenate(
        [knot.state.joint_position - knot.parameters["goal"], knot.state.joint_velocity]
    )


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


def obstacle(height: float = 0.1, radius: float = 0.25, knots: int = 30) -> Case:
    robot, start, goal = arm(), np.array([-0.8, 0.2, 0.3]), np.array([0.8, 0.2, 0.3])
    sphere = jnp.array([0.65, 0.0, height]), jnp.asarray(radius)
    problem = Problem(
        optimal_control.discrete_dynamics(robot, 1.0 / knots), jnp.asarray([*start, 0, 0, 0]), effort,
        parameters={"goal": jnp.asarray(goal), "sphere": sphere}, final_equality=at_rest, inequality=outside_sphere,
        **bounds(30.0, 40.0, 15.0),
    )  # fmt: skip
    return Case(problem, knots, np.array([2.0, 2.0, 1.0]), held(robot, start))


def torques(
    limits: tuple[float, float] = (6.0, 2.0), goal: tuple[float, float] = (2.0, -1.0)
) -> Case:
    problem = Problem(
        optimal_control.discrete_dynamics(pendulum(), 0.03), jnp.zeros(4), effort,
        parameters={"goal": jnp.array(goal)}, final_equality=at_rest, **bounds(*limits),
    )  # fmt: skip
    return Case(problem, 40, np.array([3.0, 1.0]), np.zeros(2))


def speed(limits: tuple[float, float, float] = (2.2, 1.0, 1.2)) -> Case:
    robot, start = arm(), np.array([-0.8, 0.2, 0.3])
    problem = Problem(
        optimal_control.discrete_dynamics(robot, 0.03), jnp.asarray([*start, 0, 0, 0]), effort,
        parameters={"goal": jnp.array([0.8, -0.5, 1.2]), "speed": jnp.array(limits)},
        final_equality=at_rest, inequality=within_speed,
    )  # fmt: skip
    return Case(problem, 30, np.array([2.0, 2.0, 1.0]), held(robot, start))


def swing_up(track: float = 0.4, force: float = 15.0) -> Case:
    problem = Problem(
        optimal_control.discrete_dynamics(cart_pole(), 0.04, actuated=["slide"]), jnp.zeros(4), effort,
        parameters={"goal": jnp.array([0.0, np.pi]), "track": jnp.asarray(track)}, final_equality=at_rest,
        inequality=within_track, **bounds(force),
    )  # fmt: skip
    return Case(problem, 50, np.array([4.0]), np.zeros(1))


def terminal(goal: tuple[float, float] = (np.pi, 0.0)) -> Case:
    problem = Problem(
        optimal_control.discrete_dynamics(pendulum(), 0.03), jnp.zeros(4), effort,
        parameters={"goal": jnp.array(goal)}, final_equality=at_rest,
    )  # fmt: skip
    return Case(problem, 40, np.array([3.0, 1.0]), np.zeros(2))


def acrobot(limit: float = 12.0) -> Case:
    robot = pendulum()
    elbow = robot.topology.joint_names[-1]
    problem = Problem(
        optimal_control.discrete_dynamics(robot, 0.05, actuated=[elbow]), jnp.zeros(4), effort,
        parameters={"goal": jnp.array([np.pi, 0.0])}, final_equality=at_rest, **bounds(limit),
    )  # fmt: skip
    return Case(problem, 60, np.array([2.0]), np.zeros(1))


def on_leg(
    active: np.ndarray, bend: float, **options: Any
) -> tuple[optimal_control.DiscreteDynamics, Array]:
    robot = leg()
    schedule = optimal_control.ContactSchedule.of(robot, ["foot"], active[:, None])
    dynamics = optimal_control.discrete_dynamics(
        robot, 0.025, contact_schedule=schedule, actuated=["hip", "knee"], **options
    )
    return dynamics, jnp.asarray([*crouched(bend), 0, 0, 0, 0])


def standing_torques(dynamics: optimal_control.DiscreteDynamics, x: Array) -> np.ndarray:
    """Torques under which a robot stays where it is, [nu] [N m]."""
    linear = dynamics.linearize_tangent(x, jnp.zeros(dynamics.num_controls))
    nv = dynamics.num_deviations // 2
    rows, rest = (
        np.asarray(linear.control_matrix[nv:]),
        np.asarray(dynamics.difference(x, linear.next_state))[nv:],
    )
    return np.linalg.lstsq(rows, -rest, rcond=None)[0]


def friction(coefficient: float = 0.28) -> Case:
    dynamics, x = on_leg(np.ones(20, bool), 0.7)
    goal = jnp.asarray([0.12, *crouched(0.7)[1:]])
    problem = Problem(
        dynamics, x, effort, parameters={"goal": goal, "friction": jnp.asarray(coefficient)}, final_equality=trunk_at_rest,
        inequality=within_cone,
    )  # fmt: skip
    return Case(problem, 20, np.array([0.5, 0.5]), standing_torques(dynamics, x))


def trunk_at_rest(knot: Knot) -> Array:
    q, v = knot.state.joint_position, knot.state.joint_velocity
    return jnp.concatenate([q[:2] - knot.parameters["goal"][:2], v[:2]])


def joint_limits(height: float = 0.62) -> Case:
    stands = np.arange(20) < 13
    dynamics, x = on_leg(stands, 0.8)
    limits = {"least": jnp.array([-0.2, -1.8]), "most": jnp.array([1.0, -0.45])}
    problem = Problem(
        dynamics, x, effort, references=jnp.asarray(np.append(stands, 0.0)),
        parameters={"goal": jnp.array([0.0, height])} | limits, final_equality=high, inequality=jump,
    )  # fmt: skip
    return Case(problem, 20, np.array([0.5, 0.5]), standing_torques(dynamics, x))


def talos_effort(knot: Knot) -> Array:
    q, v = knot.state.joint_position, knot.state.joint_velocity
    return jnp.concatenate([0.02 * knot.control, 0.1 * v, 0.1 * (q - knot.parameters["posture"])])


def slow(knot: Knot) -> Array:
    return 3 * knot.state.joint_velocity


def center_at_goal(knot: Knot) -> Array:
    return optimal_control.center_of_mass(knot.articulation, knot.state, knot.parameters["goal"])


def talos(knots: int = 15) -> Case:
    """Talos, 32 motors, moves its centre of mass forwards and down in 0.45 s, with both feet welded
    to the ground."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of attributes of the file that have no meaning
        robot = artix.load(ROBOTS / ROBOT_FILES["talos"], fixed_base=False).astype(jnp.float64)
    bent = {3: -0.411354, 4: 0.859395, 5: -0.448041}
    joints = {
        f"leg_{side}_{k}_joint": angle for side in ("left", "right") for k, angle in bent.items()
    }
    posture = jnp.array([joints.get(name, 0.0) for name in robot.topology.dof_names])
    state = artix.neutral_state(robot).replace(joint_position=posture)
    feet, stand = ["leg_left_6_link", "leg_right_6_link"], np.ones((knots, 2), bool)
    schedule = optimal_control.ContactSchedule.of(robot, feet, stand, type="weld")
    dynamics = optimal_control.discrete_dynamics(robot, 0.03, contact_schedule=schedule)
    x = dynamics.pack(state)
    goal = optimal_control.center_of_mass(robot, state, -jnp.array([0.03, 0.0, -0.04]))
    problem = Problem(
        dynamics, x, talos_effort, slow, parameters={"goal": goal, "posture": posture}, final_equality=center_at_goal,
        **bounds(*np.full(32, 100.0)),
    )  # fmt: skip
    return Case(problem, knots, np.full(32, 0.2), standing_torques(dynamics, x))


CASES: dict[str, Callable[[], Case]] = {
    "reach around a sphere, torque bounds": obstacle,
    "a larger sphere": functools.partial(obstacle, radius=0.3),
    "a higher sphere": functools.partial(obstacle, height=0.3),
    "reach with weak motors": torques,
    "weaker motors": functools.partial(torques, limits=(5.0, 1.5)),
    "stronger motors, upright": functools.partial(torques, limits=(10.0, 5.0), goal=(np.pi, 0.0)),
    "speed limits": speed,
    "lower speed limits": functools.partial(speed, limits=(2.0, 0.9, 1.1)),
    "swing-up on a short track": swing_up,
    "a longer track": functools.partial(swing_up, track=0.8),
    "a weaker cart": functools.partial(swing_up, track=0.6, force=8.0),
    "stand up, end given": terminal,
    "stand up, folded": functools.partial(terminal, goal=(np.pi, 2.0)),
    "acrobot": acrobot,
    "weaker acrobot": functools.partial(acrobot, limit=8.0),
    "friction cone, 0.28": friction,
    "friction cone, 0.25": functools.partial(friction, coefficient=0.25),
    "friction cone, 0.4": functools.partial(friction, coefficient=0.4),
    "jump within joint limits": joint_limits,
    "a lower jump": functools.partial(joint_limits, height=0.58),
    "Talos leans on both feet": talos,
}


# --- both from the same starts ------------------------------------------------------------------


class Run(NamedTuple):
    """What both found from one start, and each from the other's solution, which it leaves as it is
    if that is an optimum."""

    found: optimal_control.ConstrainedSolution
    ipopt: optimal_control.InteriorPointSolution
    ipopt_again: optimal_control.InteriorPointSolution
    found_again: optimal_control.ConstrainedSolution
    slope: float
    """:func:`slope` of what artix found."""

    @property
    def is_confirmed(self) -> bool:
        """Whether IPOPT, started at the solution, stays at its cost."""
        return (
            self.ipopt_again.status == 0
            and abs(float(self.found.cost) / float(self.ipopt_again.cost) - 1) <= SAME
        )

    @property
    def confirms(self) -> bool:
        """Whether IPOPT's solution, with its multipliers, is one of artix at the same cost."""
        return (
            bool(self.found_again.converged)
            and abs(float(self.found_again.cost) / float(self.ipopt.cost) - 1) <= SAME
        )

    @property
    def difference(self) -> float:
        """By how much the cost exceeds IPOPT's, relative to it."""
        return float(self.found.cost / self.ipopt.cost) - 1


@functools.cache
def solver(**options: Any) -> Callable[[Problem, Array], optimal_control.ConstrainedSolution]:
    """``solve_constrained``, compiled once for all problems with the same residuals."""
    return jax.jit(functools.partial(optimal_control.solve_constrained, **options))


def compare(case: Case, seeds: Sequence[int], **options: Any) -> list[Run]:
    """Both from the same starts, and each from the other's solution."""
    find, by_ipopt = solver(**options), optimal_control.solve_by_ipopt
    runs = []
    for seed in seeds:
        controls = jnp.asarray(case.start(seed))
        found, ipopt = find(case.problem, controls), by_ipopt(case.problem, controls)
        end = found.solution
        ipopt_again = by_ipopt(case.problem, end.controls, end.states)
        found_again = from_solution(case.problem, ipopt.controls, ipopt.states, ipopt.multipliers)
        steepest = slope(case.problem, end.states, end.controls)
        runs.append(Run(found, ipopt, ipopt_again, found_again, steepest))
    return runs


def slope(problem: Problem, states: Array, controls: Array) -> float:
    """What is left of the cost's gradient by the conditions of Karush, Kuhn and Tucker, relative to
    its largest entry.

    The multipliers are SciPy's: of all active constraints, those that leave least.
    """
    problem, controls, states = jax.tree.map(jnp.asarray, (problem, controls, states))
    program = transcription.transcribed(problem, controls, states).program
    data = program.stages, program.data, jnp.asarray(program.guess)
    rows, (gradient, entries) = (
        np.asarray(sparse_program.values(*data)[1]),
        sparse_program.slopes(*data),
    )
    pattern = sparse_program.jacobian_pattern(program)
    jacobian = scipy.sparse.csr_matrix((entries, pattern), shape=(len(rows), program.stages.size))
    lower, upper = program.bounds
    unit, is_equal, near = (
        scipy.sparse.identity(program.stages.size, format="csr"),
        program.least_rows == 0,
        1e-6,
    )
    fixed = (lower == upper)[:, None]
    normals = scipy.sparse.vstack(
        [
            jacobian[is_equal],
            jacobian[~is_equal & (rows > -near)],
            unit[program.guess > upper - near],
            -unit[program.guess < lower + near],
        ]
    ).toarray()
    least = np.where(np.arange(len(normals)) < is_equal.sum(), -np.inf, 0.0)
    columns, right = np.where(fixed, 0, normals.T), np.where(fixed[:, 0], 0, -np.asarray(gradient))
    multipliers = lsq_linear(columns, right, (least, np.inf), tol=1e-14, max_iter=500).x
    # Those that are positive, once more without bounds: to the last digits.
    held = np.isinf(least) | (multipliers > near)
    exact = np.linalg.lstsq(columns[:, held], right)[0]
    if np.all(exact[~np.isinf(least[held])] >= 0):
        columns, multipliers = columns[:, held], exact
    return float(np.abs(columns @ multipliers - right).max() / max(1.0, np.abs(right).max()))


@jax.jit
def from_solution(
    problem: Problem, controls: Array, states: Array, multipliers: optimal_control.Multipliers
) -> optimal_control.ConstrainedSolution:
    return optimal_control.solve_constrained(problem, controls, states, multipliers, weight=1e4)


def main() -> None:
    """Prints a row of the table for each problem."""
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "problems", nargs="*", metavar="PROBLEM", help="names of problems; all by default"
    )
    parser.add_argument(
        "--weight",
        type=float,
        nargs="+",
        default=[1.0, 1000.0],
        help="first weights to try; several at once",
    )
    arguments = parser.parse_args()
    weight = arguments.weight[0] if len(arguments.weight) == 1 else tuple(arguments.weight)
    names = [name for name in CASES if not arguments.problems or name in arguments.problems]
    total, slopes = np.zeros(7, int), []
    print(
        "| problem | converged | same | lower | higher | IPOPT confirms | artix confirms | IPOPT "
        "fails |"
    )
    print("|---" * 8 + "|")
    for name in names:
        runs = compare(CASES[name](), range(STARTS), weight=weight)
        done = [bool(run.found.converged) for run in runs]
        both = [run for run, ok in zip(runs, done, strict=True) if ok and run.ipopt.status == 0]
        differences = np.array([run.difference for run in both])
        same, lower = np.sum(np.abs(differences) <= SAME), np.sum(differences < -SAME)
        confirmed = sum(ok and run.is_confirmed for run, ok in zip(runs, done, strict=True))
        confirms = sum(run.ipopt.status == 0 and run.confirms for run in runs)
        failed = sum(run.ipopt.status != 0 for run in runs)
        slopes += [run.slope for run, ok in zip(runs, done, strict=True) if ok]
        counts = sum(done), same, lower, len(both) - same - lower, confirmed, confirms, failed
        total += np.array(counts, int)
        print(f"| {name} | " + " | ".join(str(int(each)) for each in counts) + " |", flush=True)
    print(f"| of {STARTS * len(names)} | " + " | ".join(map(str, total)) + " |")
    steepest = ", ".join(
        f"{share} %: {np.percentile(slopes, share):.1e}" for share in (50, 95, 100)
    )
    print(f"slopes of what converged, {steepest}")


if __name__ == "__main__":
    main()
