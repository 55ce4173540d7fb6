"""One robot in other units, another up axis, other orders and other files: the same
articulation."""

from __future__ import annotations

import re

import jax
import numpy as np
import pytest
from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics

import artix
from artix.io.usd.reader import load_usd_with_state
from tests.support.usd_stages import MECHANISMS, body_inertias, numbers, relative_error

#: Units of attributes as exponents of length and mass; angles keep their degrees. The first match
#: counts.
_UNITS = [
    (
        r"xformOp:translate|localPos|centerOfMass|maxLinearVelocity|physics:velocity|gravityMagnitude",
        (1, 0),
    ),
    (r"physics:mass|linear:armature|linear:viscous", (0, 1)),
    (r"diagonalInertia|angular:armature|rot.:armature", (2, 1)),
    (r"angular:viscous|angular:velocityDependentResistance", (2, 1)),
    (r"angular:speedEffortGradient", (-2, -1)),
    (r"angular:(physics:maxForce|staticFriction|dynamicFriction)", (2, 1)),
    (r"linear:(physics:maxForce|staticFriction|dynamicFriction)", (1, 1)),
    (r"linear:physics:target", (1, 0)),
    (r"physxTendon:.*:(stiffness|damping|limitStiffness)", (0, 1)),
    (r"physxTendon:.*:(offset|restLength|lowerLimit|upperLimit)", (1, 0)),
]


def _exponents(prim, name: str) -> tuple[int, int]:
    """The unit of an attribute of the recorded mechanisms."""
    prismatic = prim.GetTypeName() == "PhysicsPrismaticJoint"
    if re.search(r"physics:(lower|upper)Limit", name):
        return (1, 0) if prismatic else (0, 0)
    if name.startswith("physxMimicJoint"):
        # The one mixed relation has a rack that follows a pinion: length per angle, and a length.
        return (1, 0) if prismatic and name.endswith((":gearing", ":offset")) else (0, 0)
    if name.endswith((":gearing", ":forceCoefficient")):
        # Length per angle and torque per force, of revolute joints; both are ratios for prismatic
        # ones and attachments.
        return (0, 0) if prismatic or not prim.IsA(UsdPhysics.Joint) else (1, 0)
    if re.search(r"drive:.*:(stiffness|damping)", name):
        drive = prim.GetAttribute(name.rpartition(":")[0] + ":type").Get()
        return (0, 0) if drive == "acceleration" else (0, 1) if prismatic else (2, 1)
    return next((unit for pattern, unit in _UNITS if re.search(pattern, name)), (0, 0))


def in_units(text: str, length: float, mass: float) -> str:
    """The stage in units of ``length`` metres and ``mass`` kilograms."""
    stage = Usd.Stage.CreateInMemory()
    stage.GetRootLayer().ImportFromString(text)
    UsdGeom.SetStageMetersPerUnit(stage, length)
    UsdPhysics.SetStageKilogramsPerUnit(stage, mass)
    for prim in stage.Traverse():
        for attribute in prim.GetAuthoredAttributes():
            powers = _exponents(prim, attribute.GetName())
            if powers != (0, 0):
                factor = length ** -powers[0] * mass ** -powers[1]
                attribute.Set(_scaled(attribute.Get(), factor))
    return stage.GetRootLayer().ExportToString()


def _scaled(value, factor: float):
    if isinstance(value, float):
        return value * factor
    if hasattr(value, "__len__") and not isinstance(value, Gf.Vec3f | Gf.Vec3d):
        return [x * factor for x in value]
    return type(value)(*(x * factor for x in value))


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_units(name):
    articulation = artix.load_usd(MECHANISMS[name])
    converted = artix.load_usd(in_units(MECHANISMS[name], length=0.01, mass=0.001))
    assert converted.topology == articulation.topology
    values = numbers(articulation)
    for key, value in numbers(converted).items():
        size = max(1e-2, float(np.max(np.abs(values[key][np.isfinite(values[key])]), initial=0.0)))
        assert relative_error(value / size, values[key] / size) < 1e-6, key


def turned(text: str) -> str:
    """The stage with y up: all that it holds turned, and with it the world's axes."""
    stage = Usd.Stage.CreateInMemory()
    stage.GetRootLayer().ImportFromString(text)
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.y)
    UsdGeom.Xformable(stage.GetPrimAtPath("/World")).AddRotateXOp().Set(-90.0)
    scene = stage.GetPrimAtPath("/World/Scene").GetAttribute("physics:gravityDirection")
    x, y, z = scene.Get()
    scene.Set(Gf.Vec3f(x, z, -y))
    return stage.GetRootLayer().ExportToString()


@pytest.mark.parametrize("name", ["d_mixed_floating", "b_arm7", "h_spatial_tendon_branch"])
def test_up_axis(name):
    (wanted, state), (found, other) = map(
        load_usd_with_state, (MECHANISMS[name], turned(MECHANISMS[name]))
    )
    values = numbers(wanted)
    for key, value in numbers(found).items():
        assert relative_error(value, values[key]) < 1e-6, key
    assert np.allclose(other.root_pose[:3], state.root_pose[:3], atol=1e-6)
    assert np.isclose(abs(other.root_pose[3:] @ state.root_pose[3:]), 1.0, atol=1e-7)


