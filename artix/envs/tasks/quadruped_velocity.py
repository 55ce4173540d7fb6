"""A quadruped that follows velocity commands: on level ground, and over terrain, from easy tiles to
hard ones.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix.envs import observations, random_numbers, rewards, starts, terminations, terrain
from artix.envs.control_step import EnvState, Outcome, Transition
from artix.envs.gait import Gait
from artix.envs.observation_terms import ObservationTerm, Terms
from artix.envs.tasks.legged import (
    OBSERVATIONS,
    LeggedRobot,
    LeggedVelocity,
    by_joint,
    solver_options,
)

Array = jax.Array

#: The terms of the reward and their weights: Playground's Go1 joystick, and two for the gait. The
#: feet follow a clock, as in a trot, and all of them stay down while the command is to stand still.
#: Since a step earns at least zero, ``alive`` makes up for these costs while a robot has yet to
#: learn.
REWARDS: dict[str, float] = {
    "tracking_lin_vel": 1.0,
    "tracking_ang_vel": 0.5,
    "lin_vel_z": -0.5,
    "ang_vel_xy": -0.05,
    "orientation": -5.0,
    "dof_pos_limits": -1.0,
    "pose": 0.5,
    "termination": -1.0,
    "stand_still": -1.0,
    "torques": -0.0002,
    "action_rate": -0.01,
    "energy": -0.001,
    "feet_clearance": -2.0,
    "feet_height": -0.2,
    "feet_slip": -0.1,
    "feet_air_time": 0.1,
    "feet_on_time": 0.5,
    "feet_down": -0.5,
    "alive": 0.25,
}

#: Strides per second. Without the clock, a symmetric policy would not know which feet to lift
#: first.
GAIT_FREQUENCY = 2.5

#: The feet: names of the links and of the spheres on them.
FEET = ("front_left_foot", "front_right_foot", "rear_left_foot", "rear_right_foot")

#: Height of the trunk's centre in the default pose [m]: two leg segments of 0.21 m at 0.9 rad, and
#: the foot's radius.
HEIGHT = 0.42 * float(np.cos(0.9)) + 0.02

#: Walking takes one Newton step, and the slowest of 16 robots two. One that tumbles can need
#: many, for which all robots of its vector wait.
SOLVER_OPTIONS = artix.SolverOptions(max_newton_steps=8)


class QuadrupedVelocity(LeggedVelocity):
    """A quadruped follows velocity commands on level ground: Playground's Go1 joystick with artix's
    or your robot.

    The drives of artix's have 35 N m/rad and 0.5 N m s/rad. Observations (``"state"`` [50],
    ``"privileged_state"`` [121], for twelve joints) and all options are those of
    :class:`LeggedVelocity`. The feet trot to a clock of :data:`GAIT_FREQUENCY`. An episode ends
    when the robot is upside down or its trunk touches the ground.

    Args:
      robot: any robot with legs (:meth:`artix.envs.LeggedRobot.of`); artix's quadruped by default.
      rewards: terms and weights, see :func:`artix.envs.rewards.weighted_terms`.
      ground: the ground; level with friction 0.8 by default.
      name: name of the task.
      dtype: floating-point type; JAX's default, or that of the robot, when ``None``.
      **options: as for :class:`LeggedVelocity`. Playground's ``randomization`` is
        :data:`artix.envs.randomization.QUADRUPED`.

    Raises:
      ValueError: as :class:`LeggedVelocity`.

    Examples:
      >>> from artix import envs
      >>> environment = envs.make("quadruped_velocity", noise_scales={})
      >>> environment.action_size, environment.dt
      (12, 0.02)
    """

    def __init__(
        self,
        *,
        robot: LeggedRobot | None = None,
        rewards: rewards.Weights = REWARDS,
        ground: artix.Ground | None = None,
        name: str = "quadruped_velocity",
        dtype: Any = None,
        **options: Any,
    ) -> None:
        if robot is None:
            robot = quadruped(dtype)
        elif dtype is not None:
            robot = robot.astype(dtype)
        ground = (
            artix.Ground.flat(friction=0.8, dtype=robot.articulation.dtype)
            if ground is None
            else ground
        )
        usual: dict[str, Any] = {"gait_frequency": GAIT_FREQUENCY}
        usual |= {"solver_options": solver_options(robot, SOLVER_OPTIONS), **options}
        super().__init__(name, robot, rewards=rewards, ground=ground, **usual)


def quadruped(dtype: Any = None) -> LeggedRobot:
    """The quadruped in ``dtype``, with drives, and with a sensor around its trunk."""
    robot = artix.robots.load("quadruped", dtype=dtype)
    box = artix.Geometry.box((0.21, 0.1, 0.06), sensor=True)
    robot = terminations.with_sensor(robot, "trunk", box, "trunk")
    drive = robot.drive.replace(
        stiffness=by_joint(robot, {"": 35.0}),
        damping=by_joint(robot, {"": 0.5}),
        max_force=robot.max_joint_force,
    )
    return LeggedRobot(
        articulation=robot.replace(drive=drive),
        imu="imu",
        feet=FEET,
        trunk=("trunk",),
        default_position=by_joint(robot, {"hip_pitch": 0.9, "knee": -1.8, "": 0.0}),
        pose_weight=by_joint(robot, {"knee": 0.1, "": 1.0}),
        height=HEIGHT,
    )


#: Where the policy sees the terrain: x forward and y left of the trunk's centre [m], [35, 2].
SCAN = np.stack(
    np.meshgrid(np.linspace(-0.6, 0.6, 7), np.linspace(-0.4, 0.4, 5), indexing="ij"), axis=-1
).reshape(-1, 2)


def height_scan(height_scan: Array) -> Array:
    """Height of the trunk above the terrain at the points of :data:`SCAN`, relative to the default
    one [m].
    """
    return height_scan


_IMAGE = np.argmin(np.linalg.norm(SCAN[:, None] * [1, -1] - SCAN, axis=-1), axis=0)

#: The terms of the reward and their weights: those on level ground, but the feet find their own
#: rhythm, in which they stand in turn and for the same times.
ROUGH_REWARDS: dict[str, float | None] = {
    **REWARDS,
    "feet_on_time": None,
    "feet_in_turn": 0.3,
    "uneven_steps": -0.3,
}

#: What the policy sees: what it sees on level ground, and the terrain around it.
ROUGH_OBSERVATIONS: Terms = {
    **OBSERVATIONS,
    "height_scan": ObservationTerm(
        function=height_scan, mirror=(_IMAGE.tolist(), [1.0] * len(SCAN))
    ),
}


class QuadrupedRough(QuadrupedVelocity):
    """A quadruped follows velocity commands over rough ground, slopes, stairs and obstacles.

    Like :class:`QuadrupedVelocity`, but without a clock, and the policy also sees the height of the
    trunk above the terrain at 35 points around it, ``height_scan``. An episode begins on a tile of
    the robot's level. A robot that walked further than half a tile moves up one level for its next
    episode; one that covered less than half of the commanded distance moves down (Rudin et al.,
    *Learning to walk in minutes*, 2022). After the last level it gets a random one.
    ``info["level"]`` is the level.

    Args:
      tiles: the terrain; that of :func:`artix.envs.terrain.tiles` by default.
      moves_up: whether robots move up and down. Otherwise, every episode but the first begins on a
        random level of all: in episodes of a few seconds, nobody walks far enough to move up.
      dtype: floating-point type; JAX's default when ``None``.
      **options: as for :class:`QuadrupedVelocity`, except ``ground``.

    Raises:
      ValueError: as :class:`QuadrupedVelocity`.

    Examples:
      >>> from artix import envs
      >>> from artix.envs import terrain
      >>> environment = envs.make(
      ...     "quadruped_rough", tiles=terrain.tiles(("stairs",), levels=2, columns=1)
      ... )
      >>> environment.observation_size["state"]
      83
    """

    def __init__(
        self,
        *,
        tiles: terrain.Terrain | None = None,
        moves_up: bool = True,
        dtype: Any = None,
        **options: Any,
    ) -> None:
        if "ground" in options:
            raise ValueError("quadruped_rough: its ground is its tiles; give tiles= instead")
        self.moves_up = moves_up
        self.tiles = terrain.tiles(dtype=dtype) if tiles is None else tiles
        ground = artix.Ground((self.tiles.field,))
        usual: dict[str, Any] = {
            "name": "quadruped_rough",
            "ground": ground,
            "observations": ROUGH_OBSERVATIONS,
        }
        usual |= {"rewards": ROUGH_REWARDS, "gait_frequency": None}
        super().__init__(**usual | {"dtype": dtype} | options)

    def more_signals(self) -> tuple[str, ...]:
        """The terrain besides."""
        return (*super().more_signals(), "height_scan")

    def begin(self, key: Array) -> tuple[artix.State, dict[str, Any]]:
        """Begins on a tile in the lower half of the levels."""
        key, level_key = random_numbers.split(key)
        highest = (self.tiles.centers.shape[0] + 1) // 2
        return self._begin_on(key, self._random_level(level_key, highest))

    def begin_again(self, key: Array, ended: EnvState) -> tuple[artix.State, dict[str, Any]]:
        """Begins one level higher, lower, or on the same level, depending on how far the robot
        walked; or on a random one.
        """
        key, level_key = random_numbers.split(key)
        levels = self.tiles.centers.shape[0]
        level = ended.info["level"]
        if not self.moves_up:
            return self._begin_on(key, self._random_level(level_key, levels), ended)
        way = ended.articulation_state.root_pose[:2] - ended.info["start"]
        square = jnp.sum(way**2)
        is_far = square > (0.5 * self.tiles.size) ** 2
        falls_short = ~is_far & (square < (0.5 * ended.info["asked"]) ** 2)
        level = level + is_far.astype(level.dtype) - falls_short.astype(level.dtype)
        passed = self._random_level(level_key, levels)
        return self._begin_on(key, jnp.where(level >= levels, passed, jnp.maximum(level, 0)), ended)

    def outcome(self, transition: Transition) -> Outcome:
        """As on level ground, plus the distance that the commands asked for."""
        result = super().outcome(transition)
        memory = transition.memory
        speed = jnp.sqrt(jnp.sum(memory["command"][:2] ** 2) + 1e-12)
        metrics = result.metrics | {"level": memory["level"].astype(speed.dtype)}
        return result._replace(
            memory=result.memory | {"asked": memory["asked"] + self.dt * speed}, metrics=metrics
        )

    def signals(self, transition: Transition, gait: Gait, first_contact: Array) -> dict[str, Any]:
        """As on level ground, and the terrain around the robot."""
        points = jnp.asarray(SCAN, self.articulation.dtype)
        scan = (
            observations.height_scan(transition.ground, transition.state, points)
            - self.robot.height
        )
        return super().signals(transition, gait, first_contact) | {
            "height_scan": jnp.clip(scan, -1, 1)
        }

    def _random_level(self, key: Array, count: int) -> Array:
        uniform = random_numbers.uniform(key, 1, self.articulation.dtype)[0]
        return jnp.minimum(jnp.floor(count * uniform), count - 1).astype(jnp.int32)

    def _begin_on(
        self, key: Array, level: Array, ended: EnvState | None = None
    ) -> tuple[artix.State, dict[str, Any]]:
        key, column_key = random_numbers.split(key)
        # Without a ground, since the robot is only put on it once its place is known.
        state, memory = QuadrupedVelocity.begin(self._on(None), key)
        if ended is not None:
            memory |= self.later(memory, ended)
        columns = self.tiles.centers.shape[1]
        place = (
            self.tiles.centers[level, self._random_level(column_key, columns)] + state.root_pose[:2]
        )
        state = state.replace(root_pose=jnp.concatenate([place, state.root_pose[2:]]))
        height = starts.on_ground(self.articulation, state, artix.Ground((self.tiles.field,)), 0.01)
        pose = state.root_pose.at[2].set(height)
        zero = jnp.zeros((), self.articulation.dtype)
        return state.replace(root_pose=pose), memory | {
            "level": level,
            "start": place,
            "asked": zero,
        }
