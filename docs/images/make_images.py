"""Makes the pictures of the README: ``python docs/images/make_images.py``, from the root of the
repository.
"""

from pathlib import Path

import jax.numpy as jnp

import artix
from artix import viewer

FOLDER = Path(__file__).parent
STANCE = [0.0] * 4 + [0.8] * 4 + [-1.5] * 4
STRIDE = {
    "left_hip_pitch": -0.6,
    "left_knee": 0.7,
    "right_hip_pitch": 0.35,
    "right_knee": 0.3,
    "right_ankle_pitch": -0.5,
}
SWING = {
    "left_shoulder_pitch": 0.5,
    "right_shoulder_pitch": -0.6,
    "left_elbow": -0.5,
    "right_elbow": -0.9,
}


def joints(robot: artix.Articulation, positions: dict[str, float]) -> artix.State:
    """The robot with some joints moved; names that it does not have are passed over."""
    state = artix.neutral_state(robot)
    for name, value in positions.items():
        if name in robot.topology.joint_names:
            state = state.replace(
                joint_position=state.joint_position.at[robot.topology.dof_index(name)].set(value)
            )
    return state


def main() -> None:
    """Draws a quadruped, an arm and a humanoid."""
    quadruped, arm, humanoid = (
        artix.robots.load(name) for name in ("quadruped", "arm7", "humanoid")
    )
    poses = {
        "quadruped": (
            quadruped,
            artix.neutral_state(quadruped).replace(joint_position=jnp.array(STANCE)),
        ),
        "arm7": (
            arm,
            artix.neutral_state(arm).replace(
                joint_position=jnp.array([0.9, 0.5, 0.2, 1.2, 0.3, 0.9, 0.1])
            ),
        ),
        "humanoid": (humanoid, joints(humanoid, {**STRIDE, **SWING})),
    }
    for name, (robot, state) in poses.items():
        viewer.render_png(FOLDER / f"{name}.png", robot, state, size=(420, 360), background=None)
        print(f"docs/images/{name}.png: {(FOLDER / f'{name}.png').stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
