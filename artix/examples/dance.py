"""Makes the dance of ``humanoid_dance``: eight seconds that a humanoid could do, by inverse
kinematics.

    python -m artix.examples.dance --output dance.npz

The choreography is a few formulas: where feet and pelvis are, over which point the centre of mass
is, and how the arms swing. Inverse kinematics makes joint positions of it. The centre of mass stays
over the feet that stand, so the motion could be danced slowly, too. Copy this file to make a motion
of your own.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix import inverse_kinematics
from artix.envs.motion import Motion
from artix.envs.tasks.humanoid import humanoid

Array = np.ndarray

#: Length of the dance [s], frames a second, and seconds of a beat.
LENGTH, RATE, BEAT = 8.0, 50.0, 0.5
#: Distance of the feet from the middle [m], height of a lifted foot [m], depth of the squat [m].
STANCE, LIFT, SQUAT = 0.13, 0.1, 0.2


def bump(time: Array, begin: float, end: float) -> Array:
    """Rises from 0 to 1 and falls again between two times, with zero slope at both."""
    share = np.clip((time - begin) / (end - begin), 0.0, 1.0)
    return 0.5 * (1 - np.cos(2 * np.pi * share))


def ramp(time: Array, begin: float, end: float) -> Array:
    """Rises from 0 to 1 between two times, with zero slope at both."""
    share = np.clip((time - begin) / (end - begin), 0.0, 1.0)
    return 0.5 * (1 - np.cos(np.pi * share))


def plateau(time: Array, begin: float, end: float, edge: float) -> Array:
    """Rises from 0 to 1 within ``edge`` seconds of a time, stays, and falls before another."""
    return ramp(time, begin, begin + edge) - ramp(time, end - edge, end)


def choreography(time: Array) -> dict[str, Array]:
    """Where everything should be at some times, each array with the shape of ``time``.

    Returns:
      The centre of mass to the left, turn and tilt of the pelvis, how much the pelvis is lowered,
      heights of the feet, and angles of some joints.
    """
    sways = plateau(time, 0.0, 3.0, 0.4)
    squats = plateau(time, 6.0, 7.9, 0.8)
    beat = 2 * np.pi * time / BEAT
    swing = sways * np.sin(beat / 2)
    left_taps, right_taps = bump(time, 3.6, 4.3), bump(time, 4.9, 5.6)
    over_right, over_left = plateau(time, 3.0, 4.8, 0.55), plateau(time, 4.3, 6.1, 0.55)
    waves = plateau(time, 0.2, 3.2, 0.5)
    return {
        "com": 0.035 * swing + STANCE * (over_left - over_right),
        "turn": 0.15 * sways * np.sin(beat / 4),
        "roll": 0.06 * swing,
        "lower": 0.03 + 0.015 * sways * (1 - np.cos(beat)) + SQUAT * squats,
        "left_foot": LIFT * left_taps,
        "right_foot": LIFT * right_taps,
        "waist_yaw": -0.35 * sways * np.sin(beat / 4) + 0.25 * (left_taps - right_taps),
        "neck_yaw": 0.3 * swing - 0.2 * (left_taps - right_taps),
        "neck_pitch": 0.15 * sways * np.sin(beat) + 0.2 * squats,
        "left_shoulder_roll": 0.25 + 0.7 * waves * (1 + np.sin(beat / 2)) + 1.0 * left_taps,
        "right_shoulder_roll": -0.25 - 0.7 * waves * (1 - np.sin(beat / 2)) - 1.0 * right_taps,
        "left_shoulder_pitch": -1.3 * squats - 0.6 * right_taps,
        "right_shoulder_pitch": -1.3 * squats - 0.6 * left_taps,
        "left_elbow": -0.4 - 0.5 * waves * (1 - np.sin(beat / 2)) - 0.8 * right_taps,
        "right_elbow": -0.4 - 0.5 * waves * (1 + np.sin(beat / 2)) - 0.8 * left_taps,
    }


def make() -> Motion:
    """The dance, as joint positions and poses of the root."""
    legged = humanoid()
    robot, dtype = legged.articulation, legged.articulation.dtype
    start = artix.neutral_state(robot).replace(joint_position=legged.default_position)
    start = start.replace(root_pose=start.root_pose.at[2].set(legged.height))
    time = np.arange(round(LENGTH * RATE)) / RATE
    plan = {name: jnp.asarray(values, dtype) for name, values in choreography(time).items()}
    ankle = {side: artix.frame_pose(robot, start, f"{side}_foot") for side in ("left", "right")}
    middle = artix.center_of_mass(robot, start)

    def tasks(pose: Mapping[str, jax.Array]) -> list[inverse_kinematics.Task]:
        feet = []
        for side, y in (("left", STANCE), ("right", -STANCE)):
            place = ankle[side].at[1].set(y).at[2].add(pose[f"{side}_foot"])
            feet.append(inverse_kinematics.FrameTask(f"{side}_foot", place, orientation_cost=1.0))
        turn = artix.lie.so3_exp(jnp.stack([pose["roll"], 0 * pose["roll"], pose["turn"]]))
        pelvis = jnp.concatenate([start.root_pose[:2], (legged.height - pose["lower"])[None], turn])
        trunk = inverse_kinematics.FrameTask(
            "pelvis", pelvis, jnp.array([0.0, 0.0, 1.0], dtype), 0.5
        )
        above = inverse_kinematics.ComTask(
            middle.at[1].set(pose["com"]), jnp.array([1.0, 1.0, 0.0], dtype)
        )
        posture = start.joint_position
        for name in robot.topology.dof_names:
            if name in pose:
                posture = posture.at[robot.topology.dofs(name)].set(pose[name])
        is_arm = np.array(
            [any(part in name for part in _UPPER) for name in robot.topology.dof_names]
        )
        joints = inverse_kinematics.PostureTask(
            posture, jnp.asarray(np.where(is_arm, 1.0, 1e-3), dtype)
        )
        return [*feet, trunk, above, joints]

    solution = jax.jit(lambda: inverse_kinematics.follow(robot, tasks, plan, start, margin=0.02))()
    state = solution.state
    return Motion.of(robot, RATE, state.root_pose, state.joint_position, loops=True)


#: Beginnings of the names of joints that the choreography sets itself.
_UPPER = ("waist", "neck", "shoulder", "elbow", "wrist")


def main(arguments: list[str] | None = None) -> None:
    """Writes the motion to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--output", default="dance.npz", help="where to write it (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    motion = make()
    motion.save(options.output)
    print(f"{options.output}: {len(motion.joint_position)} frames, {motion.length:g} s")


if __name__ == "__main__":
    main()
