"""Reference motions: where a robot's root and joints are at each frame, for tasks that imitate
them.
"""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix.io.common.atomic_file import write_atomically
from artix.math import struct
from artix.model.checks import as_number

Array = jax.Array

#: How far the end of a motion that loops may be from its start: root [m, rad] and joints [rad].
GAP = 0.2


class Motion(struct.PyTreeNode):
    """A motion of one robot, in T frames at a constant rate.

    Attributes:
      root_pose: pose of the root link: position [m], quaternion xyzw, shape [T, 7].
      joint_position: joint positions in the robot's order [rad or m], shape [T, n].
      root_velocity: velocity of the root link's centre of mass [m/s] and angular velocity [rad/s]
        in world axes, by central differences, shape [T, 6].
      joint_velocity: joint velocities [rad/s or m/s], shape [T, n].
      joint_names: names of the joints' degrees of freedom, static.
      rate: frames a second [Hz], static.
      loops: whether the first frame follows the last one, static.

    Examples:
      >>> from artix.envs.motion import Motion
      >>> arm = artix.robots.load("arm7")
      >>> time = jnp.linspace(0.0, 2.0, 100, endpoint=False)
      >>> swing = 0.3 * jnp.sin(jnp.pi * time)[:, None] * jnp.ones(7)
      >>> poses = jnp.broadcast_to(artix.neutral_state(arm).root_pose, (100, 7))
      >>> motion = Motion.of(arm, 50.0, poses, swing, loops=True)
      >>> print(motion.length, motion.joint_velocity.shape)
      2.0 (100, 7)
    """

    root_pose: Array
    joint_position: Array
    root_velocity: Array
    joint_velocity: Array
    joint_names: tuple[str, ...] = struct.field(pytree_node=False)
    rate: float = struct.field(pytree_node=False)
    loops: bool = struct.field(pytree_node=False)

    @classmethod
    def of(
        cls,
        articulation: artix.Articulation,
        rate: float,
        root_pose: Any,
        joint_position: Any,
        *,
        loops: bool,
    ) -> Motion:
        """A motion by its positions.

        Args:
          articulation: the robot; arrays get its dtype.
          rate: frames a second [Hz].
          root_pose: poses of the root link [m], [T, 7].
          joint_position: joint positions [rad or m], [T, n].
          loops: whether the first frame follows the last one.

        Raises:
          ValueError: an array has the wrong shape, a number is not finite, a quaternion has not
            length 1, or the motion loops although its end is far from its start.
        """
        names = tuple(articulation.topology.dof_names)
        rate = as_number("rate [Hz]", rate, positive=True)
        root, joints = np.array(root_pose, np.float64), np.asarray(joint_position, np.float64)
        if joints.ndim != 2 or joints.shape[1] != len(names) or len(joints) < 3:
            raise ValueError(
                f"joint_position needs the shape [T, {len(names)}] with T >= 3; its shape is "
                f"{joints.shape}"
            )
        if root.shape != (len(joints), 7):
            raise ValueError(
                f"root_pose needs the shape [{len(joints)}, 7]; its shape is {root.shape}"
            )
        for name, array in (("root_pose", root), ("joint_position", joints)):
            if not np.isfinite(array).all():
                frame = int(np.argwhere(~np.isfinite(array))[0][0])
                raise ValueError(f"{name}: frame {frame} is not finite")
        lengths = np.linalg.norm(root[:, 3:], axis=1)
        if np.abs(lengths - 1).max() > 1e-3:
            frame = int(np.abs(lengths - 1).argmax())
            raise ValueError(
                f"root_pose: the quaternion of frame {frame} has length {lengths[frame]:.4g}, not 1"
            )
        root[:, 3:] /= lengths[:, None]
        dtype = articulation.dtype
        root_velocity, joint_velocity = _velocities(articulation, rate, root, joints, loops)
        return cls(
            root_pose=jnp.asarray(root, dtype),
            joint_position=jnp.asarray(joints, dtype),
            root_velocity=root_velocity,
            joint_velocity=joint_velocity,
            joint_names=names,
            rate=rate,
            loops=loops,
        )

    @classmethod
    def load(
        cls,
        path: str | Path,
        articulation: artix.Articulation,
        *,
        rate: float | None = None,
        loops: bool | None = None,
        joint_names: Sequence[str] | None = None,
    ) -> Motion:
        """Reads a motion from a ``.npz`` file that :meth:`save` wrote, or from a ``.csv`` file.

        A row of a CSV file is a frame: position [m] and quaternion xyzw of the root, then joint
        positions [rad or m]. The first row may hold names, of which those after the seventh name
        the joints. Unitree's retargeted motions have this form, without names.

        Args:
          path: the file.
          articulation: the robot. The order of the joints may differ.
          rate: frames a second [Hz]; what the file says if ``None``.
          loops: whether the first frame follows the last one; what the file says if ``None``, and
            not in a CSV file.
          joint_names: names of the joints in the order of the columns, if the file has none.

        Raises:
          ValueError: the file has no rate, lacks a joint of the robot or has one more, or what it
            says is refused by :meth:`of`.
        """
        path = Path(path)
        if path.suffix == ".csv":
            names, table = _read_csv(path)
            names = tuple(joint_names or names or articulation.topology.dof_names)
            root, joints = table[:, :7], table[:, 7:]
        else:
            with _archive(path) as file:
                if missing := {"root_pose", "joint_position", "joint_names", "rate", "loops"} - set(
                    file
                ):
                    raise ValueError(
                        f"{path}: not a motion: there is no {', '.join(sorted(missing))}"
                    )
                names = tuple(joint_names or (str(name) for name in file["joint_names"]))
                root, joints = file["root_pose"], file["joint_position"]
                rate = float(file["rate"]) if rate is None else rate
                loops = bool(file["loops"]) if loops is None else loops
        if rate is None:
            raise ValueError(
                f"{path}: how many frames a second? Give rate=..., for instance rate=30"
            )
        order = _order(str(path), names, articulation)
        if joints.shape[-1] != len(names):
            raise ValueError(
                f"{path}: {joints.shape[-1]} columns of joints, but {len(names)} names"
            )
        return cls.of(articulation, rate, root, joints[:, order], loops=bool(loops))

    def save(self, path: str | Path) -> None:
        """Writes the motion to a ``.npz`` file."""
        arrays = {"root_pose": self.root_pose, "joint_position": self.joint_position}
        content: dict[str, Any] = {
            name: np.asarray(array, np.float32) for name, array in arrays.items()
        }
        content |= {
            "joint_names": np.array(self.joint_names),
            "rate": self.rate,
            "loops": self.loops,
        }

        def write(part: Path) -> None:
            with open(part, "wb") as file:  # NumPy would append ".npz" to a name.
                np.savez_compressed(file, **content)

        write_atomically(Path(path), write)

    @property
    def num_frames(self) -> int:
        """The number of frames T."""
        return len(self.joint_position)

    @property
    def length(self) -> float:
        """Duration [s]; of a motion that loops, from its first frame to its first frame."""
        return (self.num_frames - (not self.loops)) / self.rate

    def resampled(self, articulation: artix.Articulation, rate: float) -> Motion:
        """The motion at another rate, by interpolation: linear of positions, along great circles of
        rotations.

        Args:
          articulation: its robot.
          rate: frames a second [Hz]. A motion that loops is stretched to a whole number of frames.
        """
        if self.loops:
            count = round(self.length * rate)
            place = np.arange(count) * (self.num_frames / count)
        else:
            place = np.arange(int(self.length * rate + 1e-6) + 1) * (self.rate / rate)
        before = np.minimum(place.astype(int), self.num_frames - 1)
        after = (
            (before + 1) % self.num_frames
            if self.loops
            else np.minimum(before + 1, self.num_frames - 1)
        )
        share = (place - before)[:, None]
        start, end = self.state(before), self.state(after)
        step = jax.vmap(lambda one, other: artix.difference(articulation, one, other))(start, end)
        middle = jax.vmap(lambda one, change: artix.integrate(articulation, one, change))(
            start, jnp.asarray(share, step.dtype) * step
        )
        return Motion.of(
            articulation, rate, middle.root_pose, middle.joint_position, loops=self.loops
        )

    def state(self, frame: Any) -> artix.State:
        """The robot's state at a frame, or at an array of frames."""
        return artix.State(
            root_pose=self.root_pose[frame],
            root_velocity=self.root_velocity[frame],
            joint_position=self.joint_position[frame],
            joint_velocity=self.joint_velocity[frame],
        )


