"""Mass properties over random authored attributes against
``UsdPhysics.RigidBodyAPI.ComputeMassProperties``."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from pxr import Gf, Usd, UsdGeom, UsdPhysics, UsdShade

import artix
from artix.io.common.poses import rotation_matrix
from tests.support.usd_stages import body_inertias, numbers

#: The oracle computes in float32. Errors are relative to the mass, the size and the inertia of the
#: body.
TOLERANCE = 2e-6
BODY = "/World/robot"


def random_vector(rng: np.random.Generator, size: float = 1.0) -> Gf.Vec3f:
    return Gf.Vec3f(*map(float, size * rng.normal(size=3)))


def random_quaternion(rng: np.random.Generator) -> Gf.Quatd:
    numbers = rng.normal(size=4)
    return Gf.Quatd(*map(float, numbers / np.linalg.norm(numbers)))


def random_moments(rng: np.random.Generator, unit: float) -> Gf.Vec3f:
    """Principal moments of some body: sums of two of three positive numbers."""
    parts = rng.uniform(0.5, 2.0, 3)
    return Gf.Vec3f(*map(float, unit * (parts.sum() - parts)))


def place(prim: Usd.Prim, rng: np.random.Generator, size: float, scale: Gf.Vec3d | None) -> None:
    xform = UsdGeom.Xformable(prim)
    xform.AddTranslateOp().Set(Gf.Vec3d(random_vector(rng, size)))
    if rng.random() < 0.8:
        xform.AddOrientOp(UsdGeom.XformOp.PrecisionDouble).Set(random_quaternion(rng))
    if scale is not None:
        xform.AddScaleOp(UsdGeom.XformOp.PrecisionDouble).Set(scale)


@dataclasses.dataclass
class Units:
    """SI values of a stage's units of length and mass."""

    length: float
    mass: float


def author_mass(prim: Usd.Prim, rng: np.random.Generator, unit: Units) -> None:
    """Authors every attribute of the ``PhysicsMassAPI`` or not, with numbers of some 10 kg and 0.3
    m."""
    if rng.random() < 0.15:
        return
    api, chance = UsdPhysics.MassAPI.Apply(prim), rng.choice([0.3, 0.5, 0.8])
    if rng.random() < chance:
        api.CreateMassAttr(float(rng.choice([0.0, *rng.uniform(1, 20, 3)]) / unit.mass))
    if rng.random() < chance:
        density = float(rng.choice([0.0, *rng.uniform(100, 8000, 3)]))
        api.CreateDensityAttr(density * unit.length**3 / unit.mass)
    if rng.random() < chance:
        api.CreateCenterOfMassAttr(random_vector(rng, rng.choice([0.0, 0.1, 0.3]) / unit.length))
    if rng.random() < chance:
        api.CreateDiagonalInertiaAttr(random_moments(rng, 0.5 / unit.mass / unit.length**2))
    if rng.random() < chance:
        api.CreatePrincipalAxesAttr(Gf.Quatf(random_quaternion(rng)))


