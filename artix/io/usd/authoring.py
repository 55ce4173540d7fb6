"""Writes prims to a stage, with valid USD names, applied schemas and typed values."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

import numpy as np

from artix.io.common.description import Names
from artix.io.common.diagnostics import Location, Report
from artix.io.usd.stage import NAME_KEY, import_pxr
from artix.model.articulation import Articulation, State
from artix.model.topology import Topology

if TYPE_CHECKING:
    from pxr import Usd


class Author:
    """Writes an articulation below one prim of a new stage in metres, kilograms and degrees, with z up.

    Args:
      topology: the articulation's topology.
      arrays: the articulation, with NumPy arrays.
      state: the state to write, with NumPy arrays, if any.
      report: receives what USD cannot express.

    Attributes:
      bodies: the prims of the links, once they are written.
      joints: those of the joints of links 1, 2, ...
    """

    def __init__(self, topology: Topology, arrays: Articulation, state: State | None, report: Report) -> None:
        pxr = import_pxr()
        self.topology = topology
        self.arrays = arrays
        self.state = state
        self.bodies: list[Usd.Prim] = []
        self.joints: list[Usd.Prim] = []
        self.stage = pxr.Usd.Stage.CreateInMemory()
        self._report = report
        self._names: dict[str, Names] = collections.defaultdict(Names)
        self._warnings: dict[tuple[str, str], list[Usd.Prim]] = {}
        pxr.UsdGeom.SetStageUpAxis(self.stage, pxr.UsdGeom.Tokens.z)
        pxr.UsdGeom.SetStageMetersPerUnit(self.stage, 1.0)
        pxr.UsdPhysics.SetStageKilogramsPerUnit(self.stage, 1.0)
        self.world = self.stage.DefinePrim("/World", "Xform")
        self.stage.SetDefaultPrim(self.world)
        self.top = self.define("Xform", topology.name, self.world)

    @property
    def owner(self) -> Usd.Prim:
        """The prim with the articulation's schemas: the root body if it floats, else the robot's prim."""
        return self.top if self.topology.fixed_base else self.bodies[0]

    def define(self, kind: str, name: str, parent: Usd.Prim | None = None) -> Usd.Prim:
        """Creates a prim; a name that is taken or not a valid USD identifier is kept in the prim's custom data."""
        path = (self.top if parent is None else parent).GetPath()
        spelled = import_pxr().Tf.MakeValidIdentifier(name)
        unique = self._names[str(path)].new(spelled)
        prim = self.stage.DefinePrim(path.AppendChild(unique), kind)
        if unique != name:
            prim.SetCustomDataByKey(NAME_KEY, name)
        return prim

    def report_unsupported(self, prim: Usd.Prim, message: str, fix: str = "nothing, or set it after reading") -> None:
        """Records something that USD cannot express."""
        self._warnings.setdefault((message, fix), []).append(prim)

    def finish(self) -> Usd.Stage:
        """Returns the stage, and reports what it cannot express, in one warning for all prims with the same message."""
        for (message, fix), prims in self._warnings.items():
            names = ", ".join(f"<{prim.GetPath()}>" for prim in prims)
            self._report.left_out(Location(names), message, fix)
        return self.stage


def author(prim: Usd.Prim, type_name: str, name: str, value: Any, *, uniform: bool = False) -> None:
    """Sets an attribute; creates it with the given value type if the prim's schemas do not define it."""
    sdf = import_pxr().Sdf
    variability = sdf.VariabilityUniform if uniform else sdf.VariabilityVarying
    attribute = prim.GetAttribute(name)
    if not attribute:
        attribute = prim.CreateAttribute(name, sdf.ValueTypeNames.Find(type_name), False, variability)
    attribute.Set(value)


def author_floats(prim: Usd.Prim, space: str, **values: Any) -> None:
    """Sets float attributes in a namespace."""
    for name, value in values.items():
        author(prim, "float", f"{space}:{name}", float(value))


def relate(prim: Usd.Prim, name: str, target: Usd.Prim) -> None:
    """Points a relationship at a prim."""
    prim.CreateRelationship(name, False).SetTargets([target.GetPath()])


def quaternion(xyzw: np.ndarray, *, double: bool = False) -> Any:
    """A ``GfQuatf``, or ``GfQuatd``, of a quaternion xyzw."""
    gf = import_pxr().Gf
    x, y, z, w = map(float, xyzw)
    return gf.Quatd(w, x, y, z) if double else gf.Quatf(w, x, y, z)


def vector(numbers: np.ndarray) -> Any:
    """A ``GfVec3f``."""
    return import_pxr().Gf.Vec3f(*map(float, numbers))


def set_pose(prim: Usd.Prim, pose: np.ndarray) -> None:
    """Sets the pose of an ``Xform`` relative to its parent, shape [7]."""
    pxr = import_pxr()
    xform = pxr.UsdGeom.Xformable(prim)
    xform.AddTranslateOp(pxr.UsdGeom.XformOp.PrecisionDouble).Set(pxr.Gf.Vec3d(*map(float, pose[:3])))
    xform.AddOrientOp(pxr.UsdGeom.XformOp.PrecisionDouble).Set(quaternion(pose[3:], double=True))