def _velocities(
    articulation: artix.Articulation, rate: float, root: np.ndarray, joints: np.ndarray, loops: bool
) -> tuple[Array, Array]:
    """Velocities by central differences, one-sided at the ends of a motion that does not loop."""
    dtype, count = articulation.dtype, len(joints)
    numbers = np.arange(count)
    after, before = numbers + 1, numbers - 1
    if loops:
        after, before = after % count, before % count
    else:
        after, before = np.minimum(after, count - 1), np.maximum(before, 0)
    rest = artix.neutral_state(articulation)

    def at(frames: np.ndarray) -> artix.State:
        zero = jnp.zeros((count, 6), dtype)
        positions = jnp.asarray(joints[frames], dtype)
        return rest.replace(
            root_pose=jnp.asarray(root[frames], dtype),
            root_velocity=zero,
            joint_position=positions,
            joint_velocity=jnp.zeros_like(positions),
        )

    change = jax.jit(jax.vmap(lambda one, other: artix.difference(articulation, one, other)))(
        at(before), at(after)
    )
    if loops and (gap := float(np.abs(np.asarray(change)[[0, -1]]).max())) > GAP:
        raise ValueError(
            f"a motion that loops must end near its start; around its end it moves by {gap:.3g} "
            "(m or rad) in two frames: use loops=False, or blend the end into the start"
        )
    seconds = (2.0 if loops else (after - before)[:, None]) / rate
    velocity = change / jnp.asarray(seconds, dtype)
    base = articulation.topology.num_base_dofs
    rigid = velocity[:, :6] if base else jnp.zeros((count, 6), dtype)
    return rigid, velocity[:, base:]