def author_collider(stage: Usd.Stage, path: str, rng: np.random.Generator, unit: Units) -> Usd.Prim:
    """A box, ball, cylinder or capsule, perhaps scaled, turned, off, or of a material with a
    density."""
    kind, size = (
        rng.choice(["Cube", "Sphere", "Cylinder", "Capsule", "Capsule_1", "Cylinder_1"]),
        0.2 / unit.length,
    )
    prim = stage.DefinePrim(path, str(kind))
    if kind == "Cube":
        prim.GetAttribute("size").Set(float(size))
    elif kind == "Sphere":
        prim.GetAttribute("radius").Set(float(size))
    else:
        radius = float(size * rng.uniform(0.3, 1.0))
        for name in ("radiusTop", "radiusBottom") if kind.endswith("_1") else ("radius",):
            prim.GetAttribute(name).Set(radius)
        prim.GetAttribute("height").Set(float(size * rng.uniform(1.0, 3.0)))
        prim.GetAttribute("axis").Set(str(rng.choice(list("XYZ"))))
    uniform = Gf.Vec3d(float(rng.uniform(0.5, 2.0)))
    scale = Gf.Vec3d(*rng.uniform(0.5, 2.0, 3).tolist()) if kind == "Cube" else uniform
    place(prim, rng, 0.3 / unit.length, scale if rng.random() < 0.5 else None)
    api = UsdPhysics.CollisionAPI.Apply(prim)
    if rng.random() < 0.2 and not path.endswith("0"):
        api.CreateCollisionEnabledAttr(False)
    author_mass(prim, rng, unit)
    if rng.random() < 0.3:
        material = UsdShade.Material.Define(stage, f"{path}_material")
        density = float(rng.uniform(500, 3000)) * unit.length**3 / unit.mass
        if rng.random() < 0.8:
            UsdPhysics.MaterialAPI.Apply(material.GetPrim()).CreateDensityAttr(density)
        binding = UsdShade.MaterialBindingAPI.Apply(prim)
        binding.Bind(
            material, UsdShade.Tokens.weakerThanDescendants, str(rng.choice(["", "physics"]))
        )
    return prim


def random_stage(seed: int) -> tuple[Usd.Stage, bool]:
    """A stage with one body, and whether the oracle knows its principal axes."""
    rng = np.random.default_rng(seed)
    unit = Units(*(float(rng.choice(values)) for values in ((1.0, 0.01, 0.3048), (1.0, 0.001))))
    stage = Usd.Stage.CreateInMemory()
    UsdGeom.SetStageMetersPerUnit(stage, unit.length)
    UsdPhysics.SetStageKilogramsPerUnit(stage, unit.mass)
    UsdGeom.SetStageUpAxis(stage, str(rng.choice(["Y", "Z"])))
    world = UsdGeom.Xform.Define(stage, "/World")
    place(
        world.GetPrim(),
        rng,
        0.5 / unit.length,
        Gf.Vec3d(float(rng.uniform(0.5, 2))) if rng.random() < 0.3 else None,
    )
    # The body can be a collider itself.
    kind = "Cube" if rng.random() < 0.2 else "Xform"
    body = stage.DefinePrim(BODY, kind)
    place(body, rng, 0.3 / unit.length, None)
    if kind == "Cube":
        body.GetAttribute("size").Set(0.3 / unit.length)
        UsdPhysics.CollisionAPI.Apply(body)
    UsdPhysics.RigidBodyAPI.Apply(body)
    UsdPhysics.ArticulationRootAPI.Apply(body)
    author_mass(body, rng, unit)
    for number in range(rng.integers(0 if kind == "Cube" else 1, 4)):
        folder = f"{BODY}/group{number}" if rng.random() < 0.4 else BODY
        if folder != BODY:
            place(stage.DefinePrim(folder, "Xform"), rng, 0.2 / unit.length, None)
        author_collider(stage, f"{folder}/shape{number}", rng, unit)
    return stage, _has_axes(body)


def _has_axes(body: Usd.Prim) -> bool:
    """Whether the oracle sets the axes: those of a body with mass, centre and moments it leaves
    uninitialized."""
    api = UsdPhysics.MassAPI(body)
    if not body.HasAPI(UsdPhysics.MassAPI) or api.GetPrincipalAxesAttr().HasAuthoredValue():
        return True
    complete = api.GetMassAttr().Get() and api.GetDiagonalInertiaAttr().HasAuthoredValue()
    return not (complete and api.GetCenterOfMassAttr().HasAuthoredValue())


def shape_information(body: Usd.Prim):
    """The oracle's question for the volume and inertia of a shape, answered with closed forms."""
    cache = UsdGeom.XformCache()

    def information(prim: Usd.Prim):
        volume, inertia = solid_of(prim, world_scale(cache, prim))
        answer = UsdPhysics.RigidBodyAPI.MassInformation()
        answer.volume = float(volume)
        answer.inertia = Gf.Matrix3f(*map(float, inertia.ravel()))
        answer.centerOfMass = Gf.Vec3f(0.0)
        place = cache.ComputeRelativeTransform(prim, body)[0]
        bodys = Gf.Transform(cache.GetLocalToWorldTransform(body)).GetScale()
        answer.localPos = Gf.Vec3f(Gf.CompMult(place.ExtractTranslation(), bodys))
        answer.localRot = Gf.Quatf(Gf.Transform(place).GetRotation().GetQuat())
        return answer

    return information


