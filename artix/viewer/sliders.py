"""Poses a robot by hand: a slider for each degree of freedom, limb by limb, and frames to drag."""

from __future__ import annotations

import dataclasses
import math
import re
import threading
import webbrowser
from collections.abc import Collection, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix import Articulation, Ground, State, Topology, optimal_control
from artix.viewer.browser import Nodes, address, close_server, open_server, wait_for
from artix.viewer.player import add_layers
from artix.viewer.scene import make_scene
from artix.viewer.visuals import Visual

NO_FRAME = "(none)"
#: With more sliders than this, the panel has a search box.
MANY_SLIDERS = 10


class Poser:
    """A robot whose joints are moved in a browser; made by :func:`pose`.

    Attributes:
      url: its address for a browser on this machine.
      server: the ``viser.ViserServer``.
      nodes: its viser nodes.
      sliders: viser's sliders, by the names of the degrees of freedom. They are in degrees, or in
        metres for a degree of freedom that slides.

    Examples:
      >>> from artix import viewer
      >>> arm = artix.robots.load("arm7")
      >>> posed = viewer.pose(arm, port=0)
      >>> posed.set(jnp.full(7, 0.4))
      >>> print(posed.state.joint_position[:2])
      [0.4 0.4]
      >>> posed.close()
    """

    def __init__(self, server: Any, articulation: Articulation, state: State, scene: Any) -> None:
        self.server = server
        self.url = address(server)
        self.nodes = Nodes(server, scene)
        self._articulation = articulation
        self._state = state
        self._kind = scene.crowds[0].name
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._is_setting = False
        self._poses = jax.jit(artix.frame_pose)
        self._followers = set(_followers(articulation))
        gui = server.gui
        with gui.add_folder("show", expand_by_default=False):
            add_layers(gui, self.nodes)
        topology = articulation.topology
        self._target = server.scene.add_transform_controls(
            "/target", scale=0.25 * scene.size, visible=False
        )
        self._target.on_update(lambda _: self._drag())
        names = (NO_FRAME, *topology.frame_names, *reversed(topology.link_names))
        self._frame = gui.add_dropdown("drag frame", names, initial_value=NO_FRAME)
        self._frame.on_update(lambda _: self._choose())
        button = gui.add_button("back to the start")
        start = np.asarray(state.joint_position, float)
        button.on_click(lambda _: self.set(start))
        #: By slider: how many of its units are one radian, or one metre.
        self._units = np.where(topology.dof_is_linear, 1.0, 180.0 / np.pi)
        self.sliders: dict[str, Any] = {}
        self._add_sliders(limbs_of(topology))

    @property
    def state(self) -> State:
        """The current state, at rest."""
        with self._lock:
            return self._state

    def set(self, joint_position: np.ndarray) -> None:
        """Moves the joints.

        Args:
          joint_position: shape [n]; entries of mimic joints are overwritten by the joints they
            follow.

        Raises:
          ValueError: the shape is wrong, or an entry is not finite.
        """
        position = np.array(joint_position, float)
        if position.shape != self._state.joint_position.shape or not np.isfinite(position).all():
            raise ValueError(
                f"joint_position must be finite, of shape {self._state.joint_position.shape}; "
                f"found {position}"
            )
        with self._lock:
            position = apply_mimics(self._articulation, position)
            joints = jnp.asarray(position, self._articulation.dtype)
            self._state = self._state.replace(joint_position=joints)
            self._is_setting = True
            topology = self._articulation.topology
            for name, slider in self.sliders.items():
                dof = topology.dof_index(name)
                value = round(float(self._units[dof] * position[dof]), 4)
                # Do not write to the slider that is being dragged.
                if abs(value - slider.value) > 1e-4 * self._units[dof]:
                    slider.value = value
            self._is_setting = False
            self.nodes.place(
                self._kind, np.asarray(self._poses(self._articulation, self._state), float)
            )

    def close(self) -> None:
        """Stops the server."""
        self._closed.set()
        close_server(self.server)

    def wait(self) -> None:
        """Waits until the process is interrupted (Ctrl-C), and stops the server."""
        wait_for(self._closed, self.close)

    def _add_sliders(self, limbs: Sequence[Limb]) -> None:
        """Adds the sliders, with a folder for each limb and a box that searches them."""
        gui = self.server.gui
        topology = self._articulation.topology
        # A mimic joint follows another slider and has none.
        free = [
            Limb(limb.name, tuple(dof for dof in limb.dofs if dof not in self._followers))
            for limb in limbs
        ]
        free = [limb for limb in free if limb.dofs]
        is_long = sum(len(limb.dofs) for limb in free) > MANY_SLIDERS
        search = gui.add_text("search joints", initial_value="", visible=is_long)
        entries = list[tuple[Any, str, list[tuple[Any, str]]]]()
        for limb in free:
            units = [self._unit(dof) for dof in limb.dofs]
            is_mixed = len(set(units)) > 1
            title = limb.name if len(free) > 1 else "joints"
            folder = gui.add_folder(title if is_mixed else f"{title} [{units[0]}]")
            with folder:
                for dof, unit in zip(limb.dofs, units, strict=True):
                    name = topology.dof_names[dof]
                    self.sliders[name] = self._slider(f"{name} [{unit}]" if is_mixed else name, dof)
            names = [topology.dof_names[dof] for dof in limb.dofs]
            entries.append((folder, limb.name, [(self.sliders[name], name) for name in names]))

        def searched(_: Any) -> None:
            words = search.value.lower().split()
            for folder, limb, sliders in entries:
                for slider, name in sliders:
                    slider.visible = all(word in f"{limb} {name}".lower() for word in words)
                folder.visible = any(slider.visible for slider, _ in sliders)

        search.on_update(searched)

    def _unit(self, dof: int) -> str:
        return "m" if self._units[dof] == 1.0 else "°"

    def _slider(self, label: str, dof: int) -> Any:
        start = float(self._state.joint_position[dof])
        low, high, step, value = slider_numbers(self._articulation, dof, start)
        slider = self.server.gui.add_slider(
            label, min=low, max=high, step=step, initial_value=value
        )

        def moved(_: Any) -> None:
            if not self._is_setting:
                position = np.array(self.state.joint_position, float)
                position[dof] = slider.value / self._units[dof]
                self.set(position)

        slider.on_update(moved)
        return slider

    def _choose(self) -> None:
        """Moves the handles to the chosen frame."""
        name = self._frame.value
        self._target.visible = name != NO_FRAME
        if name != NO_FRAME:
            pose = np.asarray(artix.frame_pose(self._articulation, self.state, name), float)
            self._target.position, self._target.wxyz = pose[:3], pose[[6, 3, 4, 5]]

    def _drag(self) -> None:
        name = self._frame.value
        if name != NO_FRAME:
            w, x, y, z = self._target.wxyz
            target = jnp.asarray([*self._target.position, x, y, z, w], self._articulation.dtype)
            self.set(
                np.asarray(_drag_frame(self._articulation, self.state, name, target).joint_position)
            )


