"""A body on four legs of two links that runs forward."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix.envs.control_step import Outcome, Transition
from artix.envs.environment import Environment
from artix.envs.randomization import Change
from artix.envs.tasks.hopper import capsule_inertia
from artix.io.common.poses import combine_inertias, quaternion_product
from artix.math.random_keys import quick
from artix.math.spatial import quaternion_exp, rotation_matrix
from artix.model.checks import as_number

Array = jax.Array

#: Height of the torso at the start [m], and that below which an episode ends.
HEIGHT, LOWEST = 0.75, 0.27

#: Density of all parts [kg/m^3], and inertia [kg m^2] and damping [N m s/rad] of the motors.
DENSITY, ARMATURE, DAMPING = 1000.0, 0.05, 1.0
#: Largest torque of each motor [N m].
TORQUE = 200.0
#: Stiffness [N m/rad] and damping [N m s/rad] of the springs at the joints' limits.
LIMIT_STIFFNESS, LIMIT_DAMPING = 1000.0, 10.0
FRICTION = 0.75

#: Radii of torso and legs, and how far a hip is from the torso's middle along x and y, a knee from
#: its hip, and a foot from its knee [m].
TORSO, LEG = 0.25, 0.08
HIP, KNEE, FOOT = 0.2, 0.2, 0.4

#: Where the legs are: signs of x and y; and the signs of their knees' angles.
LEGS = {"front_left": (1, 1), "back_left": (-1, 1), "back_right": (-1, -1), "front_right": (1, -1)}
_BENT = (1, -1, -1, 1)

#: Friction fades below this speed [m/s], as DFlex's: 3,000 N s/m for a quarter of the weight.
SLIP = 0.1
#: Running takes one or two Newton steps; one robot that tumbles holds up all others of its vector.
SOLVER_OPTIONS = artix.SolverOptions(max_newton_steps=8, smooth_friction=SLIP)


class Ant(Environment):
    """A body on four legs runs along x as fast as it can.

    Robot and reward are those of the ant of DFlex, in which SHAC (Xu et al. 2022) and AHAC
    (Georgiev et al. 2024) were measured, with the bodies of Gymnasium's ``Ant`` in another density.
    The action is the torques of the four hips and of the four knees, divided by :data:`TORQUE`. The
    observation [37] is the torso's height [m], its quaternion (xyzw), velocity and angular velocity
    in world axes, the joints' angles [rad] and a tenth of their velocities, how far the torso's z
    and x axes point along the world's, and the action. A control step earns

        speed + upright / 10 + heading + height - 0.27 m

    where ``upright`` and ``heading`` are the cosines of the angles between these axes and the
    world's. The episode ends when the torso is below 0.27 m.

    Joints have springs at their limits, and friction fades at low speed, as in DFlex. What differs
    is that contact is rigid, and that only the torso's ball and the lower legs touch the ground.

    Args:
      torque: torque for an action of 1 [N m].
      episode_length: number of control steps of 1/60 s.
      solver_options: options of the physics steps of 1/240 s.
      dtype: floating-point type; JAX's default if ``None``.
      randomization: which parameters of the robot are randomised, see :class:`artix.envs.Change`.

    Raises:
      ValueError: a leaf to randomise does not exist, or a number is not finite.

    Examples:
      >>> from artix import envs
      >>> environment = envs.make("ant")
      >>> environment.observation_size, environment.action_size
      (37, 8)
    """

    def __init__(
        self,
        *,
        torque: float = TORQUE,
        episode_length: int = 1000,
        solver_options: artix.SolverOptions = SOLVER_OPTIONS,
        dtype: Any = None,
        randomization: Sequence[Change] = (),
    ) -> None:
        robot = ant(dtype)
        super().__init__(
            "ant",
            robot,
            action_size=8,
            dt=1 / 60,
            physics_dt=1 / 240,
            episode_length=episode_length,
            ground=artix.Ground.flat(friction=FRICTION, dtype=robot.dtype),
            solver_options=solver_options,
            randomization=randomization,
        )
        self.torque = as_number("torque", torque)

    def begin(self, key: Array) -> tuple[artix.State, dict[str, Array]]:
        """Upright above the ground with bent knees, nearly at rest."""
        dtype = self.articulation.dtype
        place, axis, angle, joints, velocity = jnp.split(
            jax.random.uniform(quick(key), (29,), dtype, -1, 1), (3, 6, 7, 15)
        )
        tilt = math.pi / 24 * angle * axis / jnp.sqrt(jnp.sum(axis**2) + 1e-6)
        height = jnp.array([0, 0, HEIGHT], dtype)
        bent = jnp.array([0, 0, 0, 0, *_BENT], dtype)
        state = artix.neutral_state(self.articulation).replace(
            root_pose=jnp.concatenate([height + 0.1 * place, quaternion_exp(tilt)]),
            root_velocity=0.25 * velocity[:6],
            joint_position=bent + 0.2 * joints,
            joint_velocity=0.25 * velocity[6:],
        )
        return state, {}

    def actuate(
        self,
        articulation: artix.Articulation,
        state: artix.State,
        memory: dict[str, Array],
        action: Array,
    ) -> tuple[artix.Control, dict[str, Array]]:
        """The torques of the joints, and those of the springs at their limits."""
        position, velocity = state.joint_position, state.joint_velocity
        lower, upper = jnp.asarray(limits(), position.dtype)
        below, above = jnp.maximum(lower - position, 0), jnp.maximum(position - upper, 0)
        damped = jnp.where(below > 0, jnp.minimum(velocity, 0), 0)
        damped += jnp.where(above > 0, jnp.maximum(velocity, 0), 0)
        spring = LIMIT_STIFFNESS * (below - above) - LIMIT_DAMPING * damped
        return artix.Control(joint_force=self.torque * action + spring), memory

    def outcome(self, transition: Transition) -> Outcome:
        """The sum of speed, attitude and height."""
        pose = transition.state.root_pose
        turn = rotation_matrix(pose[3:])
        terms = {
            "forward": transition.state.root_velocity[0],
            "upright": 0.1 * turn[2, 2],
            "heading": turn[0, 0],
            "height": pose[2] - LOWEST,
        }
        metrics = {f"reward/{name}": value for name, value in terms.items()}
        reward = sum(terms.values(), jnp.zeros((), pose.dtype))
        return Outcome(reward, pose[2] < LOWEST, transition.memory, metrics)

    def observe(self, transition: Transition) -> Array:
        """Attitude and motion of the torso and the joints, and the action."""
        state = transition.state
        turn = rotation_matrix(state.root_pose[3:])
        return jnp.concatenate(
            [
                state.root_pose[2:],
                state.root_velocity,
                state.joint_position,
                0.1 * state.joint_velocity,
                jnp.stack([turn[2, 2], turn[0, 0]]),
                transition.action,
            ]
        )


def limits() -> np.ndarray:
    """The lower and upper limits of the joints [2, 8] [rad], as in Gymnasium: hips turn by 40
    degrees to both sides, knees bend by 30 to 100 degrees, which are negative angles of two legs.
    """
    knees = [sorted((sign * 30, sign * 100)) for sign in _BENT]
    return np.radians([[-40.0, 40.0]] * 4 + knees).T


def ant(dtype: Any = None) -> artix.Articulation:
    """The robot: a ball with a capsule towards each of four hips, and legs of two capsules.

    At position zero the legs are horizontal. Hips turn about z, knees about the horizontal across
    their leg. Without :func:`limits`, which the task has as springs.
    """
    builder = artix.ArticulationBuilder(name="ant")
    ball = DENSITY * 4 / 3 * math.pi * TORSO**3
    parts = [(ball, np.eye(7)[6], 0.4 * ball * TORSO**2 * np.eye(3))]
    for x, y in LEGS.values():
        mass, moments = capsule_inertia(DENSITY, LEG, HIP / math.sqrt(2))
        parts.append((mass, _middle(x, y, HIP), np.diag(moments)))
    mass, pose, inertia = combine_inertias(parts)
    torso = builder.add_link(mass=mass, com_pose=pose, inertia=inertia, name="torso")
    builder.add_geometry(torso, artix.Geometry.sphere(TORSO))
    motor: dict[str, Any] = {
        "armature": ARMATURE,
        "friction": artix.JointFriction(viscous=DAMPING),
        "max_force": TORQUE,
        "wrapped": False,
    }
    for name, (x, y) in LEGS.items():
        hip = artix.Joint.revolute(
            artix.Axis.SWING2,
            name=f"{name}_hip",
            parent_pose=(HIP * x, HIP * y, 0, 0, 0, 0, 1),
            **motor,
        )
        leg = _add_capsule(builder, torso, hip, f"{name}_leg", _middle(x, y, KNEE), KNEE, True)
        # The y axis of both frames is (-1, 1, 0) or (1, 1, 0).
        turn = _about_z(math.copysign(math.pi / 4, x * y))
        knee = artix.Joint.revolute(
            artix.Axis.SWING1,
            name=f"{name}_knee",
            parent_pose=(KNEE * x, KNEE * y, 0, *turn),
            child_pose=(0, 0, 0, *turn),
            **motor,
        )
        _add_capsule(builder, leg, knee, f"{name}_foot", _middle(x, y, FOOT), FOOT)
    return builder.build(dtype)


def _add_capsule(
    builder: artix.ArticulationBuilder,
    parent: int,
    joint: artix.Joint,
    name: str,
    middle: np.ndarray,
    length: float,
    sensor: bool = False,
) -> int:
    """Adds a link that is a solid capsule along z of its middle; returns its number. A sensor
    touches nothing.
    """
    half_length = length / math.sqrt(2)
    mass, moments = capsule_inertia(DENSITY, LEG, half_length)
    link = builder.add_link(parent, joint, mass=mass, com_pose=middle, inertia=moments, name=name)
    capsule = artix.Geometry.capsule(LEG, half_length, pose=middle, sensor=sensor)
    builder.add_geometry(link, capsule)
    return link


def _middle(x: int, y: int, length: float) -> np.ndarray:
    """The pose of the middle of a capsule from the origin to (x, y, 0) times a length; its axis is
    z.
    """
    down = np.array([0, math.sqrt(0.5), 0, math.sqrt(0.5)])  # z becomes x
    turn = quaternion_product(np.array(_about_z(math.atan2(y, x))), down)
    return np.concatenate([[length * x / 2, length * y / 2, 0], turn])


def _about_z(angle: float) -> tuple[float, float, float, float]:
    return (0.0, 0.0, math.sin(angle / 2), math.cos(angle / 2))
