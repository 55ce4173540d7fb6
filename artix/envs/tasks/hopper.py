"""A leg with a foot that hops forward in a plane."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

import artix
from artix.envs.control_step import Outcome, Transition
from artix.envs.environment import Environment
from artix.envs.randomization import Change
from artix.math.random_keys import quick
from artix.model.checks import as_number

Array = jax.Array

#: Height of the torso's centre with a straight leg [m]; heights in observations are from here.
HEIGHT = 1.25
#: An episode ends when the torso is this far below :data:`HEIGHT` [m].
LOWEST = -0.45
#: Below this height [m], the reward falls steeply.
LOW = LOWEST + 0.15
#: A torso that leans by this angle earns nothing for standing upright [rad].
LEAN = math.pi / 6

#: Density of all parts [kg/m^3], and inertia [kg m^2] and damping [N m s/rad] of the motors.
DENSITY, ARMATURE, DAMPING = 1000.0, 1.0, 2.0
#: Largest torque of each motor [N m].
TORQUE = 200.0
FRICTION = 0.9

#: Rotations: of a hinge whose axis is -y, and of a capsule along x.
_TURNED = (0.0, 0.0, 1.0, 0.0)
_ALONG_X = (0.0, math.sqrt(0.5), 0.0, math.sqrt(0.5))

#: Walking takes one or two Newton steps; one robot that tumbles holds up all others of its vector.
SOLVER_OPTIONS = artix.SolverOptions(max_newton_steps=8)


class Hopper(Environment):
    """A hopper moves forward as fast as it can and stays upright: torso, thigh, leg and foot in a
    plane, with three motors.

    Robot and reward are those of the hopper of DFlex, in which SHAC (Xu et al. 2022) and AHAC
    (Georgiev et al. 2024) were measured, with the bodies of Gymnasium's ``Hopper``. The action is
    the torque of hip, knee and ankle, divided by :data:`TORQUE`. The observation [11] is the
    torso's height above :data:`HEIGHT` [m], its angle and those of the joints [rad], and the
    velocities of all, the forward speed first. A control step earns

        speed + height + 1 - (angle / 30 deg)^2 - 0.1 |action|^2

    where ``height`` is that above 0.95 m, at most 0.3 m, or -200 times its square below. A straight
    leg has 1.25 m, and the episode ends below 0.8 m.

    What differs from DFlex: contact is rigid; motors, and not the torso, have a reflected inertia
    of 1 kg m^2; and an episode starts with its joints within their limits and the foot above the
    ground.

    Args:
      torque: torque for an action of 1 [N m].
      effort: price of the squared action.
      episode_length: number of control steps of 1/60 s.
      solver_options: options of the physics steps of 1/240 s.
      dtype: floating-point type; JAX's default if ``None``.
      randomization: which parameters of the robot are randomised, see :class:`artix.envs.Change`.

    Raises:
      ValueError: a leaf to randomise does not exist, or a number is not finite.

    Examples:
      >>> from artix import envs
      >>> environment = envs.make("hopper")
      >>> environment.observation_size, environment.action_size
      (11, 3)
    """

    def __init__(
        self,
        *,
        torque: float = TORQUE,
        effort: float = 0.1,
        episode_length: int = 1000,
        solver_options: artix.SolverOptions = SOLVER_OPTIONS,
        dtype: Any = None,
        randomization: Sequence[Change] = (),
    ) -> None:
        robot = hopper(dtype)
        super().__init__(
            "hopper",
            robot,
            action_size=3,
            dt=1 / 60,
            physics_dt=1 / 240,
            episode_length=episode_length,
            ground=artix.Ground.flat(friction=FRICTION, dtype=robot.dtype),
            solver_options=solver_options,
            randomization=randomization,
        )
        self.torque = as_number("torque", torque)
        self.effort = as_number("effort", effort)

    def begin(self, key: Array) -> tuple[artix.State, dict[str, Array]]:
        """Upright above the ground, nearly at rest and with a nearly straight leg."""
        place, speed = 0.05 * jax.random.uniform(quick(key), (2, 6), self.articulation.dtype, -1, 1)
        within_limits = jnp.abs(place) * jnp.array([0, 1, 0, -1, -1, 0], place.dtype)
        place = place * jnp.array([1, 0, 1, 0, 0, 1], place.dtype) + within_limits
        state = artix.neutral_state(self.articulation)
        return state.replace(joint_position=place, joint_velocity=speed), {}

    def actuate(
        self,
        articulation: artix.Articulation,
        state: artix.State,
        memory: dict[str, Array],
        action: Array,
    ) -> tuple[artix.Control, dict[str, Array]]:
        """The torques of the joints."""
        torque = jnp.concatenate([jnp.zeros(3, action.dtype), self.torque * action])
        return artix.Control(joint_force=torque), memory

    def outcome(self, transition: Transition) -> Outcome:
        """The sum of speed, height and angle, less the effort."""
        _, height, angle = transition.state.joint_position[:3]
        above = height - LOW
        terms = {
            "forward": transition.state.joint_velocity[0],
            "height": jnp.where(above < 0, -200 * above**2, jnp.minimum(above, 0.3)),
            "upright": 1 - (angle / LEAN) ** 2,
            "effort": -self.effort * jnp.sum(transition.action**2),
        }
        metrics = {f"reward/{name}": value for name, value in terms.items()}
        reward = sum(terms.values(), jnp.zeros((), height.dtype))
        return Outcome(reward, height < LOWEST, transition.memory, metrics)

    def observe(self, transition: Transition) -> Array:
        """Positions without the distance, and velocities."""
        return jnp.concatenate(
            [transition.state.joint_position[1:], transition.state.joint_velocity]
        )


def hopper(dtype: Any = None) -> artix.Articulation:
    """The robot: capsules of one density on two slides and a hinge, which keep it in the x-z plane.

    At position zero the leg is straight and the foot 4 cm above the ground. Thigh and leg turn by
    up to 150 degrees and the foot by 45 degrees to both sides, about -y as in Gymnasium.
    """
    builder = artix.ArticulationBuilder(fixed_base=True, name="hopper")
    boom = artix.CompositeJoint(
        joints=(
            artix.Joint.prismatic(
                artix.Axis.X, name="root_x", parent_pose=(0, 0, HEIGHT, 0, 0, 0, 1)
            ),
            artix.Joint.prismatic(artix.Axis.Z, name="root_z"),
            artix.Joint.revolute(artix.Axis.SWING1, wrapped=False, name="root_y"),
        )
    )
    motor: dict[str, Any] = {
        "armature": ARMATURE,
        "friction": artix.JointFriction(viscous=DAMPING),
        "max_force": TORQUE,
        "wrapped": False,
    }
    parent = _add(builder, builder.add_link(name="world"), boom, "torso", 0.05, 0.2)
    below, bend, turn = -0.2, math.radians(150), math.radians(45)
    for name, radius, half_length, limits in (
        ("thigh", 0.05, 0.225, (-bend, 0.0)),
        ("leg", 0.04, 0.25, (-bend, 0.0)),
        ("foot", 0.06, 0.195, (-turn, turn)),
    ):
        joint = artix.Joint.revolute(
            artix.Axis.SWING1,
            name=f"{name}_joint",
            parent_pose=(0, 0, below, *_TURNED),
            child_pose=(0, 0, 0, *_TURNED),
            limits=[limits],
            **motor,
        )
        middle = (0.06, 0, 0, *_ALONG_X) if name == "foot" else (0, 0, -half_length, 0, 0, 0, 1)
        parent = _add(builder, parent, joint, name, radius, half_length, middle)
        below = -2 * half_length
    return builder.build(dtype)


def _add(
    builder: artix.ArticulationBuilder,
    parent: int,
    joint: artix.Joint | artix.CompositeJoint,
    name: str,
    radius: float,
    half_length: float,
    middle: Sequence[float] = (0, 0, 0, 0, 0, 0, 1),
) -> int:
    """Adds a solid capsule along z of the pose of its middle; returns the link's number."""
    mass, moments = capsule_inertia(DENSITY, radius, half_length)
    link = builder.add_link(parent, joint, mass=mass, com_pose=middle, inertia=moments, name=name)
    builder.add_geometry(link, artix.Geometry.capsule(radius, half_length, pose=middle))
    return link


def capsule_inertia(
    density: float, radius: float, half_length: float
) -> tuple[float, tuple[float, float, float]]:
    """Mass [kg] and principal moments of inertia [kg m^2] of a solid capsule along z."""
    length = 2 * half_length
    cylinder = density * math.pi * radius**2 * length
    ends = density * math.pi * radius**3 * 4 / 3
    along = cylinder * radius**2 / 2 + ends * 2 / 5 * radius**2
    across = cylinder * (length**2 / 12 + radius**2 / 4)
    across += ends * (length**2 / 4 + 3 / 8 * length * radius + 2 / 5 * radius**2)
    return cylinder + ends, (across, across, along)
