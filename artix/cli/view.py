"""``artix view``: shows a robot in a browser with a slider per joint, or saves it as HTML or as a
picture.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from artix import Articulation, DescriptionWarning, State, viewer
from artix.cli.names import naming
from artix.cli.robot_source import description_path, load_robot
from artix.cli.text import CommandFailure
from artix.viewer.sliders import apply_mimics, limbs_of, neutral_within_limits

RATE = 30.0
#: How long each joint moves in a recording [s].
SECONDS_A_JOINT = 1.2
#: Number of missing meshes that are named.
MAX_WARNINGS = 4


def run_view(
    robot: str,
    *,
    html: str | None = None,
    png: str | None = None,
    collision: bool = False,
    package_dirs: Sequence[str] = (),
    host: str = "127.0.0.1",
    port: int | None = None,
    no_browser: bool = False,
    **reading: Any,
) -> int:
    """Shows a robot.

    Args:
      robot: a path, or the name of a built-in robot.
      html: file for a recording, or ``None``.
      png: file for a picture, or ``None``.
      collision: whether to show the collision shapes as well.
      package_dirs: folders to search for meshes.
      host, port, no_browser: the page to serve if nothing is saved; see :func:`artix.viewer.pose`.
      **reading: options of the reader.

    Returns:
      0.

    Raises:
      CommandFailure: the robot or its visuals cannot be read, a file cannot be written, a package
        is missing, or the port is in use.
      DescriptionError: the description has errors.
    """
    articulation = load_robot(robot, **reading)
    show = ("visual", "collision") if collision else ("visual",)
    try:
        visuals = _visuals(robot, articulation, package_dirs, reading.get("root"))
        if png is not None:
            with naming(png):
                viewer.render_png(
                    png,
                    articulation,
                    neutral_within_limits(articulation),
                    visuals=visuals,
                    show=show,
                )
            print(f"picture saved to {png}")
        if html is not None:
            with naming(html):
                states = moving_joints(articulation)
                viewer.save_html(html, articulation, states, 1.0 / RATE, visuals=visuals, show=show)
            print(f"recording saved to {html}")
        if png is None and html is None:
            page: dict[str, Any] = {"host": host, "port": port, "open_browser": not no_browser}
            posed = viewer.pose(articulation, visuals=visuals, show=show, **page)
            print(f"{robot} at {posed.url} (press Ctrl-C to stop)", flush=True)
            posed.wait()
    except (ImportError, OSError, ValueError) as error:
        raise CommandFailure(str(error)) from error
    return 0


def _visuals(
    robot: str, articulation: Articulation, package_dirs: Sequence[str], root: str | None
) -> tuple[viewer.Visual, ...]:
    """The visuals of the robot. Missing meshes are named on stderr, at most a few."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DescriptionWarning)
        visuals = viewer.load_visuals(
            description_path(robot), articulation, package_dirs=package_dirs, root=root
        )
    told = [one.message for one in caught if issubclass(one.category, DescriptionWarning)]
    for message in told[:MAX_WARNINGS]:
        print(f"artix: {message}", file=sys.stderr)
    if told[MAX_WARNINGS:]:
        print(
            f"artix: and {len(told) - MAX_WARNINGS} more; --package-dirs says where to look",
            file=sys.stderr,
        )
    return visuals


def moving_joints(articulation: Articulation) -> State:
    """A motion in which one degree of freedom after another goes through its range, every leaf with
    a leading axis [T].

    Limb by limb; mimic joints follow.

    Args:
      articulation: the robot.
    """
    topology = articulation.topology
    followers = {follower for follower, _ in topology.mimic_dofs}
    moving = [dof for limb in limbs_of(topology) for dof in limb.dofs if dof not in followers]
    count = max(round(SECONDS_A_JOINT * RATE), 2)
    wave = np.linspace(0.0, 1.0, count, endpoint=False)
    start = neutral_within_limits(articulation)
    joints = np.tile(np.asarray(start.joint_position, float), (max(len(moving), 1) * count, 1))
    for place, dof in enumerate(moving):
        low, high = viewer.joint_range(articulation, dof)
        rest = joints[0, dof]
        joints[place * count : (place + 1) * count, dof] = np.interp(
            wave, [0.0, 0.3, 0.75, 1.0], [rest, high, low, rest]
        )
    frames = len(joints)
    return State(
        jnp.tile(start.root_pose, (frames, 1)),
        jnp.zeros((frames, 6), articulation.dtype),
        jnp.asarray(apply_mimics(articulation, joints), articulation.dtype),
        jnp.zeros_like(joints, articulation.dtype),
    )