def pose(
    articulation: Articulation,
    state: State | None = None,
    *,
    visuals: Sequence[Visual] | None = None,
    ground: Ground | None = None,
    show: Collection[str] = ("visual",),
    host: str = "127.0.0.1",
    port: int | None = None,
    open_browser: bool = False,
) -> Poser:
    """Shows a robot in a browser with a slider for each degree of freedom.

    A frame chosen in the panel gets handles; as you drag them, the joints follow within their
    limits.

    Args:
      articulation: one articulation.
      state: the initial state; by default the neutral state with its joints clipped to their
        limits.
      visuals: what to draw, as :func:`load_visuals` reads it; by default :func:`visuals_of` the
        articulation.
      ground: planes and height fields to draw; without it, a floor is drawn below the robot.
      show: the layers shown at first: ``"visual"``, ``"collision"`` and ``"frames"``.
      host: the address to listen on; ``"0.0.0.0"`` accepts other machines.
      port: the port, or 0 for any free one; by default the first free one from 8080.
      open_browser: whether to open the page in a browser on this machine.

    Returns:
      The posed robot; open its ``url``, and read its current ``state``.

    Raises:
      ValueError: the state does not fit the articulation.
      OSError: the port is in use, or the host is not an address of this machine.
      ImportError: viser is not installed.

    Examples:
      >>> from artix import viewer
      >>> viewer.pose(artix.robots.load("arm7")).wait()  # doctest: +SKIP
    """
    start = neutral_within_limits(articulation) if state is None else state
    scene = make_scene(articulation, start, 1.0, visuals=visuals, ground=ground, show=show)
    if scene.crowds[0].poses.shape[:2] != (1, 1):
        raise ValueError(
            f"pose needs one robot in one state; found {scene.crowds[0].poses.shape[:2]} of them "
            "[T, N]"
        )
    posed = Poser(open_server(host, port, scene.title), articulation, start, scene)
    if open_browser:
        webbrowser.open(posed.url)
    return posed