def world_scale(cache: UsdGeom.XformCache, prim: Usd.Prim) -> np.ndarray:
    return np.array(Gf.Transform(cache.GetLocalToWorldTransform(prim)).GetScale())


def solid_of(prim: Usd.Prim, scale: np.ndarray) -> tuple[float, np.ndarray]:
    """Volume, centre and inertia of unit density, by the closed forms of textbooks."""
    kind = str(prim.GetTypeName())
    if kind == "Cube":
        edges = prim.GetAttribute("size").Get() * scale
        return np.prod(edges), np.diag(np.prod(edges) / 12 * (np.sum(edges**2) - edges**2))
    radius = prim.GetAttribute("radiusTop" if kind.endswith("_1") else "radius").Get() * scale[0]
    ball = 4 / 3 * np.pi * radius**3
    if kind == "Sphere":
        return ball, 0.4 * ball * radius**2 * np.eye(3)
    height = prim.GetAttribute("height").Get() * scale[0]
    tube = np.pi * radius**2 * height
    along, across = tube * radius**2 / 2, tube * (radius**2 / 4 + height**2 / 12)
    volume = tube
    if kind.startswith("Capsule"):
        along += 0.4 * ball * radius**2
        across += ball * (0.4 * radius**2 + height**2 / 4 + 3 / 8 * height * radius)
        volume += ball
    moments = np.full(3, across)
    moments["XYZ".index(prim.GetAttribute("axis").Get())] = along
    return volume, np.diag(moments)


def has_ambiguous_axes(body: Usd.Prim) -> bool:
    """Whether moments or axes are paired with those of an inertia whose axes are a matter of
    rounding."""
    api = UsdPhysics.MassAPI(body)
    if not body.HasAPI(UsdPhysics.MassAPI):
        return False
    attributes = api.GetDiagonalInertiaAttr(), api.GetPrincipalAxesAttr()
    if sum(attribute.HasAuthoredValue() for attribute in attributes) != 1:
        return False
    for attribute in attributes:
        attribute.Clear()  # A blocked one has no value at all, and the oracle reads uninitialized memory.
    moments = np.sort(
        UsdPhysics.RigidBodyAPI(body).ComputeMassProperties(shape_information(body))[1]
    )
    return bool(np.diff(moments).min() < 0.01 * moments[2])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::artix.DescriptionWarning")
@pytest.mark.parametrize(
    "block", [0, *(pytest.param(block, marks=pytest.mark.slow) for block in (1, 2, 3))]
)
def test_every_combination_is_that_of_usdphysics(block):
    compared = 0
    for seed in range(100 * block, 100 * (block + 1)):
        stage, known_axes = random_stage(seed)
        unit = Units(
            UsdGeom.GetStageMetersPerUnit(stage), UsdPhysics.GetStageKilogramsPerUnit(stage)
        )
        body = stage.GetPrimAtPath(BODY)
        oracle = UsdPhysics.RigidBodyAPI(body).ComputeMassProperties(shape_information(body))
        mass, center = oracle[0] * unit.mass, np.array(oracle[2]) * unit.length
        axes = np.array([*oracle[3].GetImaginary(), oracle[3].GetReal()])
        turn = rotation_matrix(axes) if known_axes else np.eye(3)
        inertia = turn @ np.diag(np.array(oracle[1])) @ turn.T * unit.mass * unit.length**2
        articulation = artix.load_usd(stage, dtype="float32")
        if has_ambiguous_axes(body):
            continue
        size = np.sqrt(np.trace(inertia) / mass) + np.linalg.norm(center)
        differences = [
            articulation.link_mass[0] / mass - 1.0,
            (np.array(articulation.link_com_pose[0, :3]) - center) / size,
            (body_inertias(articulation)[0] - inertia) / np.trace(inertia),
        ]
        error = max(float(np.max(np.abs(difference))) for difference in differences)
        assert error < TOLERANCE, (seed, differences)
        compared += 1
    assert compared > 75


