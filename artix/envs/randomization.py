"""Domain randomisation: random parameters of robots and grounds.

A specification is a sequence of :class:`Change`. Each names a leaf (an array) of an
:class:`artix.Articulation` or an :class:`artix.Ground`, a distribution, and the operation that
applies the drawn numbers.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from artix.envs import random_numbers
from artix.model.articulation import Articulation
from artix.model.checks import check_key
from artix.model.parts import PER_DOF, PER_LINK

Array = jax.Array
_Tree = TypeVar("_Tree")


#: The leaf whose rows are matrices, of which numbers drawn one by one would make no inertias.
_INERTIA = "link_inertia"


@dataclasses.dataclass(frozen=True)
class Change:
    """How one leaf is randomised.

    Rotations and normals that are drawn are scaled to length 1. Inertias that are drawn can only be
    scaled, each matrix as a whole. A range of one value draws nothing: in the place of its numbers,
    ``info["randomized"]``, you may put others, which count as they are.

    Attributes:
      leaf: name of the leaf, with dots for nested ones: ``"link_mass"``, ``"friction.static"``,
        ``"drive.stiffness"``. In an environment, names such as ``"ground.surfaces.0.friction"``
        refer to the ground.
      operation: whether the drawn numbers replace the nominal ones (``"absolute"``), multiply them
        (``"scale"``) or are added to them (``"add"``).
      range: bounds of the distribution; for ``"normal"``, mean and standard deviation.
      distribution: ``"uniform"``, ``"log_uniform"`` or ``"normal"``.
      entries: rows of the leaf, by number or by the name of a link, DOF or shape; all rows if
        ``None``.
      components: columns of the leaf; all columns if ``None``.
      shared: whether to draw one number for all entries instead of one for each.
      also: other leaves to multiply by the same factors, row by row: ``("link_inertia",)`` along
        with ``"link_mass"``.
      when: when an environment draws: at every ``"reset"``; once at the ``"start"``, after which
        :func:`artix.envs.autoreset` keeps the value; or repeatedly during episodes, with this mean
        time [s] between draws.

    Raises:
      ValueError: an option is unknown, a range is empty, not finite or not two numbers, log-uniform
        bounds are not positive, ``also`` is given without ``"scale"`` or with ``components``, or
        inertias would become matrices that are none.
      TypeError: ``entries``, ``components`` or ``also`` is a single name or number.

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
                raise ValueError(
                    f"{where}: {name} must be one of {', '.join(known)}; found "
                    f"{getattr(self, name)!r}"
                )
        for name in ("entries", "components", "also"):
            value = getattr(self, name)
            if isinstance(value, str | int):
                raise TypeError(
                    f"{where}: {name} must be a sequence; found {value!r}; write "
                    f"{name}=({value!r},)"
                )
        if np.shape(self.range) != (2,):
            raise ValueError(f"{where}: expected a range of two numbers; found {self.range}")
        low, high = self.range
        if not np.all(np.isfinite(self.range)) or (
            high < 0 if self.distribution == "normal" else low > high
        ):
            raise ValueError(
                f"{where}: expected finite bounds, lower one first, or a mean and a standard "
                f"deviation; found {self.range}"
            )
        if self.distribution == "log_uniform" and low <= 0:
            raise ValueError(f"{where}: log-uniform bounds must be positive; found {self.range}")
        if self.also and (self.operation != "scale" or self.components is not None):
            raise ValueError(
                f"{where}: 'also' needs only factors of whole rows: operation='scale' without "
                "components"
            )
        keeps_inertias = self.operation == "scale" and self.components is None and low >= 0
        if self.leaf == _INERTIA and _is_drawn(self) and not keeps_inertias:
            raise ValueError(
                f"{where}: only factors of whole matrices, which are not negative, keep them "
                "inertias: operation='scale' without components"
            )
        if isinstance(self.when, str):
            if self.when not in ("reset", "start"):
                raise ValueError(
                    f"{where}: when must be 'reset', 'start' or a time [s]; found {self.when!r}"
                )
        elif not self.when > 0:
            raise ValueError(
                f"{where}: the mean time between draws must be positive [s]; found {self.when}"
            )