def neutral_within_limits(articulation: Articulation) -> State:
    """The neutral state with its joints within their limits, and mimic joints where they follow.

    Args:
      articulation: one articulation.
    """
    neutral = artix.neutral_state(articulation)
    low, high = articulation.joint_lower_limit, articulation.joint_upper_limit
    position = np.asarray(jnp.clip(neutral.joint_position, low, high), float)
    return neutral.replace(
        joint_position=jnp.asarray(apply_mimics(articulation, position), articulation.dtype)
    )


def apply_mimics(articulation: Articulation, joint_position: np.ndarray) -> np.ndarray:
    """Joint positions in which mimic joints are where the joints that they follow put them.

    Args:
      articulation: one articulation.
      joint_position: shape [..., n].
    """
    position = np.array(joint_position, float)
    for follower, (reference, ratio, offset) in _followers(articulation).items():
        position[..., follower] = -ratio * position[..., reference] - offset
    return position


def joint_range(articulation: Articulation, dof: int) -> tuple[float, float]:
    """The limits of a degree of freedom or, without limits, a sensible range.

    Args:
      articulation: one articulation.
      dof: index of the degree of freedom.

    Returns:
      The smallest and the largest position [rad or m]; an unlimited joint turns by up to pi or
      slides by up to 1 m.

    Examples:
      >>> from artix import viewer
      >>> viewer.joint_range(artix.robots.load("cart_pole"), 0)
      (-2.4..., 2.4...)
    """
    wide = 1.0 if articulation.topology.dof_is_linear[dof] else np.pi
    low = float(articulation.joint_lower_limit[dof])
    low = low if np.isfinite(low) else -wide
    high = float(articulation.joint_upper_limit[dof])
    high = high if np.isfinite(high) else wide
    return low, max(high, low + 1e-6)


def slider_numbers(
    articulation: Articulation, dof: int, position: float
) -> tuple[float, float, float, float]:
    """The least and the largest value of a slider, its step, and its value, in degrees or metres.

    Args:
      articulation: one articulation.
      dof: index of the degree of freedom.
      position: its position [rad or m].
    """
    unit = 1.0 if articulation.topology.dof_is_linear[dof] else 180.0 / math.pi
    low, high = (unit * limit for limit in joint_range(articulation, dof))
    step = 0.1 if unit != 1.0 else 0.001
    if high - low > 100.0 * step:  # Few digits in the panel, but within the limits.
        low = round(math.ceil(low / step - 1e-6) * step, 6)
        high = round(math.floor(high / step + 1e-6) * step, 6)
    else:
        step = (high - low) / 1000.0
    # In double precision: in single precision, the result may lie outside the rounded limits.
    return low, high, step, min(max(unit * position, low), high)


def _followers(articulation: Articulation) -> dict[int, tuple[int, float, float]]:
    """For each mimic DOF: its reference, gear ratio and offset."""
    pairs = articulation.topology.mimic_dofs
    ratios, offsets = (
        np.asarray(articulation.mimic.gear_ratio),
        np.asarray(articulation.mimic.offset),
    )
    return {
        follower: (reference, float(ratio), float(offset))
        for (follower, reference), ratio, offset in zip(pairs, ratios, offsets, strict=True)
    }


# --- dragging -----------------------------------------------------------------------------------

Array = jax.Array

#: Damping of motions that hardly move the frame [m].
DAMPING = 0.03