def lone_body(
    content: str, inner: str = "", schemas: str = '"PhysicsRigidBodyAPI", "PhysicsMassAPI"'
) -> str:
    applied = f'"PhysicsArticulationRootAPI", {schemas}'
    return f"""#usda 1.0
    (metersPerUnit = 1)
    def Xform "body" (prepend apiSchemas = [{applied}])
    {{
        {content}
        {inner}
    }}"""


BALL = """def Sphere "ball" (prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMassAPI"])
{
    double radius = 0.1
    double3 xformOp:translate = (0.2, 0, 0)
    uniform token[] xformOpOrder = ["xformOp:translate"]
    CONTENT
}"""


def test_a_centre_without_inertia_moves_the_inertia_of_the_colliders():
    content = "float physics:mass = 1\npoint3f physics:centerOfMass = (0, 0, 0)"
    articulation = artix.load_usd(lone_body(content, BALL.replace("CONTENT", "")), dtype="float32")
    assert np.allclose(articulation.link_com_pose[0, :3], 0.0)
    assert np.allclose(body_inertias(articulation)[0], np.diag([0.004, 0.044, 0.044]), atol=1e-8)


def test_a_collider_says_its_own_centre_and_inertia():
    content = (
        "float physics:mass = 1\npoint3f physics:centerOfMass = (0.1, 0, 0)\nfloat3 "
        "physics:diagonalInertia = (0.1, 0.2, 0.25)"
    )
    articulation = artix.load_usd(lone_body("", BALL.replace("CONTENT", content)), dtype="float32")
    assert float(articulation.link_mass[0]) == 1.0
    assert np.allclose(articulation.link_com_pose[0, :3], [0.3, 0, 0], atol=1e-7)
    assert np.allclose(body_inertias(articulation)[0], np.diag([0.1, 0.2, 0.25]), atol=1e-7)


def test_small_moments_and_missing_axes_of_a_complete_body_are_as_the_schema_says():
    complete = """float physics:mass = 1
        point3f physics:centerOfMass = (0, 0, 0)
        float3 physics:diagonalInertia = (2e-6, 3e-6, 4e-6)"""
    articulation = artix.load_usd(lone_body(complete), dtype="float32")
    assert np.allclose(body_inertias(articulation)[0], np.diag([2e-6, 3e-6, 4e-6]), rtol=1e-6)


def test_mass_without_its_schema_has_no_meaning_and_is_said_to_have_none():
    text = lone_body(
        "float physics:mass = 7", BALL.replace("CONTENT", ""), schemas='"PhysicsRigidBodyAPI"'
    )
    with pytest.warns(
        artix.DescriptionWarning, match=r"</body\.physics:mass>.*PhysicsMassAPI is not applied"
    ):
        articulation = artix.load_usd(text, dtype="float32")
    assert float(articulation.link_mass[0]) == pytest.approx(1000 * 4 / 3 * np.pi * 1e-3)


@pytest.mark.parametrize("enabled", ["rigidBodyEnabled = false", "kinematicEnabled = true"])
def test_colliders_below_a_disabled_body_belong_to_the_body_above(enabled):
    inner = f"""def Xform "inner" (prepend apiSchemas = ["PhysicsRigidBodyAPI"])
    {{
        bool physics:{enabled}
        {BALL.replace("CONTENT", "")}
    }}
    {BALL.replace("CONTENT", "")}"""
    text = lone_body("", inner)
    stage = Usd.Stage.CreateInMemory()
    stage.GetRootLayer().ImportFromString(text)
    body = stage.GetPrimAtPath("/body")
    wanted = UsdPhysics.RigidBodyAPI(body).ComputeMassProperties(shape_information(body))[0]
    assert float(artix.load_usd(text, dtype="float32").link_mass[0]) == pytest.approx(
        wanted, rel=1e-6
    )


