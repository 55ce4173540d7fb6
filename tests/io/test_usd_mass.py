"""Mass properties from colliders: shapes against MuJoCo, the rules of densities and masses against
UsdPhysics itself."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from pxr import Gf, Usd, UsdGeom, UsdPhysics

import artix
from artix import DescriptionError, DescriptionWarning
from artix.io.common.poses import rotation_matrix
from artix.io.usd import mass_properties as shapes
from tests.support.usd_stages import body_inertias, joint, robot

CUBE = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], float)
#: Faces of a cube by the numbers of its corners, turned outwards.
FACES = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]


def mesh_lists(points: np.ndarray, faces: list[list[int]]) -> str:
    corners = ", ".join(f"({x}, {y}, {z})" for x, y, z in points.tolist())
    numbers = ", ".join(str(corner) for face in faces for corner in face)
    return f"""point3f[] points = [{corners}]
        int[] faceVertexCounts = [{", ".join(str(len(face)) for face in faces)}]
        int[] faceVertexIndices = [{numbers}]"""


def collider(
    kind: str, name: str, content: str, place=(0, 0, 0), turn=(1, 0, 0, 0), schemas: str = ""
) -> str:
    return f"""
        def {kind} "{name}" (prepend apiSchemas = ["PhysicsCollisionAPI"{schemas}])
        {{
            {content}
            double3 xformOp:translate = {tuple(place)}
            quatd xformOp:orient = {tuple(turn)}
            uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:orient"]
        }}"""


def lone_body(*colliders: str, content: str = "", before: str = "") -> str:
    """A robot of one body that says nothing of its mass but ``content``."""
    text = f"""
    def Xform "a" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"])
    {{
        {content}{"".join(colliders)}
    }}"""
    return robot(text, before=before)


def properties(text: str) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre and inertia about it in the body's axes, of a lone body."""
    articulation = artix.load_usd(text)
    return (
        float(articulation.link_mass[0]),
        np.array(articulation.link_com_pose[0, :3]),
        body_inertias(articulation)[0],
    )


def inertia_text(*moments: float) -> str:
    """A body of 2 kg with these principal moments."""
    return f"float physics:mass = 2\n        float3 physics:diagonalInertia = {moments}"


def test_inertias_that_no_body_has_are_given_refused_or_mended():
    text = lone_body(content=inertia_text(1.0, 1.0, 3.0))
    with pytest.warns(DescriptionWarning, match="'a'") as caught:
        _, _, inertia = properties(text)
    assert len(caught) == 1
    assert np.allclose(inertia, np.diag([1.0, 1.0, 3.0]))
    with pytest.raises(DescriptionError, match="triangle inequality"):
        artix.load_usd(text, strict=True)
    with pytest.warns(DescriptionWarning, match="repaired"):
        assert np.allclose(
            artix.load_usd(text, repair="inertia").link_inertia[0], np.diag([1.5, 1.5, 3.0])
        )
    assert {issue.severity for issue in artix.check_usd(text)} == {"warning"}
    assert "error" in {issue.severity for issue in artix.check_usd(text, strict=True)}


def test_negative_moments_are_refused_unless_they_are_rounding():
    negative = lone_body(content=inertia_text(-1.0, 1.0, 1.0))
    with pytest.raises(DescriptionError, match="not positive definite"):
        artix.load_usd(negative)
    with pytest.warns(DescriptionWarning, match="repaired"):
        artix.load_usd(negative, repair=("inertia",))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rounding = artix.load_usd(lone_body(content=inertia_text(-1e-8, 1.0, 1.0)), strict=True)
    assert np.array_equal(rounding.link_inertia[0], np.diag([0.0, 1.0, 1.0]))


