"""Reports of a step."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from artix.math import struct
from artix.math.arrays import largest_magnitude, square_root
from artix.model.articulation import Articulation, State

Array = jax.Array


class Residual(struct.PyTreeNode):
    """How much a solver's last sweep still corrected, over all rows; PhysX's ``PxResiduals``.

    Rows are those of loop joints (with ``"implicit"``, of their distances only), paths of spatial
    tendons, joints of fixed tendons, mimic joints, contacts (three rows each), and DOFs with their
    drives, friction and limits. The entry of a row is the change of its velocity in the last sweep
    [rad/s or m/s]: zero once the sweeps have converged. For the hard relations of ``"implicit"``,
    which sweeps do not solve, it is the remaining velocity error.

    Attributes:
      rms: root mean square over all rows, shape [].
      max: largest magnitude, shape [].

    Examples:
      >>> pole = artix.robots.load("cart_pole")
      >>> _, report = artix.step_and_report(pole, artix.neutral_state(pole), None, 0.01)
      >>> print(report.position_residual.max < 1e-4)
      True
    """

    rms: Array
    max: Array


def residual_of(corrections: Array) -> Residual:
    """The residual for the corrections [R] of all rows; zero without rows."""
    square = corrections**2
    rms = square_root(jnp.sum(square) / max(corrections.size, 1))
    return Residual(rms, largest_magnitude(corrections))


class ContactReport(struct.PyTreeNode):
    """The K contacts with the ground during a step. Points, normals and gaps are those at its
    start.

    With ``"pgs"`` and ``"tgs"`` friction belongs to the anchors of a shape on a surface. It is
    divided among their contacts by normal impulses, so the sums of forces are right but friction's
    moment about the normal is not, and ``slip`` is that of the first anchor.

    Attributes:
      links: index of the link of each contact, static, length K.
      geometries: index of the shape of each contact, static, length K.
      point: point of contact on the link, in world axes, [K, 3] [m].
      normal: normal from the ground towards the link, in world axes, [K, 3].
      gap: distance, negative for penetration, [K] [m].
      force: mean force on the link, in world axes, [K, 3] [N].
      impulse: impulse over the step, two tangential components and then the normal one, [K, 3]
        [N s].
      slip: speed along the ground at the end of the step, [K] [m/s].
      sticks: whether friction holds the contact, [K].
      slides: whether the contact touches and slides, [K]. A contact that neither sticks nor slides
        is open.
      link_force: sum of the forces on each link, [L, 3] [N].
      omitted: number of touching candidates that were left out, see
        ``SolverOptions.max_contacts_per_geometry``, [], int32.
      residual: largest violation of Signorini's and Coulomb's laws by the impulses, [] [N s].

    Examples:
      >>> builder = artix.ArticulationBuilder()
      >>> _ = builder.add_link(mass=1.0, inertia=(0.004, 0.004, 0.004), name="ball")
      >>> builder.add_geometry("ball", artix.Geometry.sphere(0.1))
      >>> ball = builder.build()
      >>> resting = artix.neutral_state(ball).replace(
      ...     root_pose=jnp.array([0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0])
      ... )
      >>> _, report = artix.step_and_report(
      ...     artix.Scene(ball, ground=artix.Ground.flat()), resting, None, 0.005
      ... )
      >>> print(report.contacts.force, report.contacts.sticks)  # its weight [N]
      [[0.   0.   9.81]] [ True]
    """

    links: tuple[int, ...] = struct.field(pytree_node=False)
    geometries: tuple[int, ...] = struct.field(pytree_node=False)
    point: Array
    normal: Array
    gap: Array
    force: Array
    impulse: Array
    slip: Array
    sticks: Array
    slides: Array
    link_force: Array
    omitted: Array
    residual: Array


class LinkContactReport(struct.PyTreeNode):
    """The K contacts between links during a step. Points, normals and gaps are those at its start.

    Attributes:
      geometries: indices of the two shapes of each contact, [K, 2], int32.
      links: indices of their links, [K, 2], int32.
      point: midpoint between the two surfaces, in world axes, [K, 3] [m].
      normal: normal from the second shape towards the first, in world axes, [K, 3].
      gap: distance, negative for penetration, [K] [m].
      force: mean force on the first link, in world axes, [K, 3] [N]; the opposite force acts on the
        second.
      impulse: impulse over the step, two tangential components and then the normal one, [K, 3]
        [N s].
      slip: speed of one surface along the other at the end of the step, [K] [m/s].
      sticks: whether friction holds the contact, [K].
      slides: whether the contact touches and slides, [K]. A contact that neither sticks nor slides
        is open.
      link_force: sum of the forces on each link, [L, 3] [N]; they add up to zero.
      omitted: number of touching points that were left out, see
        ``SolverOptions.max_link_contacts``, [], int32.
      residual: largest violation of Signorini's and Coulomb's laws by the impulses, [] [N s].

    Examples:
      >>> builder = artix.ArticulationBuilder(fixed_base=True)
      >>> _ = builder.add_link(name="table")
      >>> slide = artix.Joint.prismatic(artix.Axis.Z)
      >>> _ = builder.add_link(0, slide, mass=1.0, inertia=(0.01, 0.01, 0.01), name="weight")
      >>> builder.add_geometry("table", artix.Geometry.box((1.0, 1.0, 0.1)), name="top")
      >>> builder.add_geometry(
      ...     "weight", artix.Geometry.sphere(0.1, position=(0.0, 0.0, 0.2)), name="ball"
      ... )
      >>> builder.add_geometry_pair("ball", "top")
      >>> scale = builder.build()
      >>> _, report = artix.step_and_report(scale, artix.neutral_state(scale), None, 0.005)
      >>> print(report.link_contacts.links, report.link_contacts.link_force)  # its weight [N]
      [[1 0]] [[ 0.    0.   -9.81]
       [ 0.    0.    9.81]]
    """

    geometries: Array
    links: Array
    point: Array
    normal: Array
    gap: Array
    force: Array
    impulse: Array
    slip: Array
    sticks: Array
    slides: Array
    link_force: Array
    omitted: Array
    residual: Array


class StepReport(struct.PyTreeNode):
    """The report of a step: accelerations, joint forces, residuals and contacts.

    Attributes:
      joint_acceleration: mean accelerations of the joints during the step [rad/s^2 or m/s^2], shape
        [n].
      link_velocity: velocities of the links' centres of mass at the end of the step, linear [m/s],
        then angular [rad/s], world axes, shape [L, 6]. As in PhysX, those of a fixed base are at
        the old poses.
      link_acceleration: mean accelerations of the links' centres of mass during the step, linear
        [m/s^2], then angular [rad/s^2], world axes, shape [L, 6].
      incoming_joint_force: wrench that each link's parent exerts on it through their joint, force
        [N] then torque [N m], at the origin and in the axes of the child joint frame, shape [L, 6];
        zero for the root. PhysX's ``eLINK_INCOMING_JOINT_FORCE``.
      loop_joint_force: wrench that each loop joint exerts on its ``link_b``, force [N] then torque
        [N m], at the origin of its frame on that link, in world axes, shape [C, 6]; PhysX's
        ``PxConstraint::getForce``.
      position_residual: residual of the last sweep that determined how positions move.
      velocity_residual: residual of the last sweep that determined the final velocities; the same
        if there is only one kind of sweep.
      is_finite: whether all numbers of the state after the step are finite, [], bool. If not, the
        step has diverged.
      is_solved: whether all laws hold to ``SolverOptions.tolerance``, [], bool. If not,
        ``max_newton_steps`` were not enough, and the step has the best impulses so far. ``"pgs"``
        and ``"tgs"`` have no tolerance: it is always true.
      energy_correction: kinetic energy that ``"implicit"`` and ``"newton"`` added to fast motion at
        the end of the step (negative: took from it), so that it is that of the start plus the work
        of all forces [J], []; zero for slow motion.
      contacts: contacts with the ground; ``None`` without a ground.
      link_contacts: contacts between links; ``None`` without pairs of shapes
        (``topology.geometry_pairs``).

    Examples:
      >>> pole = artix.robots.load("cart_pole")
      >>> push = artix.Control(joint_force=jnp.array([12.0, 0.0]))
      >>> _, report = artix.step_and_report(pole, artix.neutral_state(pole), push, 0.01)
      >>> print(report.joint_acceleration, report.contacts)  # [m/s^2, rad/s^2]
      [ 11.428 -17.137] None
    """

    joint_acceleration: Array
    link_velocity: Array
    link_acceleration: Array
    incoming_joint_force: Array
    loop_joint_force: Array
    position_residual: Residual
    velocity_residual: Residual
    is_finite: Array
    is_solved: Array
    energy_correction: Array
    contacts: ContactReport | None = None
    link_contacts: LinkContactReport | None = None

    @classmethod
    def zeros(cls, articulation: Articulation) -> StepReport:
        """A report of zeros, as before the first step."""
        dofs, links = (
            jnp.zeros_like(articulation.armature),
            jnp.zeros((len(articulation.link_mass), 6), articulation.dtype),
        )
        loops = jnp.zeros((len(articulation.loop_joints.pose_a), 6), articulation.dtype)
        none, holds = residual_of(dofs[:0]), jnp.ones((), bool)
        return cls(dofs, links, links, links, loops, none, none, holds, holds, none.max)


class SceneReport(struct.PyTreeNode):
    """The report of a step of a scene whose robots have names.

    Attributes:
      members: the report of each robot by name. It includes contacts with the ground, but not those
        between links. Residuals are those of the whole scene.
      link_contacts: contacts between links of all robots; ``None`` if the scene has no pairs of
        shapes. Links and shapes are numbered as in ``scene.link_names`` and
        ``scene.geometry_names``.

    Examples:
      >>> builder = artix.ArticulationBuilder(name="ball")
      >>> _ = builder.add_link(mass=1.0, inertia=(0.004, 0.004, 0.004), name="ball")
      >>> builder.add_geometry("ball", artix.Geometry.sphere(0.1), name="ball")
      >>> ball = builder.build()
      >>> scene = artix.Scene(
      ...     {"lower": ball, "upper": ball},
      ...     ground=artix.Ground.flat(),
      ...     pairs=[("upper/ball", "lower/ball")],
      ... )
      >>> state = scene.neutral_state()
      >>> for name, height in (("lower", 0.1), ("upper", 0.3)):
      ...     state[name] = state[name].replace(root_pose=state[name].root_pose.at[2].set(height))
      >>> _, report = artix.step_and_report(scene, state, None, 0.005)
      >>> # one weight, then two [N]
      >>> print(report.link_contacts.force, report.members["lower"].contacts.force)
      [[0.   0.   9.81]] [[ 0.    0.   19.62]]
      >>> print(report.is_solved, report.is_finite)
      True True
    """

    members: dict[str, StepReport]
    link_contacts: LinkContactReport | None

    @property
    def is_finite(self) -> Array:
        """Whether all numbers of the states after the step are finite, [], bool."""
        return jnp.all(jnp.stack([member.is_finite for member in self.members.values()]))

    @property
    def is_solved(self) -> Array:
        """Whether all laws of the scene hold to ``SolverOptions.tolerance``, [], bool."""
        return jnp.all(jnp.stack([member.is_solved for member in self.members.values()]))


class RolloutReport(struct.PyTreeNode):
    """What the T steps of a rollout report, as numbers for each step [T].

    Attributes:
      is_finite: whether all numbers of the state are finite, bool. The first step for which it is
        false has diverged; ``jnp.sum(~report.is_finite)`` counts the steps from then on.
      omitted: number of touching candidates that were left out, of the ground and of links, int32:
        see ``max_contacts_per_geometry`` and ``max_link_contacts`` of :class:`SolverOptions`.
      residual: largest violation of Signorini's and Coulomb's laws by the contacts' impulses [N s].
      is_solved: whether all laws hold to ``SolverOptions.tolerance``, bool. Where not,
        ``max_newton_steps`` were not enough. ``jnp.sum(~report.is_solved)`` counts these steps.
      velocity_residual: largest violation of the laws of all rows, as a velocity [m/s or rad/s]:
        ``velocity_residual`` of :class:`StepReport`.

    Examples:
      >>> pole = artix.robots.load("cart_pole")
      >>> start = artix.neutral_state(pole)
      >>> states, report = artix.rollout(pole, start, None, 0.01, num_steps=50, with_report=True)
      >>> print(report.is_finite.all(), report.omitted.max(), jnp.sum(~report.is_solved))
      True 0 0
    """

    is_finite: Array
    omitted: Array
    residual: Array
    is_solved: Array
    velocity_residual: Array


def summarized(states: Sequence[State], reports: Sequence[StepReport]) -> RolloutReport:
    """What a rollout reports of one step, from the states of all articulations after it and their
    reports, if any.
    """
    contacts: list[ContactReport | LinkContactReport] = [
        report.contacts for report in reports if report.contacts is not None
    ]
    contacts += [report.link_contacts for report in reports[:1] if report.link_contacts is not None]
    omitted = sum((each.omitted for each in contacts), start=jnp.zeros((), jnp.int32))
    none = jnp.zeros((), states[0].root_pose.dtype)
    residuals = [none, *(each.residual for each in contacts)]
    rates = [none, *(report.velocity_residual.max for report in reports[:1])]
    is_solved = reports[0].is_solved if reports else jnp.ones((), bool)
    largest = jnp.max(jnp.stack(residuals)), jnp.max(jnp.stack(rates))
    return RolloutReport(all_finite(*states), omitted, largest[0], is_solved, largest[1])


def cleared(report: StepReport) -> StepReport:
    """The report of a step in which nothing happens: zeros, and all laws hold."""
    holds = jnp.ones_like(report.is_solved)
    return jax.tree.map(jnp.zeros_like, report).replace(is_finite=holds, is_solved=holds)


def all_finite(*states: State) -> Array:
    """Whether all numbers of states are finite, []."""
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(states)]))
