"""Collision shapes on links: their descriptions for a builder, their static structure, and their
arrays.

Every shape makes contact through *candidates*: points fixed to its link, each with a radius. A
sphere or an ellipsoid has one, a capsule two, a box or a cylinder eight, a hull one per point, but
at most eight; see :mod:`artix.contact.candidates`.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt

from artix.math import struct
from artix.math.arrays import entries, known_values
from artix.model.hull_faces import NO_FACES, HullFaces, hull_faces
from artix.model.joints import IDENTITY_POSE
from artix.model.validation import check_fields, finite_array, number, unit_pose

Array = jax.Array

#: Meshes with at most so many vertices are hulls without being asked for.
SMALL_MESH = 16
#: The most points of a hull that readers make of a larger mesh on request. With 16 a ball was off
#: by a quarter of its radius; a step of a legged robot with 64 in each of its seventeen hulls takes
#: 17 % longer than with 16.
MAX_HULL_POINTS = 64
#: The most candidates for contact of a hull.
SUPPORT_POINTS = 8
#: The most points of any hull.
LARGEST_HULL = 4096


class GeometryType(enum.Enum):
    """The kinds of shapes; capsules and cylinders lie along the z axis of their frames, as in
    MuJoCo and URDF.

    Examples:
      >>> robot = artix.robots.load("humanoid")
      >>> print([(shape.name, shape.type.name) for shape in robot.topology.geometries])
      [('left_foot', 'BOX'), ('right_foot', 'BOX')]
    """

    SPHERE = "sphere"
    """Size: radius."""
    CAPSULE = "capsule"
    """A cylinder with hemispherical ends. Size: radius, half the distance between the centres of
    the ends."""
    BOX = "box"
    """Size: half the edge lengths along x, y and z."""
    CYLINDER = "cylinder"
    """Size: radius, half the length."""
    ELLIPSOID = "ellipsoid"
    """Size: the semi-axes along x, y and z."""
    HULL = "hull"
    """The convex hull of points, each a sphere. Size: the radius of the spheres."""

    @property
    def noun(self) -> str:
        """Its name in a sentence, with an article."""
        return f"{'an' if self is GeometryType.ELLIPSOID else 'a'} {self.value}"


#: Number of size parameters of each type.
SIZE_NUMBERS = {
    GeometryType.SPHERE: 1,
    GeometryType.CAPSULE: 2,
    GeometryType.BOX: 3,
    GeometryType.CYLINDER: 2,
    GeometryType.ELLIPSOID: 3,
    GeometryType.HULL: 1,
}

_QUARTERS = [(1, 0), (0, 1), (-1, 0), (0, -1)]


class CandidatePattern(NamedTuple):
    """How the candidates of a type of shape follow from its size."""

    points: np.ndarray
    """In units of the shape's extent along x, y and z, [C, 3]."""
    extent: tuple[int, int, int]
    """Which numbers of the size are this extent."""
    have_radius: bool
    """Whether the first number of the size is their radius, rather than zero."""


