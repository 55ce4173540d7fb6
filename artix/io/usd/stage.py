"""Opens a USD stage and reads values, applied schemas and poses of its prims, in SI units and
radians.

Mistakes are reported with their prim.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from artix.io.common.diagnostics import Location, Place, Report
from artix.io.common.meshes import Meshes
from artix.io.common.poses import IDENTITY, compose, inverse, rotation_pose

if TYPE_CHECKING:
    from pxr import Usd

#: Namespaces of physical properties; unread ones are reported.
PHYSICS_NAMESPACES = ("physics", "drive", "limit", "state", "newton", "mjc", "warpSim")


def import_pxr() -> Any:
    """The ``pxr`` package with ``Gf``, ``Sdf``, ``Tf``, ``Usd``, ``UsdGeom``, ``UsdPhysics``,
    ``UsdShade`` imported.

    Raises:
      ModuleNotFoundError: ``usd-core`` is not installed; the message says how to install it.
    """
    try:
        import pxr
        from pxr import Gf, Sdf, Tf, Usd, UsdGeom, UsdPhysics, UsdShade  # noqa: F401
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "reading USD requires usd-core: pip install 'artix[usd]'"
        ) from error
    return pxr


def is_usd_text(source: Any) -> bool:
    """Whether ``source`` is USD text rather than a path."""
    return isinstance(source, str) and source.lstrip().startswith("#usda")


#: PhysX writes infinity as the largest float32; values of this size or more count as infinite.
FLOAT_MAX = 3.4e38


def open_stage(source: Any, report: Report) -> Usd.Stage | None:
    """Opens a stage from a path, USD text or an open stage; reports an error and returns ``None``
    if that fails.

    Raises:
      OSError: the file cannot be read.
      TypeError: ``source`` is none of the three.
    """
    pxr = import_pxr()
    if isinstance(source, pxr.Usd.Stage):
        return source
    try:
        if is_usd_text(source):
            layer = pxr.Sdf.Layer.CreateAnonymous(".usda")
            layer.ImportFromString(source)
            return pxr.Usd.Stage.Open(layer)
        if not isinstance(source, str | os.PathLike):
            raise TypeError(
                f"expected a path, USD text or a pxr.Usd.Stage; found {type(source).__name__}"
            )
        with Path(source).open(
            "rb"
        ):  # A missing or unreadable file is an OSError, as for every other format.
            pass
        return pxr.Usd.Stage.Open(os.fspath(source))
    except pxr.Tf.ErrorException as error:
        note_usd_error(report, error)
    return None


def note_usd_error(report: Report, error: Exception) -> None:
    """Reports an error raised by USD, with its line if USD gives one."""
    message = first_usd_error(error)
    place = re.search(r":(\d+):\d+: |on line (\d+)", message)
    where = Location("stage", int(place[1] or place[2]) if place else 1)
    report.error(where, f"not readable as USD: {message}", "correct the file; usdchecker helps")


def first_usd_error(error: Exception) -> str:
    """The first of the errors that an exception of USD lists, without the place in USD's own
    source.
    """
    try:
        message = " ".join(str(error).split())
    except UnicodeDecodeError:  # The message quotes the file.
        return "text that is not UTF-8"
    first = (message.partition(" : ")[2] or message).partition(" Error in ")[0]
    return first.strip("' ")[:300]


class UsdPrim:
    """A prim, whose properties are read at the earliest authored time.

    Every ``read_*`` method returns its fallback if nothing is authored. It reports values of the
    wrong type, NaNs and, unless they are allowed, infinities as errors, and records that the
    property has been read.

    Args:
      prim: the prim.
      report: receives the mistakes.
    """

    line = 1

    def __init__(self, prim: Usd.Prim, report: Report) -> None:
        self.prim = prim
        self.path = str(prim.GetPath())
        self.label = f"<{self.path}>"
        self.schemas = tuple(map(str, prim.GetPrimTypeInfo().GetAppliedAPISchemas()))
        self._report = report
        self._time = import_pxr().Usd.TimeCode.EarliestTime()
        self._read: set[str] = set()
        original = prim.GetCustomDataByKey(NAME_KEY)
        #: The prim's name, or the original name that ``save_usd`` kept because it is not a valid
        #: USD identifier.
        self.name = original if isinstance(original, str) and original else str(prim.GetName())

    def has(self, schema: str) -> bool:
        """Whether a single-apply schema is applied."""
        return schema in self.schemas

    def instances(self, schema: str) -> list[str]:
        """The instance names under which a multiple-apply schema is applied, without duplicates."""
        prefix = f"{schema}:"
        return list(
            dict.fromkeys(
                name.removeprefix(prefix) for name in self.schemas if name.startswith(prefix)
            )
        )

    def read(self, name: str) -> Any:
        """The authored value of an attribute, or ``None``."""
        self._read.add(name)
        attribute = self.prim.GetAttribute(name)
        return attribute.Get(self._time) if attribute and attribute.HasAuthoredValue() else None

    def read_array(self, name: str, size: int, *, infinite: bool = False) -> np.ndarray | None:
        """A vector of ``size`` numbers; ``None`` if it is not authored or invalid."""
        value = self.read(name)
        if value is None:
            return None
        try:
            array = np.atleast_1d(np.asarray(value, float))
        except (TypeError, ValueError):
            array = np.empty(0)
        array = np.where(np.abs(array) >= FLOAT_MAX, np.copysign(np.inf, array), array)
        if array.shape != (size,):
            what = "a number" if size == 1 else f"{size} numbers"
            self.error(name, f"must be {what}, found {str(value)[:60]!r}")
            return None
        if np.isnan(array).any() or not (infinite or np.isfinite(array).all()):
            self.error(
                name, f"must {'not be NaN' if infinite else 'be finite'}, found {array.tolist()}"
            )
            return None
        return array

    def read_number(
        self,
        name: str,
        fallback: float = 0.0,
        *,
        low: float = -np.inf,
        high: float = np.inf,
        infinite: bool = False,
    ) -> float:
        """A number within ``[low, high]``."""
        array = self.read_array(name, 1, infinite=infinite)
        if array is None:
            return fallback
        if not low <= array[0] <= high:
            self.error(name, f"must lie in [{low:g}, {high:g}], found {array[0]:g}")
            return fallback
        return float(array[0])

    def read_quaternion(self, name: str) -> np.ndarray | None:
        """A unit quaternion xyzw; ``None`` if it is not authored or zero."""
        value = self.read(name)
        if value is None:
            return None
        try:
            quaternion = np.array([*value.GetImaginary(), value.GetReal()], float)
        except (AttributeError, TypeError):
            self.error(name, f"must be a quaternion, found {str(value)[:60]!r}")
            return None
        norm = np.linalg.norm(quaternion)
        if not np.isfinite(norm):
            self.error(name, f"must be finite, found {quaternion.tolist()}")
            return None
        return quaternion / norm if norm > 0.0 else None

    def read_bool(self, name: str, fallback: bool) -> bool:
        """A Boolean."""
        value = self.read(name)
        if value is None or isinstance(value, bool | int):
            return fallback if value is None else bool(value)
        self.error(name, f"must be true or false, found {str(value)[:60]!r}")
        return fallback

    def read_token(self, name: str, fallback: str, allowed: tuple[str, ...] = ()) -> str:
        """A token, one of ``allowed`` unless that is empty."""
        value = self.read(name)
        if value is None:
            return fallback
        if not isinstance(value, str) or (allowed and value not in allowed):
            self.error(
                name, f"must be {' or '.join(allowed) or 'a word'}, found {str(value)[:60]!r}"
            )
            return fallback
        return value

    def read_target(self, name: str) -> str | None:
        """The path that a relationship points at; the first of several, as in PhysX."""
        self._read.add(name)
        relationship = self.prim.GetRelationship(name)
        targets = relationship.GetForwardedTargets() if relationship else []
        if len(targets) > 1:
            self.left_out(
                name, f"has {len(targets)} targets; only the first is read", "keep one target"
            )
        return str(targets[0].GetPrimPath()) if targets else None

    def error(self, name: str, message: str, fix: str = "correct the value") -> None:
        """Reports a mistake in a property."""
        self._report.error(Location(f"<{self.path}.{name}>"), message, fix)

    def left_out(self, name: str, message: str, fix: str) -> None:
        """Reports a property that an articulation cannot represent."""
        self._report.changed(Location(f"<{self.path}.{name}>"), f"left out: {message}", fix)

    def unread(self) -> list[str]:
        """The authored physical properties that have not been read."""
        authored = (str(name) for name in self.prim.GetAuthoredPropertyNames())
        return [name for name in authored if name not in self._read and _is_physical(name)]


#: Key of a prim's custom data under which ``save_usd`` keeps a name that is not a valid USD
#: identifier.
NAME_KEY = "artix:name"


def _is_physical(name: str) -> bool:
    space, colon, _ = name.partition(":")
    return bool(colon) and (space in PHYSICS_NAMESPACES or space.startswith("physx"))


class UsdScene:
    """A stage, its units, and its prims with their poses in metres.

    World axes have z up: a stage whose ``upAxis`` is Y is rotated by 90 degrees about x.

    Args:
      stage: the stage.
      report: receives the mistakes.
      meshes: replacement for large collision meshes; ``None`` leaves them out.
    """

    def __init__(self, stage: Usd.Stage, report: Report, meshes: Meshes | None = None) -> None:
        pxr = import_pxr()
        self.stage = stage
        self.report = report
        self.meshes = meshes
        self.units = self._units()
        up_is_y = pxr.UsdGeom.GetStageUpAxis(stage) == pxr.UsdGeom.Tokens.y
        turn = (
            np.array([np.sin(np.pi / 4), 0.0, 0.0, np.cos(np.pi / 4)]) if up_is_y else IDENTITY[3:]
        )
        #: Pose of the stage's axes in the world.
        self.stage_pose = rotation_pose(turn)
        self._cache = pxr.UsdGeom.XformCache(pxr.Usd.TimeCode.EarliestTime())
        self._transforms: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        predicate = pxr.Usd.TraverseInstanceProxies(pxr.Usd.PrimDefaultPredicate)
        self.prims: dict[str, UsdPrim] = {}
        for prim in pxr.Usd.PrimRange.Stage(stage, predicate):
            self.prims[str(prim.GetPath())] = UsdPrim(prim, report)
        for error in stage.GetCompositionErrors():
            message = " ".join(str(error).split())[:300]
            self.left_out(
                Location("stage"),
                f"part of the stage cannot be composed: {message}",
                "correct the reference",
            )

    def left_out(self, place: Place, message: str, fix: str) -> None:
        """Reports a prim that an articulation cannot represent: a warning, or an error if the
        reader is strict.
        """
        self.report.changed(place, f"left out: {message}", fix)

    def _units(self) -> StageUnits:
        pxr = import_pxr()
        values = (
            pxr.UsdGeom.GetStageMetersPerUnit(self.stage),
            pxr.UsdPhysics.GetStageKilogramsPerUnit(self.stage),
        )
        for value, name in zip(values, ("metersPerUnit", "kilogramsPerUnit"), strict=True):
            if not 1e-9 <= value <= 1e9:
                self.report.error(
                    Location("stage"),
                    f"{name} must lie in [1e-9, 1e9], found {value:g}",
                    "correct the metadata",
                )
                return StageUnits()
        return StageUnits(*map(float, values))

    def pose(self, path: str) -> np.ndarray:
        """World pose of a prim's frame, without its scale [m], shape [7]; the stage's frame for the
        path ``/``.
        """
        position, quaternion = np.split(self._placement(path)[0], [3])
        return compose(self.stage_pose, np.concatenate([position * self.units.length, quaternion]))

    def scale(self, path: str) -> np.ndarray:
        """Metres per unit of a prim's coordinates along its axes, shape [3]."""
        return self._placement(path)[1] * self.units.length

    def relative_pose(self, path: str, reference: str) -> np.ndarray:
        """Pose of one prim's frame in another prim's frame [m], shape [7]."""
        return compose(inverse(self.pose(reference)), self.pose(path))

    def point(self, path: str, coordinates: np.ndarray) -> np.ndarray:
        """A point given in a prim's scaled coordinates, expressed in the frame of :meth:`pose` [m],
        shape [3].
        """
        return self.scale(path) * coordinates

    def _placement(self, path: str) -> tuple[np.ndarray, np.ndarray]:
        if path not in self._transforms:
            self._transforms[path] = self._decompose(path)
        return self._transforms[path]

    def _decompose(self, path: str) -> tuple[np.ndarray, np.ndarray]:
        """Pose [7] and scale [3] of a prim's local-to-world matrix, in the stage's axes and
        units.
        """
        matrix = self._cache.GetLocalToWorldTransform(self.stage.GetPrimAtPath(path))
        array = np.array(matrix)
        place = Location(f"<{path}>")
        fallback = IDENTITY, np.ones(3)
        if not np.isfinite(array).all() or not np.allclose(array[:, 3], [0, 0, 0, 1]):
            self.report.error(
                place, "its transform is not finite or not affine", "correct its xformOps"
            )
            return fallback
        # Rows are the images of the basis vectors: USD multiplies row vectors from the left.
        scale = np.linalg.norm(array[:3, :3], axis=1)
        if not np.all((scale > 1e-12) & (scale < 1e12)):
            self.report.error(
                place, f"its transform has the scale {scale.tolist()}", "correct its xformOp:scale"
            )
            return fallback
        scale = -scale if np.linalg.det(array[:3, :3] / scale[:, None]) < 0.0 else scale
        rotation = (array[:3, :3] / scale[:, None]).T
        if np.max(np.abs(rotation.T @ rotation - np.eye(3))) > 1e-3:
            message = (
                "its transform shears: it is rotated below a prim with different scales along its "
                "axes"
            )
            self.report.error(
                place, message, "scale the shapes instead of the bodies, or scale uniformly"
            )
            return fallback
        quaternion = import_pxr().Gf.Matrix3d(*rotation.T.ravel()).ExtractRotation().GetQuat()
        return np.array([*array[3, :3], *quaternion.GetImaginary(), quaternion.GetReal()]), scale