#: Ends of the names of leaves that must not be negative.
_NOT_NEGATIVE = (
    *(
        "link_mass",
        "limit_stiffness",
        "natural_frequency",
        "damping_ratio",
        "armature",
        "max_joint_force",
        "stiffness",
        "damping",
        "max_force",
        "static",
        "dynamic",
        "viscous",
    ),
    *("friction", "restitution"),
)

_OPERATIONS: dict[str, Callable[[Any, Array], Array]] = {
    "absolute": lambda entries, numbers: entries.set(numbers),
    "scale": lambda entries, numbers: entries.multiply(numbers),
    "add": lambda entries, numbers: entries.add(numbers),
}

#: Playground's randomisation of its Go1, except joint calibration: friction of the ground and the
#: joints, masses (with inertia), and the trunk's payload and centre of mass.
QUADRUPED = (
    Change("ground.surfaces.0.friction", "absolute", (0.4, 1.0)),
    Change("friction.static", "scale", (0.9, 1.1), also=("friction.dynamic",)),
    Change("link_com_pose", "add", (-0.05, 0.05), entries=("trunk",), components=(0, 1, 2)),
    Change("link_mass", "scale", (0.9, 1.1), also=("link_inertia",)),
    Change("link_mass", "add", (-1.0, 1.0), entries=("trunk",)),
)


def randomize(tree: _Tree, key: Array, changes: Sequence[Change]) -> _Tree:
    """Randomises parameters of a robot or a ground.

    Args:
      tree: an :class:`artix.Articulation` or :class:`artix.Ground`.
      key: a JAX random key.
      changes: what to randomise; applied in order.

    Returns:
      The robot or ground with new parameters. ``jax.vmap`` over keys makes a fleet.

    Raises:
      TypeError: ``key`` is not a random key, for instance a seed, or ``changes`` is not a sequence
        of changes.
      ValueError: a leaf or an entry does not exist (the message lists the valid names), the rows of
        a leaf in ``also`` stand for something else than those of the change's own, or bounds allow
        negative numbers where there are none, such as masses.

    Examples:
      >>> from artix import envs
      >>> robot = artix.robots.load("arm7")
      >>> heavier = envs.randomize(
      ...     robot, jax.random.key(0), [envs.Change("link_mass", "scale", (1.5, 1.5))]
      ... )
      >>> bool(jnp.allclose(heavier.link_mass, 1.5 * robot.link_mass))
      True
    """
    check_key(key)
    check_type_of_changes(changes)
    check_changes(tree, changes)
    return with_drawn(tree, changes, draw(tree, key, changes))


def check_type_of_changes(changes: Any) -> None:
    """Raises ``TypeError`` unless these are changes in a sequence."""
    if not isinstance(changes, Sequence) or not all(
        isinstance(change, Change) for change in changes
    ):
        raise TypeError(
            f"randomisation: expected a sequence of artix.envs.Change, found {changes!r}"
        )


def check_changes(tree: Any, changes: Sequence[Change], prefix: str = "") -> None:
    """Refuses changes of leaves and entries that do not exist, and bounds that make a mass or the
    like negative.

    Normal distributions have no bounds, and traced leaves no known numbers; those are not checked.

    Args:
      tree: the robot or the ground.
      changes: what to randomise, in order.
      prefix: what the names of its leaves begin with in messages, such as ``"ground."``.

    Raises:
      ValueError: as for :func:`randomize`.
    """
    lowest: dict[str, np.ndarray] = {}
    for change in changes:
        leaf = leaf_of(tree, change.leaf, prefix)
        index = _index(tree, change, leaf)
        if not leaf.size:
            raise ValueError(f"randomisation of {prefix}{change.leaf}: there is none to randomise")
        if change.distribution == "normal" or isinstance(leaf, jax.core.Tracer):
            continue
        values = lowest.setdefault(change.leaf, np.array(leaf))
        low = change.range[0]
        values[index] = {"absolute": low, "scale": values[index] * low, "add": values[index] + low}[
            change.operation
        ]
        if change.leaf.split(".")[-1] in _NOT_NEGATIVE and np.any(values < 0):
            first = np.argwhere(values < 0)[0]
            names = _row_names(tree, change.leaf)
            where = f" for {names[first[0]]!r}" if names else ""
            raise ValueError(
                f"randomisation of {prefix}{change.leaf}: {change.operation!r} with bounds "
                f"{change.range} makes it negative{where}, {values[tuple(first)]:.4g}; use other "
                "bounds, operation='scale', or fewer entries"
            )


