"""Physics materials: the coefficients of surfaces, and how those of two surfaces combine."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from artix.contact.ground import Ground
from artix.contact.plane import Plane
from artix.io.common.diagnostics import Location
from artix.io.common.poses import rotation_matrix
from artix.io.usd.stage import UsdPrim, UsdScene, import_pxr

#: PhysX's rules. Of the rules of two materials the later one holds (``PxCombineMode``).
_RULES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "average": lambda a, b: 0.5 * (a + b),
    "min": np.minimum,
    "multiply": np.multiply,
    "max": np.maximum,
}


class Surface(NamedTuple):
    """What a collider's material says of contacts with another."""

    name: str
    coefficients: tuple[float, float]
    """Friction and restitution."""
    rules: tuple[int, int]
    """The numbers of the rules that combine them with those of another."""


def physics_material(scene: UsdScene, collider: UsdPrim) -> UsdPrim | None:
    """The physics material bound to a collider."""
    bound, _ = (
        import_pxr().UsdShade.MaterialBindingAPI(collider.prim).ComputeBoundMaterial("physics")
    )
    prim = UsdPrim(bound.GetPrim(), scene.report) if bound else None
    return prim if prim is not None and prim.has("PhysicsMaterialAPI") else None


def material_of(scene: UsdScene, collider: UsdPrim) -> dict[str, float]:
    """The parameters of the physics material bound to a collider, in SI units; empty if there is
    none.
    """
    prim = physics_material(scene, collider)
    if prim is None:
        return {}
    numbers = {
        "friction": prim.read_number("physics:dynamicFriction", low=0.0),
        "restitution": prim.read_number("physics:restitution", low=0.0, high=1.0),
    }
    # In PhysX a stiffness of zero means rigid contact. Units are force per length and force per
    # speed.
    stiffness = (
        prim.read_number("physxMaterial:compliantContactStiffness", low=0.0) * scene.units.mass
    )
    if stiffness > 0.0:
        damping = (
            prim.read_number("physxMaterial:compliantContactDamping", low=0.0) * scene.units.mass
        )
        numbers |= {"stiffness": stiffness, "damping": damping}
    return numbers


def surface_of(
    scene: UsdScene, collider: UsdPrim, name: str, friction: Any, restitution: Any
) -> Surface:
    """The surface of a collider with these coefficients."""
    prim, rules = physics_material(scene, collider), (0, 0)
    if prim is not None:
        rules = tuple(  # type: ignore[assignment]
            list(_RULES).index(
                prim.read_token(f"physxMaterial:{which}CombineMode", "average", tuple(_RULES))
            )
            for which in ("friction", "restitution")
        )
    return Surface(name, (float(friction), float(restitution)), rules)


def combinations_of(
    scene: UsdScene, pairs: Iterable[tuple[Surface, Surface]], whose: str
) -> dict[str, str]:
    """The rules that combine the coefficients of most pairs as PhysX does, of those the ones that
    most pairs have, as ``friction_combination`` and ``restitution_combination``. Reports the pairs
    that they do not combine so.
    """
    every = list(pairs)
    chosen = {}
    for k, what in enumerate(("friction", "restitution")):
        a, b = (np.array([pair[side].coefficients[k] for pair in every]) for side in (0, 1))
        rules = np.array([max(pair[0].rules[k], pair[1].rules[k]) for pair in every], int)
        values = np.array([rule(a, b) for rule in _RULES.values()])
        wrong = np.abs(values - values[rules, np.arange(len(every))]) > 1e-6
        named = np.bincount(rules, minlength=len(_RULES))
        best = int(np.lexsort((-named, wrong.sum(axis=1)))[0])
        rule = list(_RULES)[best]
        chosen[f"{what}_combination"] = rule
        if wrong[best].any():
            first, second = every[int(np.argmax(wrong[best]))]
            message = (
                f"the {what} of {whose} is combined by {rule!r}, which is not PhysX's for "
                f"{wrong[best].sum()} of {len(every)} pairs, such as {first.name!r} and "
                f"{second.name!r}"
            )
            fix = f"give all physics materials the same physxMaterial:{what}CombineMode"
            scene.report.warning(Location("stage"), message, fix)
    return chosen


def read_ground(scene: UsdScene, surfaces: Iterable[Surface]) -> Ground | None:
    """The planes of a stage outside its bodies, for robots with these surfaces; ``None`` without
    one.
    """
    planes = []
    materials = []
    for prim in scene.prims.values():
        if str(prim.prim.GetTypeName()) != "Plane" or not prim.has("PhysicsCollisionAPI"):
            continue
        above = [scene.prims.get(str(path)) for path in prim.prim.GetPath().GetPrefixes()]
        is_on_body = any(one is not None and one.has("PhysicsRigidBodyAPI") for one in above)
        if is_on_body or not prim.read_bool("physics:collisionEnabled", True):
            continue
        pose = scene.pose(prim.path)
        axis = "XYZ".index(prim.read_token("axis", "Z", ("X", "Y", "Z")))
        normal = rotation_matrix(pose[3:])[:, axis]
        plane = Plane.of(normal=normal, point=pose[:3], **material_of(scene, prim))
        planes.append(plane)
        materials.append(surface_of(scene, prim, prim.name, plane.friction, plane.restitution))
    if not planes:
        return None
    pairs = itertools.product(surfaces, materials)
    rules: dict[str, Any] = combinations_of(scene, pairs, "shapes and the ground")
    return Ground(tuple(planes), **rules)