#: A collider and MuJoCo's words for the same; a MuJoCo geom's axis is z, a cylinder's sizes are
#: radius and half height.
SHAPES = {
    "cube": (("Cube", "double size = 0.6"), 'type="box" size="0.3 0.3 0.3"'),
    "sphere": (("Sphere", "double radius = 0.3"), 'type="sphere" size="0.3"'),
    "capsule": (("Capsule", 'double radius = 0.2\ndouble height = 0.7\nuniform token axis = "Z"'), 'type="capsule" size="0.2 0.35"'),
    "cylinder": (("Cylinder", 'double radius = 0.2\ndouble height = 0.7\nuniform token axis = "Z"'), 'type="cylinder" size="0.2 0.35"'),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_weigh_what_mujoco_weighs(name):
    mujoco = pytest.importorskip("mujoco")
    (kind, content), geom = SHAPES[name]
    xml = f'<mujoco><worldbody><body><freejoint/><geom {geom} density="700"/></body></worldbody></mujoco>'
    model = mujoco.MjModel.from_xml_string(xml)
    mass, center, inertia = properties(
        lone_body(collider(kind, "shape", content), content="float physics:density = 700")
    )
    assert mass == pytest.approx(model.body_mass[1], rel=1e-6)
    assert np.allclose(center, 0.0)
    assert np.allclose(inertia, np.diag(model.body_inertia[1]), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("axis", "XYZ")
def test_shapes_along_an_axis(axis):
    for kind in ("Capsule", "Cylinder", "Cone"):
        content = f'double radius = 0.2\ndouble height = 0.7\nuniform token axis = "{axis}"'
        moments = np.diag(properties(lone_body(collider(kind, "shape", content)))[2])
        assert np.argmin(moments) == "XYZ".index(axis)


def test_a_cone_weighs_what_its_polyhedron_weighs():
    corners = 400
    angles = 2 * np.pi * np.arange(corners) / corners
    ring = np.stack([0.3 * np.cos(angles), 0.3 * np.sin(angles), np.full(corners, -0.4)], axis=1)
    points = np.concatenate([ring, [[0, 0, 0.4], [0, 0, -0.4]]])
    following = (np.arange(corners) + 1) % corners
    sides = np.stack([np.arange(corners), following, np.full(corners, corners)], axis=1)
    bottom = np.stack([following, np.arange(corners), np.full(corners, corners + 1)], axis=1)
    fine = shapes.polyhedron(points, np.concatenate([sides, bottom]))
    cone = shapes.cylinder((0.3, 0.0), 0.8, 2)
    for found, wanted in zip(cone, fine, strict=True):
        # 400 corners: pi^2 / 6 / 400^2 of the area
        assert np.allclose(found, wanted, rtol=2e-4, atol=1e-6)


def random_polyhedron(seed: int) -> tuple[np.ndarray, list[list[int]]]:
    """A skewed cube with a dent, which is not its own convex hull, far from the origin."""
    rng = np.random.default_rng(seed)
    points = CUBE @ rng.normal(size=(3, 3)) + rng.normal(size=3)
    points = np.concatenate([points, [points.mean(axis=0) + 0.2 * (points[0] - points[7])]])
    dent = [[a, b, 8] for a, b in ((0, 1), (1, 3), (3, 2), (2, 0))]
    return points, [*dent, *FACES[1:]]


@pytest.mark.parametrize("seed", range(3))
def test_meshes_weigh_what_mujoco_weighs(seed):
    mujoco = pytest.importorskip("mujoco")
    points, faces = random_polyhedron(seed)
    for approximation, words in (("none", 'inertia="exact"'), ("convexHull", 'inertia="convex"')):
        triangles = [
            [face[0], face[k], face[k + 1]] for face in faces for k in range(1, len(face) - 1)
        ]
        if np.linalg.det(points[[1, 2, 4]] - points[0]) > 0:
            triangles = [face[::-1] for face in triangles]
        xml = f"""<mujoco><asset><mesh name="m" {words} vertex="{" ".join(map(str, points.ravel()))}"
            face="{" ".join(str(corner) for face in triangles for corner in face)}"/></asset>
            <worldbody><body><freejoint/><geom type="mesh" mesh="m" density="1000"/></body></worldbody></mujoco>"""
        model = mujoco.MjModel.from_xml_string(xml)
        content = (
            mesh_lists(points, faces) + f'\nuniform token physics:approximation = "{approximation}"'
        )
        shape = collider("Mesh", "shape", content, schemas=', "PhysicsMeshCollisionAPI"')
        mass, center, inertia = properties(lone_body(shape))
        turn = rotation_matrix(model.body_iquat[1][[1, 2, 3, 0]])
        assert mass == pytest.approx(model.body_mass[1], rel=1e-5)
        assert np.allclose(center, model.body_ipos[1], atol=1e-5)
        expected = turn @ np.diag(model.body_inertia[1]) @ turn.T
        assert np.allclose(inertia, expected, atol=1e-5 * np.trace(expected))


@pytest.mark.filterwarnings("ignore::artix.DescriptionWarning")
def test_meshes_with_seams_or_holes_or_bounds():
    sides = [CUBE[face] for face in FACES]
    seams = mesh_lists(
        np.concatenate(sides), [[4 * k, 4 * k + 1, 4 * k + 2, 4 * k + 3] for k in range(6)]
    )
    hole = mesh_lists(CUBE, FACES[:-1])
    box = mesh_lists(CUBE, FACES) + '\nuniform token physics:approximation = "boundingCube"'
    for content in (seams, hole, box):
        mass, center, inertia = properties(lone_body(collider("Mesh", "shape", content)))
        assert mass == pytest.approx(1000.0, rel=1e-9)
        assert np.allclose(center, 0.5)
        assert np.allclose(inertia, 1000.0 / 6.0 * np.eye(3), atol=1e-9)
    ball = mesh_lists(CUBE, FACES) + '\nuniform token physics:approximation = "boundingSphere"'
    mass, center, _ = properties(lone_body(collider("Mesh", "shape", ball)))
    assert mass == pytest.approx(1000 * np.pi * np.sqrt(3) / 2)
    with pytest.warns(artix.DescriptionWarning, match="no volume"):
        properties(lone_body(collider("Mesh", "shape", mesh_lists(CUBE[:4], [[0, 1, 3, 2]]))))


MATERIAL = """def Material "steel" (prepend apiSchemas = ["PhysicsMaterialAPI"])
{
    float physics:density = 7800
}
"""
_BOUND = "rel material:binding:physics = </steel>\n"
RULES = {
    "default": ("", ["double size = 0.5", "double size = 0.3"]),
    "body density": ("float physics:density = 300", ["double size = 0.5", "double size = 0.3"]),
    "own density": (
        "float physics:density = 300", [
        "double size = 0.5\nfloat physics:density = 50", 
        "double size = 0.3"]),
    "material": ("", ["double size = 0.5\n" + _BOUND, "double size = 0.3"]),
    "material and body": (
        "float physics:density = 300", [
        "double size = 0.5\n" + _BOUND, 
        "double size = 0.3"]),
    "own mass": ("", ["double size = 0.5\nfloat physics:mass = 4", "double size = 0.3"]),
    "body mass": (
        "float physics:mass = 5", [
        "double size = 0.5", 
        "double size = 0.3\nfloat physics:density = 50"]),
    "inertia": (
        "float3 physics:diagonalInertia = (3, 4, 5)", [
        "double size = 0.5", 
        "double size = 0.3"]),
}  # fmt: skip


def compute_mass_properties(text: str) -> tuple[float, np.ndarray, np.ndarray]:
    """UsdPhysics' own combination of colliders; it asks for the volume and inertia of each."""
    stage = Usd.Stage.CreateInMemory()
    stage.GetRootLayer().ImportFromString(text)
    cache = UsdGeom.XformCache()
    body = stage.GetPrimAtPath("/World/robot/a")

    def information(prim):
        size = UsdGeom.Cube(prim).GetSizeAttr().Get()
        found = UsdPhysics.RigidBodyAPI.MassInformation()
        found.volume = size**3
        found.inertia = Gf.Matrix3f(size**5 / 6.0)  # of unit density
        found.centerOfMass = Gf.Vec3f(0.0)
        place = cache.ComputeRelativeTransform(prim, body)[0]
        found.localPos = Gf.Vec3f(place.ExtractTranslation())
        found.localRot = Gf.Quatf(place.ExtractRotationQuat())
        return found

    mass, inertia, center, axes = UsdPhysics.RigidBodyAPI(body).ComputeMassProperties(information)
    turn = rotation_matrix(np.array([*axes.GetImaginary(), axes.GetReal()]))
    return mass, np.array(center), turn @ np.diag(inertia) @ turn.T


@pytest.mark.filterwarnings("ignore::artix.DescriptionWarning")
@pytest.mark.parametrize("rule", RULES)
def test_densities_and_masses_combine_as_usdphysics_says(rule):
    content, cubes = RULES[rule]
    places = [((0.1, 0.2, -0.3), (0.8, 0.6, 0, 0)), ((-0.5, 0, 0.4), (0.6, 0, 0.8, 0))]
    schemas = ', "PhysicsMassAPI", "MaterialBindingAPI"'
    colliders = [
        collider("Cube", f"cube{k}", cube, *places[k], schemas=schemas)
        for k, cube in enumerate(cubes)
    ]
    text = lone_body(*colliders, content=content, before=MATERIAL)
    mass, center, inertia = properties(text)
    wanted = compute_mass_properties(text)
    assert mass == pytest.approx(wanted[0], rel=1e-5)
    assert np.allclose(center, wanted[1], atol=1e-5)
    assert np.allclose(inertia, wanted[2], atol=1e-5 * np.trace(wanted[2]))


def test_a_body_without_anything_is_physxs_ball_and_said_to_be():
    with pytest.warns(artix.DescriptionWarning) as caught:
        mass, _, inertia = properties(lone_body())
    assert [
        text in str(caught[k].message) for k, text in enumerate(("assumed 1 kg", "assumed a ball"))
    ] == [True, True]
    assert mass == 1.0
    assert np.allclose(inertia, 0.004 * np.eye(3))


def test_colliders_belong_to_the_nearest_body_and_may_be_off():
    shape = collider("Cube", "shape", "double size = 1")
    inner = f"""def Xform "b" (prepend apiSchemas = ["PhysicsRigidBodyAPI"])
    {{ {shape}
    }}"""
    off = collider("Cube", "off", "double size = 1\nbool physics:collisionEnabled = false")
    shown = shape.replace('(prepend apiSchemas = ["PhysicsCollisionAPI"])', "").replace(
        '"shape"', '"shown"'
    )
    outer = f"""
    def Xform "a" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsArticulationRootAPI"])
    {{ {shape}{off}{shown}
    {inner}
    }}"""
    articulation = artix.load_usd(robot(outer, joint("ab", "a", "a/b"), schemas=""))
    assert np.allclose(articulation.link_mass, [1000.0, 1000.0])


def test_scaled_colliders():
    text = lone_body(collider("Cube", "shape", "double size = 1", place=(1, 1, 1)))
    scaled = text.replace('xformOpOrder = ["xformOp:translate", "xformOp:orient"]',
                          'xformOpOrder = ["xformOp:translate", "xformOp:orient", "xformOp:scale"]\n'
                          'double3 xformOp:scale = (0.5, -2, 0.25)')  # fmt: skip
    mass, center, inertia = properties(scaled)
    assert mass == pytest.approx(250.0)
    assert np.allclose(center, 1.0)
    assert np.allclose(np.diag(inertia), 250 / 12 * np.array([4.0625, 0.3125, 4.25]))
