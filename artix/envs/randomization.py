"""Domain randomisation: parameters of robots and grounds, drawn anew for each.

A specification is a sequence of :class:`Change`; each names a leaf (an array) of an :class:`artix.Articulation` or
of an :class:`artix.Ground`, how numbers are drawn, and what they do to it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from artix.envs import random_numbers

Array = jax.Array
_Tree = TypeVar("_Tree")


@dataclasses.dataclass(frozen=True)
class Change:
    """How one leaf is randomised.

    Attributes:
      leaf: its name, with dots where it is inside: ``"link_mass"``, ``"friction.static"``, ``"drive.stiffness"``. With
        an environment ``"ground.surfaces.0.friction"`` means the ground's.
      operation: whether what is drawn takes the place of the numbers (``"absolute"``), multiplies them (``"scale"``) or
        is added to them (``"add"``).
      range: bounds of what is drawn; mean and standard deviation of ``"normal"``.
      distribution: ``"uniform"``, ``"log_uniform"`` or ``"normal"``.
      entries: rows of the leaf, by numbers, or by names of links, DOFs or shapes; all of them when ``None``.
      components: columns, of leaves that have them; all when ``None``.
      shared: whether one number is drawn for all entries rather than one for each.
      also: other leaves that the same factors multiply, row by row: ``("link_inertia",)`` beside ``"link_mass"``.
      when: with an environment, whether it is drawn at every ``"reset"``, once at the ``"start"`` and kept by
        :func:`artix.envs.autoreset`, or again and again during episodes, at random times this many seconds apart in the
        mean.

    Raises:
      ValueError: a word is unknown, a range is empty or not finite, log-uniform bounds are not positive, or ``also`` is
        given without ``"scale"`` or with ``components``.

    Examples:
      >>> masses = envs.Change("link_mass", "scale", (0.8, 1.2), also=("link_inertia",))
      >>> pole = envs.randomize(artix.robots.load("cart_pole"), jax.random.key(0), [masses])
      >>> print(0.8 <= pole.link_mass[1] <= 1.2)  # of 1 kg
      True
    """

    leaf: str
    operation: Literal["absolute", "scale", "add"]
    range: tuple[float, float]
    distribution: Literal["uniform", "log_uniform", "normal"] = "uniform"
    entries: tuple[int | str, ...] | None = None
    components: tuple[int, ...] | None = None
    shared: bool = False
    also: tuple[str, ...] = ()
    when: Literal["reset", "start"] | float = "reset"

    def __post_init__(self) -> None:
        where = f"randomisation of {self.leaf}"
        for name, known in (
            ("operation", ("absolute", "scale", "add")),
            ("distribution", ("uniform", "log_uniform", "normal")),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"{where}: {name} must be one of {', '.join(known)}; found {getattr(self, name)!r}")
        low, high = self.range
        if not np.all(np.isfinite(self.range)) or (high < 0 if self.distribution == "normal" else low > high):
            raise ValueError(
                f"{where}: expected finite bounds, the lower one first, or a mean and a standard deviation; found "
                f"{self.range}"
            )
        if self.distribution == "log_uniform" and low <= 0:
            raise ValueError(f"{where}: log-uniform bounds must be positive; found {self.range}")
        if self.also and (self.operation != "scale" or self.components is not None):
            raise ValueError(f"{where}: only factors of whole rows (operation='scale') can multiply other leaves, too")
        if isinstance(self.when, str):
            if self.when not in ("reset", "start"):
                raise ValueError(f"{where}: when must be 'reset', 'start' or a time [s]; found {self.when!r}")
        elif not self.when > 0:
            raise ValueError(f"{where}: the mean time between draws must be positive [s]; found {self.when}")


_OPERATIONS: dict[str, Callable[[Any, Array], Array]] = {
    "absolute": lambda entries, numbers: entries.set(numbers),
    "scale": lambda entries, numbers: entries.multiply(numbers),
    "add": lambda entries, numbers: entries.add(numbers),
}

#: As Playground randomises its Go1, but for the calibration of the joints: friction of the ground and the joints,
#: masses (with their inertia), the trunk's payload and centre of mass.
QUADRUPED = (
    Change("ground.surfaces.0.friction", "absolute", (0.4, 1.0)),
    Change("friction.static", "scale", (0.9, 1.1), also=("friction.dynamic",)),
    Change("link_com_pose", "add", (-0.05, 0.05), entries=("trunk",), components=(0, 1, 2)),
    Change("link_mass", "scale", (0.9, 1.1), also=("link_inertia",)),
    Change("link_mass", "add", (-1.0, 1.0), entries=("trunk",)),
)


def randomize(tree: _Tree, key: Array, changes: Sequence[Change]) -> _Tree:
    """A robot, or a ground, with some of its numbers drawn anew.

    Args:
      tree: an :class:`artix.Articulation` or :class:`artix.Ground`.
      key: a JAX random key.
      changes: what is drawn, one after another.

    Returns:
      The same with other arrays. ``jax.vmap`` over keys makes a fleet of different ones.

    Raises:
      ValueError: there is no such leaf or entry; the message lists those that there are.

    Examples:
      >>> from artix import envs
      >>> robot = artix.robots.load("arm7")
      >>> heavier = envs.randomize(robot, jax.random.key(0), [envs.Change("link_mass", "scale", (1.5, 1.5))])
      >>> bool(jnp.allclose(heavier.link_mass, 1.5 * robot.link_mass))
      True
    """
    return with_drawn(tree, changes, draw(tree, key, changes))


def draw(tree: Any, key: Array, changes: Sequence[Change]) -> tuple[Array, ...]:
    """The numbers that changes need, an array for each; see :func:`with_drawn`."""
    parts = random_numbers.split(key, max(len(changes), 1))
    return tuple(_draw(part, change, tree) for part, change in zip(parts, changes, strict=False))


def with_drawn(tree: _Tree, changes: Sequence[Change], drawn: Sequence[Array]) -> _Tree:
    """The tree after changes by numbers that :func:`draw` drew."""
    for change, numbers in zip(changes, drawn, strict=True):
        before = leaf_of(tree, change.leaf)
        index = _index(tree, change, before)
        after = _OPERATIONS[change.operation](before.at[index], numbers)
        tree = _replaced(tree, change.leaf.split("."), after)
        for name in change.also:
            beside = leaf_of(tree, name)
            factor = numbers if numbers.ndim == 0 else numbers.reshape(*numbers.shape, *(1,) * (beside.ndim - 1))
            tree = _replaced(tree, name.split("."), beside.at[index].multiply(factor))
    return tree


def leaf_of(tree: Any, name: str) -> Array:
    """The array of this name in a robot or a ground.

    Raises:
      ValueError: there is none; the message lists those that there are.
    """
    names = leaf_names(tree)
    if name not in names:
        raise ValueError(f"no leaf called {name!r} to randomise; choose from: {', '.join(names)}")
    for part in name.split("."):
        tree = tree[int(part)] if isinstance(tree, tuple) else getattr(tree, part)
    return tree


def leaf_names(tree: Any) -> tuple[str, ...]:
    """The names of all arrays of floating-point numbers in a robot or a ground."""
    found = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            found.append(".".join(str(getattr(part, "name", getattr(part, "idx", part))) for part in path))
    return tuple(found)


def _replaced(tree: Any, path: list[str], value: Array) -> Any:
    if not path:
        return value
    first, rest = path[0], path[1:]
    if isinstance(tree, tuple):
        number = int(first)
        return (*tree[:number], _replaced(tree[number], rest, value), *tree[number + 1 :])
    return tree.replace(**{first: _replaced(getattr(tree, first), rest, value)})


def _index(tree: Any, change: Change, leaf: Array) -> Any:
    """Where a change changes its leaf."""
    if change.entries is None and change.components is None:
        return ...
    rows = range(leaf.shape[0]) if change.entries is None else [_entry(tree, change, each) for each in change.entries]
    columns = () if change.components is None else (change.components,)
    if any(not 0 <= each < leaf.shape[axis] for axis, part in enumerate((rows, *columns)) for each in part):
        raise ValueError(
            f"randomisation of {change.leaf}: entries {change.entries} and components {change.components} do not fit "
            f"its shape {leaf.shape}"
        )
    return np.ix_(rows, *columns)


def _entry(tree: Any, change: Change, entry: int | str) -> int:
    """The number of a row by its name."""
    if not isinstance(entry, str):
        return entry
    topology: Any = getattr(tree, "topology", None)
    if topology is None:
        raise ValueError(f"randomisation of {change.leaf}: its entries have no names; found {entry!r}")
    names = topology.dof_names
    if change.leaf.startswith("link_") or change.leaf == "gravity_scale":
        names = topology.link_names
    elif change.leaf.startswith("geometry."):
        names = tuple(each.name for each in topology.geometries)
    if entry not in names:
        raise ValueError(f"randomisation of {change.leaf}: no entry called {entry!r}; choose from: {', '.join(names)}")
    return names.index(entry)


def _draw(key: Array, change: Change, tree: Any) -> Array:
    leaf = leaf_of(tree, change.leaf)
    shape = () if change.shared else np.empty(leaf.shape, bool)[_index(tree, change, leaf)].shape
    low, high = change.range
    uniform = random_numbers.uniform(key, max(int(np.prod(shape)), 1), leaf.dtype).reshape(shape)
    if change.distribution == "normal":
        # The lowest of the 2^24 numbers is zero.
        return low + high * jax.scipy.special.ndtri(jnp.maximum(uniform, jnp.asarray(2.0**-25, leaf.dtype)))
    if change.distribution == "log_uniform":
        return jnp.exp(np.log(low) + (np.log(high) - np.log(low)) * uniform)
    return low + (high - low) * uniform
