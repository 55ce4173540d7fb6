"""Terrain: height maps of single tiles, and fields of tiles that get harder row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

import artix
from artix.math.arrays import device_array

Array = jax.Array


def rough(
    rng: np.random.Generator, shape: tuple[int, int], spacing: float, difficulty: float
) -> np.ndarray:
    """Random heights of up to ``0.08 difficulty`` m up or down.

    Args:
      rng: a NumPy random generator.
      shape: number of heights along x and y.
      spacing: distance between neighbouring heights [m].
      difficulty: from 0 (easiest) to 1.

    Returns:
      Heights [m] of this shape. The other kinds of tiles have the same arguments and result.
    """
    return rng.uniform(-0.08, 0.08, shape) * difficulty


def slope(
    rng: np.random.Generator, shape: tuple[int, int], spacing: float, difficulty: float
) -> np.ndarray:
    """A pyramid or pit with a level middle of 1 m, slope ``0.4 difficulty`` around it, and edges at
    height 0.
    """
    away = np.maximum(_from_middle(shape, spacing) - 0.5, 0.0)
    return rng.choice([-1.0, 1.0]) * 0.4 * difficulty * (away - away.max())


def stairs(
    rng: np.random.Generator, shape: tuple[int, int], spacing: float, difficulty: float
) -> np.ndarray:
    """A pyramid or pit of stairs, 0.3 m deep and ``0.03 + 0.12 difficulty`` m high each, with edges
    at height 0.

    Heights are interpolated bilinearly, so a step rises over one ``spacing``.
    """
    steps = np.floor(np.maximum(_from_middle(shape, spacing) - 0.5, 0.0) / 0.3 + 1e-9)
    return rng.choice([-1.0, 1.0]) * (0.03 + 0.12 * difficulty) * (steps - steps.max())


def obstacles(
    rng: np.random.Generator, shape: tuple[int, int], spacing: float, difficulty: float
) -> np.ndarray:
    """Level ground with 20 rectangular blocks and holes of up to ``0.03 + 0.12 difficulty`` m
    around the middle.
    """
    heights = np.zeros(shape)
    for _ in range(20):
        size = rng.integers(3, 10, 2)
        corner = rng.integers(0, np.maximum(np.array(shape) - size, 1))
        part = slice(corner[0], corner[0] + size[0]), slice(corner[1], corner[1] + size[1])
        heights[part] = rng.choice([-1.0, -0.5, 0.5, 1.0]) * (0.03 + 0.12 * difficulty)
    return np.where(_from_middle(shape, spacing) > 0.5, heights, 0.0)


#: The kinds of tiles, by name.
KINDS: dict[str, Callable[[np.random.Generator, tuple[int, int], float, float], np.ndarray]] = {
    "rough": rough,
    "slope": slope,
    "stairs": stairs,
    "obstacles": obstacles,
}


class Terrain(NamedTuple):
    """A field of tiles, the easiest at level 0."""

    field: artix.HeightField
    """The whole height field."""
    centers: Array
    """Centres of the tiles, x and y in world axes [m], [levels, columns, 2]."""
    size: float
    """Side length of a tile [m]."""


def tiles(
    kinds: tuple[str, ...] = tuple(KINDS),
    *,
    levels: int = 10,
    columns: int = 8,
    size: float = 8.0,
    spacing: float = 0.1,
    friction: float = 0.8,
    seed: int = 0,
    dtype=None,
) -> Terrain:
    """A field of tiles. Each column has one kind, and difficulty grows with the level.

    Args:
      kinds: names from :data:`KINDS`, assigned to the columns in turn.
      levels: number of levels.
      columns: number of tiles per level.
      size: side length of a tile [m].
      spacing: distance between neighbouring heights [m].
      friction: coefficient of friction.
      seed: seed of the random heights.
      dtype: floating-point type; JAX's default when ``None``.

    Raises:
      ValueError: there is no kind of that name (the message lists the known ones), or there would
        be no tile.

    Examples:
      >>> from artix.envs import terrain
      >>> field = terrain.tiles(("stairs", "rough"), levels=3, columns=2, size=4.0)
      >>> field.field.heights.shape, field.centers.shape
      ((120, 80), (3, 2, 2))
    """
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"no terrain called {kind!r}; choose from: {', '.join(KINDS)}")
    if not kinds or levels < 1 or columns < 1:
        raise ValueError(
            f"terrain needs at least one kind, level and column; found kinds={kinds}, "
            f"levels={levels}, columns={columns}"
        )
    if not 0 < 2 * spacing <= size:
        raise ValueError(
            f"terrain: a tile must be at least two spacings long; found size={size} m, "
            f"spacing={spacing} m"
        )
    rng, count = np.random.default_rng(seed), round(size / spacing)
    rows = [
        np.concatenate(
            [
                KINDS[kinds[column % len(kinds)]](
                    rng, (count, count), spacing, level / max(levels - 1, 1)
                )
                for column in range(columns)
            ],
            axis=1,
        )
        for level in range(levels)
    ]
    field = artix.HeightField.of(
        np.concatenate(rows), spacing=(spacing, spacing), friction=friction, dtype=dtype
    )
    middle = 0.5 * (count - 1) * spacing
    x, y = (
        count * spacing * np.arange(levels) + middle,
        count * spacing * np.arange(columns) + middle,
    )
    centers = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1)
    return Terrain(field, device_array(centers, field.heights.dtype), size)


def _from_middle(shape: tuple[int, int], spacing: float) -> np.ndarray:
    """The larger of the distances from the middle along x and y [m]."""
    along = [np.abs(np.arange(count) - 0.5 * (count - 1)) * spacing for count in shape]
    return np.maximum(along[0][:, None], along[1][None])