def drag_frame(
    articulation: Articulation, state: State, frame: str, target: Array, *, iterations: int = 15
) -> State:
    """Moves the joints within their limits, but not the root, to bring a frame as close to a pose
    as possible.

    Damped least squares (Nakamura and Hanafusa, 1986) from the current joint positions, which is
    well-behaved even for a stretched arm. The damping fades with the error, so reachable targets
    are reached. To search for a posture, use :func:`artix.inverse_kinematics.solve`.

    Args:
      articulation: one articulation.
      state: the initial state.
      frame: the name of a link or an additional frame.
      target: the target pose in world axes: position [m], quaternion xyzw, shape [7].
      iterations: number of iterations, static.

    Returns:
      The state with new joint positions. If the pose is out of reach, the frame ends close to it.

    Raises:
      KeyError: no link or frame has this name.
    """
    base = articulation.topology.num_base_dofs
    low, high = articulation.joint_lower_limit, articulation.joint_upper_limit

    def advance(state: State, _: None) -> tuple[State, None]:
        error = -optimal_control.frame_pose(articulation, state, frame, target)
        jacobian = artix.frame_jacobian(articulation, state, frame)[:, base:]
        size = jnp.sqrt(jnp.sum(error**2) + 1e-12)
        error = error * jnp.minimum(1.0, 0.3 / size)
        held_back = DAMPING**2 * jnp.minimum(size / 0.1, 1.0) + 1e-7
        system = jacobian @ jacobian.T + held_back * jnp.eye(6, dtype=articulation.dtype)
        move = jacobian.T @ jnp.linalg.solve(system, error)
        moved = artix.integrate(
            articulation, state, jnp.concatenate([jnp.zeros(base, move.dtype), move])
        )
        return moved.replace(joint_position=jnp.clip(moved.joint_position, low, high)), None

    return jax.lax.scan(advance, state, None, length=iterations)[0]


_drag_frame = jax.jit(drag_frame, static_argnames="frame")


# --- limbs --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Limb:
    """Degrees of freedom that move one limb.

    Attributes:
      name: what the names of its degrees of freedom begin with, such as ``front_left``, or the name
        of its first link.
      dofs: their indices, from the root to the tip.
    """

    name: str
    dofs: tuple[int, ...]


def limbs_of(topology: Topology) -> tuple[Limb, ...]:
    """Divides the degrees of freedom of a robot into limbs, depth first.

    Where the tree branches, each branch with two or more degrees of freedom is a limb of its own. A
    branch with a single one, such as a wheel or a finger, belongs to the limb that carries it.

    Args:
      topology: the topology of one robot.

    Returns:
      The limbs, which contain every degree of freedom once.
    """
    children: list[list[int]] = [[] for _ in topology.parent]
    dofs_of: list[list[int]] = [[] for _ in topology.parent]
    for dof, link in enumerate(topology.dof_link):
        dofs_of[int(link)].append(dof)
    below = [len(dofs) for dofs in dofs_of]
    for link in reversed(range(1, len(children))):  # Links are numbered breadth first.
        children[topology.parent[link]].insert(0, link)
        below[topology.parent[link]] += below[link]
    groups: list[tuple[int, list[int]]] = [(0, [])]

    def walk(link: int, group: list[int]) -> None:
        group += dofs_of[link]
        moving = [child for child in children[link] if below[child]]
        for child in moving:
            inside = group
            if len(moving) > 1 and below[child] > 1:
                inside = []
                groups.append((child, inside))
            walk(child, inside)

    walk(0, groups[0][1])
    filled = [(link, tuple(dofs)) for link, dofs in groups if dofs]
    starts = [_common_start([topology.dof_names[dof] for dof in dofs]) for _, dofs in filled]
    return tuple(
        Limb(start if start and starts.count(start) == 1 else topology.link_names[link], dofs)
        for start, (link, dofs) in zip(starts, filled, strict=True)
    )


def _common_start(names: Sequence[str]) -> str:
    """The words with which all names begin: ``arm_left`` for ``arm_left_1`` and ``arm_left_2``."""
    words = [re.split(r"[_\-. /]", name) for name in names]
    count = 0
    while all(len(one) > count + 1 for one in words) and len({one[count] for one in words}) == 1:
        count += 1
    start = "_".join(words[0][:count])
    return names[0][: len(start)]