def draw(tree: Any, key: Array, changes: Sequence[Change]) -> tuple[Array, ...]:
    """Draws the numbers for each change, one array per change, for :func:`with_drawn`."""
    parts = random_numbers.split(key, max(len(changes), 1))
    return tuple(_draw(part, change, tree) for part, change in zip(parts, changes, strict=False))


def with_drawn(tree: _Tree, changes: Sequence[Change], drawn: Sequence[Array]) -> _Tree:
    """Applies the changes, with numbers from :func:`draw`."""
    for change, numbers in zip(changes, drawn, strict=True):
        before = leaf_of(tree, change.leaf)
        index = _index(tree, change, before)
        are_factors = change.leaf == _INERTIA and numbers.ndim == 1
        entries = numbers[:, None, None] if are_factors else numbers
        after = _OPERATIONS[change.operation](before.at[index], entries)
        tree = _replaced(tree, change.leaf.split("."), _of_length_one(change, after))
        for name in change.also:
            beside = leaf_of(tree, name)
            rows, rows_of_leaf = _rows_of(name), _rows_of(change.leaf)
            if (
                rows != rows_of_leaf
                and hasattr(tree, "topology")
                and (index is not ... or numbers.ndim)
            ):
                raise ValueError(
                    f"randomisation of {change.leaf}: the rows of {name} stand for "
                    f"{rows or 'something else'}, its own for {rows_of_leaf or 'something else'}; "
                    "make it a change of its own"
                )
            factor = (
                numbers
                if numbers.ndim == 0
                else numbers.reshape(*numbers.shape, *(1,) * (beside.ndim - 1))
            )
            tree = _replaced(tree, name.split("."), beside.at[index].multiply(factor))
    return tree


def _is_drawn(change: Change) -> bool:
    """Whether numbers differ: in the place of those from a range of one value, a caller may put
    what is right by itself, such as whole inertias and poses.
    """
    low, high = change.range
    return change.distribution == "normal" or low < high


def _of_length_one(change: Change, leaf: Array) -> Array:
    """The leaf with changed quaternions of poses, and normals, scaled to length 1."""
    if not _is_drawn(change):
        return leaf
    if change.leaf.endswith("normal"):
        return leaf * jax.lax.rsqrt(jnp.sum(leaf**2))
    is_turned = change.components is None or any(each > 2 for each in change.components)
    if leaf.shape[-1:] != (7,) or not is_turned:
        return leaf
    square = jnp.sum(leaf[..., 3:] ** 2, axis=-1, keepdims=True)
    return jnp.concatenate([leaf[..., :3], leaf[..., 3:] * jax.lax.rsqrt(square)], axis=-1)


def leaf_of(tree: Any, name: str, prefix: str = "") -> Array:
    """The array with this name in a robot or a ground.

    Args:
      tree: the robot or the ground.
      name: name of the leaf.
      prefix: what names begin with in messages.

    Raises:
      ValueError: there is none; the message lists the valid names.
    """
    names = leaf_names(tree)
    if name not in names:
        known = ", ".join(prefix + each for each in names)
        raise ValueError(f"no leaf called {prefix + name!r} to randomise; choose from: {known}")
    for part in name.split("."):
        tree = tree[int(part)] if isinstance(tree, tuple) else getattr(tree, part)
    return tree