@pytest.mark.parametrize("scale", [(1, 1, 1), (2, 2, 2)])
def test_instanced_colliders_weigh_what_their_copies_weigh(scale):
    inner = f"""def "copy" (
        instanceable = true
        prepend references = </prototype>
    )
    {{
        double3 xformOp:translate = (0.1, 0.2, 0.3)
        double3 xformOp:scale = {scale}
        uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:scale"]
    }}"""
    content = "float physics:density = 500"
    prototype = f'def Xform "prototype"\n{{\n{BALL.replace("CONTENT", "")}\n}}\n'
    instanced = lone_body(content, inner).replace(
        'def Xform "body"', prototype + 'def Xform "body"'
    )
    stage = Usd.Stage.CreateInMemory()
    stage.GetRootLayer().ImportFromString(instanced.replace("instanceable = true", ""))
    body = stage.GetPrimAtPath("/body")
    wanted = UsdPhysics.RigidBodyAPI(body).ComputeMassProperties(shape_information(body))
    articulation = artix.load_usd(instanced, dtype="float32")
    assert float(articulation.link_mass[0]) == pytest.approx(wanted[0], rel=1e-6)
    assert np.allclose(articulation.link_com_pose[0, :3], np.array(wanted[2]), atol=1e-6)


@pytest.mark.parametrize("kind", ["Capsule_1", "Cylinder_1"])
def test_ends_of_different_radii(kind):
    bottom, top, height = 0.3, 0.1, 0.5
    content = f"double radiusBottom = {bottom}\ndouble radiusTop = {top}\ndouble height = {height}"
    collider = (
        f'def {kind} "shape" (prepend apiSchemas = ["PhysicsCollisionAPI"])\n{{\n{content}\n}}'
    )
    with pytest.warns(
        artix.DescriptionWarning, match="touches nothing: its ends have different radii"
    ):
        articulation = artix.load_usd(lone_body("", collider), dtype="float32")
    # Thin discs.
    ends = (
        (0.5 * height + bottom, 0.5 * height + top)
        if kind == "Capsule_1"
        else (0.5 * height, 0.5 * height)
    )
    edges = np.linspace(-ends[0], ends[1], 4001)
    z = 0.5 * (edges[1:] + edges[:-1])
    radius = bottom + (top - bottom) * (z / height + 0.5)
    if kind == "Capsule_1":  # The hull of two balls: all balls between them.
        part = np.linspace(0.0, 1.0, 1001)[:, None]
        ball = (bottom + part * (top - bottom)) ** 2 - (z - height * (part - 0.5)) ** 2
        radius = np.sqrt(np.maximum(ball.max(axis=0), 0.0))
    area = 1000 * np.pi * radius**2 * np.diff(edges)
    center = area @ z / area.sum()
    across = area @ (radius**2 / 4 + (z - center) ** 2)
    assert float(articulation.link_mass[0]) == pytest.approx(area.sum(), rel=1e-5)
    assert np.allclose(articulation.link_com_pose[0, :3], [0, 0, center], atol=1e-5)
    assert np.allclose(
        body_inertias(articulation)[0],
        np.diag([across, across, area @ radius**2 / 2]),
        rtol=1e-5,
        atol=1e-5,
    )


@pytest.mark.parametrize("kind", ["Capsule", "Cylinder"])
def test_newer_prims_with_equal_radii_are_the_old_ones(kind):
    shapes = []
    for suffix, names in (("", ["radius"]), ("_1", ["radiusTop", "radiusBottom"])):
        content = "\n".join(
            [f"double {name} = 0.2" for name in names]
            + ["double height = 0.4", 'uniform token axis = "X"']
        )
        collider = f'def {kind}{suffix} "shape" (prepend apiSchemas = ["PhysicsCollisionAPI"])\n{{\n{content}\n}}'
        shapes.append(artix.load_usd(lone_body("", collider), dtype="float32"))
    old, new = (numbers(articulation) for articulation in shapes)
    assert len(shapes[1].topology.geometries) == 1
    assert all(np.array_equal(old[name], new[name]) for name in old)