def reordered(text: str) -> str:
    """The stage with the bodies and joints in the reverse order, and every joint's bodies
    exchanged."""
    layer = Sdf.Layer.CreateAnonymous(".usda")
    layer.ImportFromString(text)
    robot = layer.GetPrimAtPath("/World/robot")
    robot.nameChildrenOrder = [child.name for child in reversed(list(robot.nameChildren))]
    for child in robot.nameChildren:
        if not child.typeName.startswith("Physics"):
            continue
        for kind in ("physics:localPos", "physics:localRot"):
            first, second = (child.attributes.get(f"{kind}{side}") for side in "01")
            if first is not None and second is not None:
                first.default, second.default = second.default, first.default
        targets = [
            list(child.relationships[end].targetPathList.explicitItems)
            for end in ("physics:body0", "physics:body1")
            if end in child.relationships
        ]
        if len(targets) == 2:
            for side, target in zip("01", reversed(targets), strict=True):
                child.relationships[f"physics:body{side}"].targetPathList.explicitItems = target
    return layer.ExportToString()


@pytest.mark.parametrize("name", ["d_mixed_floating", "e_combo"])
def test_positions_count_from_the_parent_whatever_the_order_of_bodies(name):
    wanted, found = artix.load_usd(MECHANISMS[name]), artix.load_usd(reordered(MECHANISMS[name]))
    assert found.topology == wanted.topology
    values = numbers(wanted)
    # What the stage says of positions it now says of the opposite ones.
    values["joint_lower_limit"], values["joint_upper_limit"] = (
        -values["joint_upper_limit"],
        -values["joint_lower_limit"],
    )
    for key in ("drive.target_position", "drive.target_velocity"):
        values[key] = -values[key]
    for key, value in numbers(found).items():
        assert relative_error(value, values[key]) < 1e-9, key


def test_the_mass_matrix_is_the_same_in_every_spelling():
    text = MECHANISMS["b_arm7"]
    wanted = artix.load_usd(text)
    state = artix.random_state(wanted, jax.random.key(0))
    mass_matrix = jax.jit(artix.mass_matrix)
    reference = mass_matrix(wanted, state)
    for other in (
        in_units(text, 0.01, 1.0),
        in_units(text, 0.0254, 0.45),
        turned(text),
        reordered(text),
    ):
        found = mass_matrix(artix.load_usd(other), state)
        # Float32 numbers in other units
        assert np.max(np.abs(found - reference)) < 1e-6 * np.max(np.abs(reference))


def test_a_stage_may_be_spread_over_files_and_instanced(tmp_path):
    text = MECHANISMS["c_quadruped"]
    (tmp_path / "robot.usda").write_text(text)
    for arc in ("references", "payload"):
        outer = f"""#usda 1.0
        ( metersPerUnit = 1
          upAxis = "Z" )
        def Xform "Field"
        {{
            def Xform "left" (prepend {arc} = @./robot.usda@</World>
                              instanceable = true)
            {{
                double3 xformOp:translate = (0, 3, 0)
                uniform token[] xformOpOrder = ["xformOp:translate"]
            }}
            def Xform "right" (prepend {arc} = @./robot.usda@</World>
                               instanceable = true) {{}}
        }}"""
        path = tmp_path / f"{arc}.usda"
        path.write_text(outer)
        with pytest.raises(
            artix.DescriptionError, match=r"2 articulations.*/Field/left/robot.*root="
        ):
            artix.load_usd(path)
        wanted, at_origin = load_usd_with_state(text)
        found, state = load_usd_with_state(path, root="/Field/left/robot/trunk")
        assert found.topology == wanted.topology
        values = numbers(wanted)
        assert all(
            relative_error(value, values[key]) < 1e-9 for key, value in numbers(found).items()
        )
        assert np.allclose(state.root_pose[:3] - at_origin.root_pose[:3], [0, 3, 0], atol=1e-6)


def test_what_cannot_be_composed_is_said(tmp_path):
    path = tmp_path / "robot.usda"
    text = MECHANISMS["a_pendulum1"].replace(
        'def Xform "World"',
        'def Xform "Wall" (references = @./nowhere.usda@) {}\ndef Xform "World"',
    )
    path.write_text(text)
    with pytest.warns(artix.DescriptionWarning, match=r"nowhere\.usda"):
        artix.load_usd(path)


def test_a_scaled_body_scales_what_is_on_it():
    small = MECHANISMS["h_spatial_tendon_limits"]
    stage = Usd.Stage.CreateInMemory()
    stage.GetRootLayer().ImportFromString(small)
    prim = stage.GetPrimAtPath("/World/robot/l1")
    UsdGeom.Xformable(prim).AddScaleOp().Set(Gf.Vec3f(2.0, 4.0, 0.5))
    divide = {"physics:centerOfMass": prim, "physxTendon:M:localPos": prim}
    divide |= {"physics:localPos1": stage.GetPrimAtPath("/World/robot/j1")}
    divide |= {"physics:localPos0": stage.GetPrimAtPath("/World/robot/j2")}
    for name, owner in divide.items():
        value = owner.GetAttribute(name).Get()
        owner.GetAttribute(name).Set(Gf.Vec3f(value[0] / 2.0, value[1] / 4.0, value[2] / 0.5))
    wanted, found = artix.load_usd(small), artix.load_usd(stage)
    values = numbers(wanted)
    for key, value in numbers(found).items():
        assert relative_error(value, values[key]) < 1e-6, key
    assert relative_error(body_inertias(found), body_inertias(wanted)) < 1e-9


@pytest.mark.parametrize(
    "metadata", ["metersPerUnit = 0", "metersPerUnit = -1", "kilogramsPerUnit = 1e30"]
)
def test_units_that_are_none_are_refused(metadata):
    text = re.sub(rf"{metadata.split()[0]} = \S+", metadata, MECHANISMS["a_pendulum1"])
    with pytest.raises(artix.DescriptionError, match=metadata.split()[0]):
        artix.load_usd(text)