def _archive(path: Path) -> Any:
    """The arrays of an archive; of another file, NumPy would only advise to unpickle it, which
    executes it.
    """
    if path.exists() and not zipfile.is_zipfile(path):
        raise ValueError(f"{path}: not a motion: it is no .npz archive")
    return np.load(path, allow_pickle=False)


def _read_csv(path: Path) -> tuple[tuple[str, ...], np.ndarray]:
    with open(path, newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row]
    names: tuple[str, ...] = ()
    if rows and not _is_number(rows[0][0]):
        names, rows = tuple(name.strip() for name in rows[0][7:]), rows[1:]
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        raise ValueError(
            f"{path}: the rows of a motion must be equally long, and there must be some"
        )
    try:
        return names, np.array(rows, np.float64)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _order(path: str, names: Sequence[str], articulation: artix.Articulation) -> list[int]:
    """Where each joint of the robot is among the names."""
    needed = articulation.topology.dof_names
    for what, one, other in (("lacks", needed, names), ("has", names, needed)):
        if apart := [name for name in one if name not in set(other)]:
            also = "" if what == "lacks" else ", which the robot lacks"
            raise ValueError(
                f"{path}: the motion {what} the joints {', '.join(map(repr, apart[:5]))}{also}"
            )
    if twice := [name for name in needed if list(names).count(name) > 1]:
        raise ValueError(f"{path}: the motion has the joint {twice[0]!r} more than once")
    return [list(names).index(name) for name in needed]