def leaf_names(tree: Any) -> tuple[str, ...]:
    """The names of all floating-point arrays in a robot, with those that it lacks, or in a
    ground.
    """
    if isinstance(tree, Articulation):
        return (*tree.arrays, *tree.absent)
    names = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            names.append(
                ".".join(str(getattr(part, "name", getattr(part, "idx", part))) for part in path)
            )
    return tuple(names)


def _replaced(tree: Any, path: list[str], value: Array) -> Any:
    if not path:
        return value
    first, rest = path[0], path[1:]
    if isinstance(tree, tuple):
        number = int(first)
        return (*tree[:number], _replaced(tree[number], rest, value), *tree[number + 1 :])
    return tree.replace(**{first: _replaced(getattr(tree, first), rest, value)})


def _index(tree: Any, change: Change, leaf: Array) -> Any:
    """The index of the numbers that a change affects."""
    if change.entries is None and change.components is None:
        return ...
    sizes = (*leaf.shape, 0, 0)  # an axis that the leaf does not have has no entries
    rows = (
        range(sizes[0])
        if change.entries is None
        else [_entry(tree, change, each) for each in change.entries]
    )
    columns = () if change.components is None else (change.components,)
    if any(
        not 0 <= each < size
        for size, part in zip(sizes, (rows, *columns), strict=False)
        for each in part
    ):
        raise ValueError(
            f"randomisation of {change.leaf}: entries {change.entries} and components "
            f"{change.components} do not fit its shape {leaf.shape}"
        )
    return np.ix_(rows, *columns)


def _entry(tree: Any, change: Change, entry: int | str) -> int:
    """The row number for a name or a number."""
    if not isinstance(entry, str):
        return entry
    names = _row_names(tree, change.leaf)
    if names is None:
        raise ValueError(
            f"randomisation of {change.leaf}: its entries have no names; found {entry!r}; give "
            "its number"
        )
    if (
        change.leaf in ("joint_parent_pose", "joint_child_pose")
        and entry in tree.topology.joint_names
    ):
        return tree.topology.joint_names.index(entry) + 1  # the root has no joint
    if entry not in names:
        raise ValueError(
            f"randomisation of {change.leaf}: no entry called {entry!r}; choose from: "
            f"{', '.join(names)}"
        )
    return names.index(entry)


def _row_names(tree: Any, leaf: str) -> tuple[str, ...] | None:
    """The names of the rows of a leaf; ``None`` if they have none."""
    topology: Any = getattr(tree, "topology", None)
    rows = _rows_of(leaf)
    if topology is None or rows is None:
        return None
    return {
        "links": topology.link_names,
        "DOFs": topology.dof_names,
        "frames": topology.frame_names,
        "shapes": tuple(each.name for each in topology.geometries),
        "followers": tuple(topology.dof_names[follower] for follower, _ in topology.mimic_dofs),
    }[rows]


def _rows_of(leaf: str) -> str | None:
    """What the rows of a robot's array stand for; ``None`` if they have no names."""
    group = leaf.split(".")[0]
    if group in PER_LINK:
        return "links"
    if group in PER_DOF:
        return "DOFs"
    if group == "geometry":
        return None if leaf == "geometry.point" else "shapes"
    return {"frame_local_pose": "frames", "mimic": "followers"}.get(group)


def _draw(key: Array, change: Change, tree: Any) -> Array:
    leaf = leaf_of(tree, change.leaf)
    shape = () if change.shared else np.empty(leaf.shape, bool)[_index(tree, change, leaf)].shape
    if change.leaf == _INERTIA and change.operation == "scale" and change.components is None:
        shape = shape[:1]  # A factor for each matrix.
    low, high = map(float, change.range)
    uniform = random_numbers.uniform(key, max(int(np.prod(shape)), 1), leaf.dtype).reshape(shape)
    if change.distribution == "normal":
        # The lowest of the 2^24 numbers is zero.
        return low + high * jax.scipy.special.ndtri(
            jnp.maximum(uniform, jnp.asarray(2.0**-25, leaf.dtype))
        )
    if change.distribution == "log_uniform":
        return jnp.exp(math.log(low) + (math.log(high) - math.log(low)) * uniform)
    return low + (high - low) * uniform
