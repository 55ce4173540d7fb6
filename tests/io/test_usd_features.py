"""Individual schemas of UsdPhysics and PhysX, by hand: joints, resistances, mimic joints, tendons,
and mistakes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import artix
from tests.support.usd_stages import body, joint, robot

DEGREE = np.pi / 180


def pair(
    content: str = "",
    schemas: str = "",
    kind: str = "Revolute",
    first: str = "",
    second: str = "",
    **options,
) -> str:
    """A body ``a`` fixed to the world, and a body ``b`` on a joint ``j``."""
    bodies = [body("a", first, **options), body("b", second)]
    return robot(
        *bodies, joint("fix", None, "a", kind="Fixed"), joint("j", "a", "b", content, kind, schemas)
    )


def limits(articulation) -> np.ndarray:
    return np.stack([articulation.joint_lower_limit, articulation.joint_upper_limit], axis=-1)


def lock(*instances: str, low: float = 1, high: float = -1) -> tuple[str, str]:
    schemas = ", ".join(f'"PhysicsLimitAPI:{name}"' for name in instances)
    values = "\n".join(
        f"float limit:{name}:physics:low = {low}\nfloat limit:{name}:physics:high = {high}"
        for name in instances
    )
    return schemas, values


TRANSLATIONS = ("transX", "transY", "transZ")


def test_limits_of_one_side_and_wrapping():
    types = {
        "": artix.JointType.REVOLUTE,
        "float physics:lowerLimit = -90": artix.JointType.REVOLUTE_UNWRAPPED,
        "float physics:lowerLimit = -90\nfloat physics:upperLimit = 45": artix.JointType.REVOLUTE_UNWRAPPED,
        "float physics:lowerLimit = -3.4028235e38\nfloat physics:upperLimit = 3.4028235e38": artix.JointType.REVOLUTE,
    }
    for content, kind in types.items():
        assert artix.load_usd(pair(content)).topology.joint_types[1] is kind
    found = limits(artix.load_usd(pair("float physics:lowerLimit = -90")))
    assert np.allclose(found, [[-np.pi / 2, np.inf]])


def test_cones_bound_the_turns_about_the_other_axes():
    cone = "float physics:coneAngle0Limit = 30\nfloat physics:coneAngle1Limit = 60\n"
    # By PhysX's articulations: angle 0 about the next axis, angle 1 about the one after it.
    for letter, expected in (
        ("X", [np.inf, 30, 60]),
        ("Y", [60, np.inf, 30]),
        ("Z", [30, 60, np.inf]),
    ):
        articulation = artix.load_usd(
            pair(cone + f'uniform token physics:axis = "{letter}"', kind="Spherical")
        )
        assert articulation.topology.joint_types[1] is artix.JointType.SPHERICAL
        assert np.allclose(limits(articulation)[:, 1], np.array(expected) * DEGREE)
    assert np.all(np.isinf(limits(artix.load_usd(pair(kind="Spherical")))))


def test_generic_joints():
    locked, values = lock(*TRANSLATIONS)
    ball = artix.load_usd(pair(values, locked, kind=""))
    assert ball.topology.dof_names == ("j:0", "j:1", "j:2")
    more, others = lock("rotY", low=-10, high=20)
    limited = artix.load_usd(pair(values + "\n" + others, f"{locked}, {more}", kind=""))
    assert np.allclose(limits(limited)[1], np.array([-10, 20]) * DEGREE)
    zero, zeros = lock("rotX", "rotY", "rotZ", "transX", "transY", low=0, high=0)
    slide = artix.load_usd(pair(zeros, zero, kind=""))
    assert slide.topology.joint_types[1] is artix.JointType.PRISMATIC
    assert slide.topology.joint_axes[1] == (artix.Axis.Z,)
    with pytest.raises(
        artix.DescriptionError, match=r"</World/robot/j>: .* free axes rotX, rotY, rotZ, transX"
    ):
        artix.load_usd(pair(kind=""))


def test_drives_of_generic_joints_by_their_axes():
    locked, values = lock(*TRANSLATIONS)
    drive = '\nfloat drive:rotZ:physics:stiffness = 2\nuniform token drive:rotZ:physics:type = "acceleration"'
    articulation = artix.load_usd(
        pair(values + drive, locked + ', "PhysicsDriveAPI:rotZ"', kind="")
    )
    assert np.allclose(articulation.drive.stiffness, [0, 0, 2 / DEGREE])
    assert np.allclose(articulation.drive.is_acceleration, [0, 0, 1])


def test_the_schema_of_an_axis_is_in_place_of_that_of_the_joint():
    whole = "float physxJoint:armature = 3\nfloat physxJoint:maxJointVelocity = 180\n"
    articulation = artix.load_usd(pair(whole, '"PhysxJointAPI"'))
    assert np.allclose([articulation.armature[0], articulation.max_joint_velocity[0]], [3, np.pi])
    axis = whole + "float physxJointAxis:angular:staticFrictionEffort = 2"
    articulation = artix.load_usd(pair(axis, '"PhysxJointAPI", "PhysxJointAxisAPI:angular"'))
    assert float(articulation.armature[0]) == 0.0
    assert np.isinf(articulation.max_joint_velocity[0])
    assert float(articulation.friction.static[0]) == 2.0


def test_defaults_of_physx_hold_where_its_schema_is_applied():
    plain, physx = artix.load_usd(pair()), artix.load_usd(pair(schemas="", first="", second="").replace(
        '"PhysicsMassAPI"]', '"PhysicsMassAPI", "PhysxRigidBodyAPI"]'
    ))  # fmt: skip
    assert not np.any(plain.link_angular_damping)
    assert np.all(np.isinf(plain.max_link_angular_velocity))
    assert np.allclose(physx.link_angular_damping, 0.05)
    assert np.allclose(physx.max_link_angular_velocity, 100.0)
    assert np.allclose(physx.link_cfm_scale, 0.025)


@pytest.mark.parametrize("spelling", ["physx", "newton"])
def test_mimic_joints(spelling):
    content = {
        "physx": """rel physxMimicJoint:rotX:referenceJoint = </World/robot/j>
            float physxMimicJoint:rotX:gearing = -0.02
            float physxMimicJoint:rotX:offset = -0.1""",
        "newton": """rel newton:mimicJoint = </World/robot/j>
            double newton:mimicCoef1 = 1.1459155902616465
            double newton:mimicCoef0 = 0.1""",
    }[spelling]
    schema = {"physx": '"PhysxMimicJointAPI:rotX"', "newton": '"NewtonMimicAPI"'}[spelling]
    chain = [body("c"), joint("k", "b", "c", content, "Prismatic", schema)]
    text = pair().replace("\n  }\n}\n", "".join(chain) + "\n  }\n}\n")
    articulation = artix.load_usd(text)
    assert articulation.topology.mimic_dofs == ((1, 0),)
    assert np.allclose(articulation.mimic.gear_ratio, -0.02 / DEGREE)
    assert np.allclose(articulation.mimic.offset, -0.1)
    # The other way round of the reference joint changes the sign of its positions, not the
    # relation.
    exchanged = text.replace("body0 = </World/robot/a>", "body0 = <x>").replace(
        "body1 = </World/robot/b>", 
            "body1 = </World/robot/a>").replace("<x>", "</World/robot/b>")  # fmt: skip
    assert np.allclose(artix.load_usd(exchanged).mimic.gear_ratio, 0.02 / DEGREE)
    with pytest.raises(artix.DescriptionError, match=r"points at </World/robot/nothing>"):
        artix.load_usd(text.replace("</World/robot/j>", "</World/robot/nothing>"))


FIXED_TENDON = """float[] physxTendon:T:gearing = [0.5, 2]
        float[] physxTendon:T:forceCoefficient = [3]
        float physxTendon:T:stiffness = 7
        bool physxTendon:T:tendonEnabled = {enabled}"""


@pytest.mark.filterwarnings("ignore::artix.DescriptionWarning")
def test_fixed_tendons():
    with pytest.warns(artix.DescriptionWarning, match="only the first number is used"):
        articulation = artix.load_usd(
            pair(FIXED_TENDON.format(enabled="true"), '"PhysxTendonAxisRootAPI:T"')
        )
    assert articulation.topology.fixed_tendons[0].root_link == 0
    assert np.allclose(articulation.fixed_tendons.coefficient, 0.5 / DEGREE)
    assert np.allclose(articulation.fixed_tendons.recip_coefficient, 3)
    assert np.allclose(articulation.fixed_tendons.stiffness, 7)
    with pytest.warns(artix.DescriptionWarning, match="not enabled"):
        off = artix.load_usd(
            pair(FIXED_TENDON.format(enabled="false"), '"PhysxTendonAxisRootAPI:T"')
        )
    assert np.allclose(off.fixed_tendons.stiffness, 0)
    with pytest.raises(artix.DescriptionError, match=r"has 0 axes with the PhysxTendonAxisRootAPI"):
        artix.load_usd(pair(FIXED_TENDON.format(enabled="true"), '"PhysxTendonAxisAPI:T"'))


def spatial(leaf: str = "Leaf", parent: str = "R", rest: str = "", above: str = "a") -> str:
    """A tendon from the point (0, 0, 1) of ``a`` to the point (0, 4, 1) of ``b``, which is drawn 3
    m along x."""
    second = f"""point3f physxTendon:L:localPos = (0, 4, 1)
        float physxTendon:L:gearing = 2
        rel physxTendon:L:parentLink = </World/robot/{above}>
        uniform token physxTendon:L:parentAttachment = "{parent}"
        {rest}"""
    first = "point3f physxTendon:R:localPos = (0, 0, 1)\nfloat physxTendon:R:offset = 0.5"
    bodies = [
        body("a", first, ', "PhysxTendonAttachmentRootAPI:R"'),
        body("b", second, f', "PhysxTendonAttachment{leaf}API:L"', place="(3, 0, 0)"),
    ]
    return robot(
        *bodies,
        joint("fix", None, "a", kind="Fixed"),
        joint("j", "a", "b", "point3f physics:localPos0 = (3, 0, 0)"),
    )


def test_a_spatial_tendon_without_rest_length_has_its_present_one():
    articulation = artix.load_usd(spatial())
    # Without the offset, as PhysX computes it
    assert np.allclose(articulation.spatial_tendons.rest_length, [0, 2 * 5])
    assert np.allclose(articulation.spatial_tendons.offset, 0.5)
    given = artix.load_usd(spatial(rest="float physxTendon:L:restLength = 1.5"))
    assert np.allclose(given.spatial_tendons.rest_length, [0, 1.5])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parent": "Q"}, r"the parent of attachment 'L', 'Q' on </World/robot/a>, does not exist"),
        ({"above": "b"}, r"the parent of attachment 'L', 'R' on </World/robot/b>, does not exist"),
        ({"parent": "L", "above": "b"}, r"belongs to no tendon"),
        ({"leaf": ""}, r"a leaf needs a rest_length.*PhysxTendonAttachmentLeafAPI"),
    ],
)
def test_spatial_tendons_that_are_broken_are_refused(options, message):
    with pytest.raises(artix.DescriptionError, match=message):
        artix.load_usd(spatial(**options))


MISTAKES = {
    "float physics:lowerLimit = 5\nfloat physics:upperLimit = -5": r"j\.physics:lowerLimit>: 5 exceeds the upper limit -5",
    'uniform token physics:axis = "W"': r"j\.physics:axis>: must be X or Y or Z, found 'W'",
    "quatf physics:localRot0 = (nan, 0, 0, 0)": r"j\.physics:localRot0>: must be finite",
    "point3f physics:localPos0 = (inf, 0, 0)": r"j\.physics:localPos0>: must be finite",
    "float drive:angular:physics:stiffness = -1": r"stiffness>: must lie in \[0, inf\], found -1",
    "float drive:angular:physics:damping = nan": r"damping>: must be finite, found \[nan\]",
    'uniform token drive:angular:physics:type = "speed"': r"must be force or acceleration, found 'speed'",
    "float physxJointAxis:angular:dynamicFrictionEffort = 2": r"exceeds staticFrictionEffort",
    "string physxJointAxis:angular:armature = \"much\"": r"armature>: must be a number, found 'much'",
    "float[] physxJointAxis:angular:armature = [1, 2]": r"armature>: must be a number",
}  # fmt: skip


@pytest.mark.parametrize("content", MISTAKES)
def test_mistakes_are_refused_with_their_place(content):
    schemas = '"PhysicsDriveAPI:angular", "PhysxJointAxisAPI:angular"'
    with pytest.raises(artix.DescriptionError, match=MISTAKES[content]) as caught:
        artix.load_usd(pair(content, schemas))
    (issue,) = caught.value.issues
    assert issue.fix


def test_all_mistakes_are_found_at_once():
    broken = 'uniform token physics:axis = "W"\nfloat drive:angular:physics:stiffness = -1'
    text = pair(broken, '"PhysicsDriveAPI:angular"', first="float physics:density = -1")
    issues = artix.check_usd(text)
    assert [issue.severity for issue in issues] == ["error"] * 3
    assert sorted(issue.element.rpartition(":")[2].strip(">") for issue in issues) == [
        "axis",
        "density",
        "stiffness",
    ]


def test_mistakes_of_another_robot_do_not_matter():
    broken = pair(
        'uniform token physics:axis = "W"\nfloat physics:breakForce = 3',
        second="float physics:density = nan",
    )
    other = pair().replace("#usda 1.0", "").partition("def Xform")[2]
    text = (
        broken + "def Xform" + other.replace('"World"', '"Other"', 1).replace("/World/", "/Other/")
    )
    with pytest.raises(artix.DescriptionError, match="2 articulations"):
        artix.load_usd(text)
    assert artix.load_usd(text, root="/Other/robot").topology.link_names == ("a", "b")
    with pytest.raises(artix.DescriptionError, match="/World/robot/j"):
        artix.load_usd(text, root="/World/robot")


def test_a_joint_to_a_body_that_is_not_there_is_refused():
    with pytest.raises(
        artix.DescriptionError,
        match=r"</World/robot/j\.physics:body0>: there is no prim </World/robot/z>",
    ):
        artix.load_usd(pair().replace(
            "rel physics:body0 = </World/robot/a>", 
            "rel physics:body0 = </World/robot/z>"),
                       root="/World/robot/b", fixed_base=True)  # fmt: skip
    nowhere = "rel physics:body0 = </nowhere>\n        rel physics:body1 = </World/robot/a>"
    with pytest.raises(
        artix.DescriptionError, match=r"fix\.physics:body0>: there is no prim </nowhere>"
    ):
        artix.load_usd(pair().replace("rel physics:body1 = </World/robot/a>", nowhere))


def test_a_generic_joint_beyond_half_a_turn_is_an_angle():
    locked, values = lock(*TRANSLATIONS, "rotX", "rotY")
    limited = "\nfloat limit:rotZ:physics:low = -400\nfloat limit:rotZ:physics:high = 400"
    articulation = artix.load_usd(
        pair(values + limited, locked + ', "PhysicsLimitAPI:rotZ"', kind="")
    )
    assert articulation.topology.joint_types[1] is artix.JointType.REVOLUTE_UNWRAPPED
    assert articulation.topology.dof_names == ("j",)
    assert np.allclose(limits(articulation), np.array([[-400, 400]]) * DEGREE)


def test_attachments_stay_in_place_when_links_merge():
    camera = body("camera", 'point3f physxTendon:C:localPos = (0, 0, 2)\nrel physxTendon:C:parentLink = </World/robot/a>'
                  '\nuniform token physxTendon:C:parentAttachment = "R"', ', "PhysxTendonAttachmentLeafAPI:C"')  # fmt: skip
    mount = joint("mount", "b", "camera", "point3f physics:localPos0 = (1, 0, 0)", kind="Fixed")
    text = spatial().replace("\n  }\n}\n", camera + mount + "\n  }\n}\n")
    merged = artix.load_usd(text, merge_fixed_joints=True)
    (tendon,) = merged.topology.spatial_tendons
    point = tendon.attachment_names.index("C")
    assert merged.topology.link_names[tendon.links[point]] == "b"
    assert np.allclose(merged.spatial_tendons.position[point], [1, 0, 2])


@pytest.mark.parametrize(
    "second",
    [
        "float physics:mass = -2",
        "float3 physics:diagonalInertia = (1, 1, -9)",
        "float physics:mass = nan",
    ],
)
def test_bodies_that_cannot_be_are_refused(second):
    name = second.split()[1]
    authored = {"physics:mass": "float physics:mass = 2"}
    authored["physics:diagonalInertia"] = "float3 physics:diagonalInertia = (0.1, 0.2, 0.25)"
    with pytest.raises(artix.DescriptionError, match="/World/robot"):
        artix.load_usd(pair().replace(authored[name], second))


def test_what_is_not_carried_is_said():
    with pytest.warns(artix.DescriptionWarning, match="do not break"):
        artix.load_usd(pair("float physics:breakForce = 10"))
    with pytest.warns(artix.DescriptionWarning, match="constraint force"):
        artix.load_usd(pair("float physxJoint:jointFriction = 0.1", '"PhysxJointAPI"'))
    gear = joint("gear", "a", "b", kind="x").replace("PhysicsxJoint", "PhysxPhysicsGearJoint")
    with pytest.warns(artix.DescriptionWarning, match="PhysxPhysicsGearJoint"):
        artix.load_usd(pair().replace("\n  }\n}\n", gear + "\n  }\n}\n"))
    force = body("a", "vector3f physxForce:force = (1, 0, 0)", ', "PhysxForceAPI"')
    with pytest.warns(artix.DescriptionWarning, match="its PhysxForceAPI acts"):
        artix.load_usd(robot(force))
    off = robot(force.replace("vector3f", "bool physxForce:forceEnabled = 0\n        vector3f"))
    assert not any("PhysxForceAPI" in issue.message for issue in artix.check_usd(off))
    quiet = pair("float physxLimit:angular:stiffness = 3", '"PhysxLimitAPI:angular"')
    (issue,) = artix.check_usd(quiet)
    assert issue.severity == "note"  # PhysX's articulations ignore it, too.
    assert "physxLimit:angular:stiffness" in issue.message
    assert "</World/robot/j>" in str(issue)


def mesh_foot(points: int) -> str:
    """A foot whose only collider is a mesh."""
    corners = ", ".join(
        f"({x}, {y}, {z})" for x, y, z in np.random.default_rng(0).normal(size=(points, 3))
    )
    return f"""
        def Mesh "sole" (prepend apiSchemas = ["PhysicsCollisionAPI"])
        {{
            point3f[] points = [{corners}]
            int[] faceVertexCounts = [3]
            int[] faceVertexIndices = [0, 1, 2]
        }}"""


BALL = 'def Sphere "ball" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {\n}'


def test_links_of_a_floating_robot_that_lose_their_meshes_are_said():
    feet = [body(name, inner=mesh_foot(20)) for name in ("left", "right")]
    joints = [joint(f"j{name}", "hip", name) for name in ("left", "right")]
    text = robot(body("hip", inner=BALL), *feet, *joints)
    with pytest.warns(artix.DescriptionWarning) as caught:
        artix.load_usd(text)
    (said,) = (str(warning.message) for warning in caught)
    for words in (
        "left, right",
        "only these keep shapes: hip",
        "meshes='hull' or meshes='capsule'",
    ):
        assert words in said
    issues = artix.check_usd(text)
    assert [issue.severity for issue in issues].count("warning") == 1
    assert any("2 prims" in issue.element and issue.severity == "note" for issue in issues)
    fixed = robot(body("hip", inner=BALL), *feet, *joints, joint("fix", None, "hip", kind="Fixed"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        artix.load_usd(fixed)
        artix.load_usd(text, meshes="hull", self_contact=True)  # The feet may touch each other.
        artix.load_usd(robot(body("hip", inner=BALL), body("left", inner=mesh_foot(16)), joints[0]))


@pytest.mark.parametrize(
    "text",
    [
        pair("float physics:breakForce = 10"),
        pair("float physxJoint:jointFriction = 0.1", '"PhysxJointAPI"'),
        pair("bool physics:jointEnabled = false", kind="Fixed"),
    ],
)
def test_loading_and_checking_say_the_same_and_strict_refuses(text):
    with pytest.warns(artix.DescriptionWarning) as caught:
        artix.load_usd(text)
    issues = [issue for issue in artix.check_usd(text) if issue.severity != "note"]
    assert [str(warning.message) for warning in caught] == [str(issue) for issue in issues]
    with pytest.raises(artix.DescriptionError) as refusal:
        artix.load_usd(text, strict=True)
    assert {issue.message for issue in refusal.value.issues} <= {issue.message for issue in issues}
    assert {issue.severity for issue in artix.check_usd(text, strict=True)} >= {"error"}


def test_text_that_is_no_usd_and_files_that_are_not_there(tmp_path):
    with pytest.raises(
        artix.DescriptionError, match=r"<text>:2: error: stage: not readable as USD"
    ):
        artix.load_usd("#usda 1.0\ndef Xform\n nonsense }")
    with pytest.raises(FileNotFoundError):
        artix.load_usd(tmp_path / "nowhere.usda")
    with pytest.raises(TypeError, match="a path, USD text or a pxr"):
        artix.load_usd(7)
    binary = tmp_path / "robot.usd"
    binary.write_bytes(b"\x00\xff" * 50)
    with pytest.raises(artix.DescriptionError, match="not readable as USD"):
        artix.load_usd(binary)


def test_a_sheared_or_broken_transform_is_refused():
    for operation, message in (
        ("double3 xformOp:scale = (0, 1, 1)", "scale"),
        ("double3 xformOp:scale = (nan, 1, 1)", "not finite"),
    ):
        text = pair(first=operation).replace(
            '["xformOp:translate"]', '["xformOp:translate", "xformOp:scale"]', 1
        )
        with pytest.raises(artix.DescriptionError, match=message):
            artix.load_usd(text)
    place = 'double3 xformOp:scale = (1, 5, 1)\nuniform token[] xformOpOrder = ["xformOp:scale"]\n'
    turned = pair(first="float xformOp:rotateX = 30").replace(
        '["xformOp:translate"]', '["xformOp:translate", "xformOp:rotateX"]', 1
    )
    text = turned.replace(
        '["PhysicsArticulationRootAPI"])\n  {', '["PhysicsArticulationRootAPI"])\n  {' + place, 1
    )
    with pytest.raises(artix.DescriptionError, match="shears"):
        artix.load_usd(text)