#: Those of each type but hulls. A sphere has no extent; a cylinder's points turn about z, and an
#: ellipsoid's moves all over its surface.
CANDIDATE_PATTERNS = {
    GeometryType.SPHERE: CandidatePattern(np.zeros((1, 3), int), (1, 1, 1), True),
    GeometryType.CAPSULE: CandidatePattern(np.array([[0, 0, -1], [0, 0, 1]]), (1, 1, 1), True),
    GeometryType.BOX: CandidatePattern(
        np.array(list(itertools.product((-1, 1), repeat=3))), (0, 1, 2), False
    ),
    GeometryType.CYLINDER: CandidatePattern(
        np.array([(x, y, end) for end in (-1, 1) for x, y in _QUARTERS]), (0, 0, 1), False
    ),
    GeometryType.ELLIPSOID: CandidatePattern(np.zeros((1, 3), int), (0, 1, 2), False),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Geometry:
    """A collision shape fixed to a link, and the material of its surface.

    The class methods :meth:`sphere`, :meth:`capsule`, :meth:`box`, :meth:`cylinder`,
    :meth:`ellipsoid` and :meth:`hull` create each kind.

    Attributes:
      type: the kind of shape.
      size: its size [m]; :class:`GeometryType` lists the numbers of each kind.
      pose: its frame in the link's frame: position [m], quaternion xyzw, shape [7].
      points: the points of a hull in the shape's frame [m], shape [P, 3]; ``None`` for every other
        type.
      friction: coefficient of friction. By default a pair of surfaces uses the larger of its two
        coefficients, so 0 leaves the choice to the ground; see :class:`artix.Ground`.
      restitution: ratio of the normal speeds after and before an impact, between 0 and 1; pairs as
        for friction.
      stiffness: normal force per penetration of each candidate [N/m], ``inf`` for a rigid surface.
      damping: normal force per speed of penetration [N s/m]; a rigid surface has none.
      sensor: whether the shape only measures its distance from the ground and exerts no force on
        it. In the pairs of :meth:`ArticulationBuilder.add_geometry_pair` a sensor collides like any
        other shape.

    Raises:
      ValueError: a size, coefficient or gain is negative or not finite, a quaternion is not of unit
        length, a hull has no points or more than 4,096, a stiffness is zero, or a rigid surface has
        damping.

    Examples:
      >>> builder = artix.builder_from_articulation(artix.robots.load("double_pendulum"))
      >>> ball = artix.Geometry.sphere(0.1, position=(0.0, 0.0, -1.0), friction=0.8)
      >>> builder.add_geometry("lower", ball, name="tip")
      >>> pendulum = builder.build()
      >>> scene = artix.Scene(pendulum, ground=artix.Ground.flat(height=-2.5))
      >>> print(artix.geometry_distances(scene, artix.neutral_state(pendulum)))  # 2.5 - 2 - 0.1 m
      [0.4]
    """

    type: GeometryType
    size: tuple[float, ...]
    pose: npt.ArrayLike = IDENTITY_POSE
    points: npt.ArrayLike | None = None
    friction: float = 0.0
    restitution: float = 0.0
    stiffness: float = np.inf
    damping: float = 0.0
    sensor: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", GeometryType(self.type))
        where = self.type.value
        size = tuple(number(value, f"{where}: size") for value in self.size)
        if len(size) != SIZE_NUMBERS[self.type]:
            raise ValueError(
                f"{where}: its size is {SIZE_NUMBERS[self.type]} numbers; found {size}"
            )
        if not all(np.isfinite(value) and value >= 0.0 for value in size):
            raise ValueError(f"{where}: its size must be finite and not negative [m]; found {size}")
        object.__setattr__(self, "size", size)
        # Tuples, so that shapes can be compared and hashed.
        object.__setattr__(self, "pose", tuple(unit_pose(self.pose, f"{where}: pose").tolist()))
        object.__setattr__(self, "sensor", bool(self.sensor))
        if (self.points is not None) != (self.type is GeometryType.HULL):
            raise ValueError(f"{where}: points are given for a hull, and only for it")
        if self.points is not None:
            object.__setattr__(
                self, "points", tuple(map(tuple, _hull_points(self.points).tolist()))
            )
        check_material(self, where)

    def structure(self, name: str, link: int) -> GeometryStructure:
        """The static structure of the shape under this name on this link."""
        if self.points is None:
            return GeometryStructure(name, self.type, link, 0, self.sensor)
        points = np.asarray(self.points)
        faces = hull_faces(points)
        return GeometryStructure(name, self.type, link, len(points), self.sensor, faces)

    @classmethod
    def sphere(
        cls, radius: float, *, position: npt.ArrayLike = (0.0, 0.0, 0.0), **options
    ) -> Geometry:
        """A sphere of this radius [m] about ``position`` [3] in the link's frame; ``options`` are
        other attributes, without the pose.

        Raises:
          TypeError: there is a ``pose``.
        """
        if "pose" in options:
            raise TypeError("sphere: give its position=(x, y, z) instead of a pose")
        place = finite_array(position, (3,), "sphere: position")
        return cls(
            type=GeometryType.SPHERE, size=(radius,), pose=(*place, 0.0, 0.0, 0.0, 1.0), **options
        )

    @classmethod
    def capsule(cls, radius: float, half_length: float, **options) -> Geometry:
        """A capsule along z of its ``pose``; ``half_length`` [m] is from its middle to the centre
        of an end.
        """
        return cls(type=GeometryType.CAPSULE, size=(radius, half_length), **options)

    @classmethod
    def box(cls, half_extents: Sequence[float], **options) -> Geometry:
        """A box with these half edge lengths [m], shape [3]."""
        return cls(type=GeometryType.BOX, size=tuple(np.atleast_1d(half_extents)), **options)

    @classmethod
    def cylinder(cls, radius: float, half_length: float, **options) -> Geometry:
        """A cylinder along z of its ``pose``; ``half_length`` [m] is half its length."""
        return cls(type=GeometryType.CYLINDER, size=(radius, half_length), **options)

    @classmethod
    def ellipsoid(cls, semi_axes: Sequence[float], **options) -> Geometry:
        """An ellipsoid with these semi-axes along x, y and z of its ``pose`` [m], shape [3]."""
        return cls(type=GeometryType.ELLIPSOID, size=tuple(np.atleast_1d(semi_axes)), **options)

    @classmethod
    def hull(cls, points: npt.ArrayLike, *, radius: float = 0.0, **options) -> Geometry:
        """The convex hull of at most 4,096 points [P, 3], or of spheres of this radius [m] about
        them.

        Up to eight points all may touch the ground, of more the eight extreme ones towards it.
        """
        return cls(type=GeometryType.HULL, size=(radius,), points=points, **options)


def check_material(owner: object, where: str) -> None:
    """Checks the surface parameters ``friction``, ``restitution``, ``stiffness`` and ``damping`` of
    ``owner``.

    Raises:
      ValueError: one of them is out of range; the message starts with ``where`` and its name.
    """
    check_fields(
        owner, where, not_negative=("friction", "restitution", "damping"), bounds=("stiffness",)
    )
    restitution, stiffness, damping = (
        getattr(owner, name) for name in ("restitution", "stiffness", "damping")
    )
    if restitution > 1.0:
        raise ValueError(f"{where}: restitution must lie in [0, 1]; found {restitution}")
    if stiffness == 0.0:
        raise ValueError(
            f"{where}: a stiffness of zero would carry nothing; make it a sensor, or inf for rigid"
        )
    if stiffness == np.inf and damping > 0.0:
        raise ValueError(
            f"{where}: a rigid surface has no damping; found {damping}; give a finite stiffness too"
        )


#: How far a known material may be out of range: finite differences go there from its ends.
_BEYOND = 1e-3

#: Which values of a known material are valid, and what to say of others.
_VALID: dict[str, tuple[Callable[[np.ndarray], np.ndarray], str]] = {
    "friction": (lambda x: (x >= -_BEYOND) & (x < np.inf), "finite numbers, not negative"),
    "restitution": (lambda x: (x >= -_BEYOND) & (x <= 1 + _BEYOND), "numbers from 0 to 1"),
    "stiffness": (lambda x: x > 0, "positive numbers, inf for rigid"),
    "damping": (lambda x: (x >= -_BEYOND) & (x < np.inf), "finite numbers, not negative"),
}


def check_known_material(where: str, surface: Any) -> None:
    """Raises ``ValueError`` if the material of a surface, or of all shapes of a robot, is known and
    has a number that is out of range, as after ``replace``.
    """
    for name, (is_valid, meaning) in _VALID.items():
        values = known_values(getattr(surface, name))
        if values is None or np.all(valid := is_valid(values)):
            continue
        index = tuple(int(each) for each in np.argwhere(~valid)[0])
        at = f" at [{', '.join(map(str, index))}]" if index else ""
        raise ValueError(f"{where}.{name}: expected {meaning}; found {values[index]}{at}")


def _hull_points(points: npt.ArrayLike) -> np.ndarray:
    array = np.asarray(points, float)
    if array.ndim != 2 or array.shape[1] != 3 or not 1 <= len(array) <= LARGEST_HULL:
        raise ValueError(
            f"hull: points must have shape [P, 3] with P from 1 to {LARGEST_HULL}; found "
            f"{array.shape}"
        )
    return finite_array(array, array.shape, "hull: points")


@dataclasses.dataclass(frozen=True)
class GeometryStructure:
    """The static structure of a shape.

    Attributes:
      name: its name.
      type: its kind.
      link: the link to which it is fixed.
      num_points: number of points of a hull, 0 for every other type.
      sensor: whether it exerts no force on the ground.
      faces: those of a hull of at most 64 points, as numbers of its points.
    """

    name: str
    type: GeometryType
    link: int
    num_points: int = 0
    sensor: bool = False
    faces: HullFaces = NO_FACES

    @property
    def num_candidates(self) -> int:
        """The number of points through which it makes contact."""
        return min(self.num_points, SUPPORT_POINTS) or len(CANDIDATE_PATTERNS[self.type].points)


class Geometries(struct.PyTreeNode):
    """The arrays of G shapes with P hull points in all, shape after shape; see :class:`Geometry`.

    Attributes:
      pose: frames in the links' frames, [G, 7].
      size: sizes [m], padded with zeros, [G, 3].
      point: points of hulls in the shapes' frames [m], [P, 3].
      friction: [G].
      restitution: [G].
      stiffness: [G] [N/m].
      damping: [G] [N s/m].
    """

    pose: Array
    size: Array
    point: Array
    friction: Array
    restitution: Array
    stiffness: Array
    damping: Array

    @classmethod
    def of(cls, geometries: Sequence[Geometry]) -> Geometries:
        """NumPy arrays from the descriptors."""
        points = [shape.points for shape in geometries if shape.points is not None]
        materials = ("friction", "restitution", "stiffness", "damping")
        return cls(
            pose=np.array([shape.pose for shape in geometries], float).reshape(-1, 7),  # type: ignore[arg-type]
            size=np.array([(*shape.size, 0.0, 0.0)[:3] for shape in geometries], float).reshape(
                -1, 3
            ),  # type: ignore[arg-type]
            point=np.concatenate([np.zeros((0, 3)), *points]),  # type: ignore[arg-type]
            **{
                name: np.array([getattr(shape, name) for shape in geometries], float)
                for name in materials
            },  # type: ignore[arg-type]
        )

    def select(
        self, structures: Sequence[GeometryStructure], index: np.ndarray, axis: int = 0
    ) -> Geometries:
        """Some of the shapes, in the order of ``index``.

        Args:
          structures: the static structures of all shapes.
          index: indices of the shapes to select.
          axis: the axis of the shapes, after any batch axes.
        """
        ends = np.cumsum([0, *(shape.num_points for shape in structures)])
        points = np.concatenate(
            [np.zeros(0, int), *(np.arange(ends[k], ends[k + 1]) for k in index)]
        ).astype(int)

        def take(name: str, array: Array) -> Array:
            kept = points if name == "point" else np.asarray(index, int)
            return entries(array, (*(slice(None),) * axis, kept))

        return self.replace(
            **{
                field.name: take(field.name, getattr(self, field.name))
                for field in dataclasses.fields(self)
            }
        )