# --- units --------------------------------------------------------------------------------------

DEGREE = math.pi / 180.0


@dataclasses.dataclass(frozen=True)
class AxisUnits:
    """SI values of a stage's units for one joint axis.

    Attributes:
      position: unit of positions and, per second, of velocities [rad or m].
      effort: unit of torques or forces [N m or N].
      inertia: unit of armature [kg m^2 or kg].
      acceleration: unit of the stiffness of acceleration drives: acceleration per position [1/s^2].
      lever: unit of the ratio of this axis's effort to a force [m or 1].
    """

    position: float
    effort: float
    inertia: float
    acceleration: float
    lever: float

    @property
    def stiffness(self) -> float:
        """Unit of stiffness and, times a second, of damping and viscous friction."""
        return self.effort / self.position

    @property
    def gradient(self) -> float:
        """Unit of velocity per effort."""
        return self.position / self.effort


@dataclasses.dataclass(frozen=True)
class StageUnits:
    """SI values of a stage's units; time is in seconds.

    Attributes:
      length: ``metersPerUnit`` [m].
      mass: ``kilogramsPerUnit`` [kg].
    """

    length: float = 1.0
    mass: float = 1.0

    @property
    def inertia(self) -> float:
        """Unit of rotational inertias [kg m^2]."""
        return self.mass * self.length**2

    @property
    def force(self) -> float:
        """Unit of forces [N]."""
        return self.mass * self.length

    def axis(self, angular: bool) -> AxisUnits:
        """The units of a rotational or a translational joint axis."""
        if angular:
            return AxisUnits(DEGREE, self.inertia, self.inertia, 1.0 / DEGREE, self.length)
        return AxisUnits(self.length, self.force, self.mass, 1.0, 1.0)
