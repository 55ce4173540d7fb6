"""PhysX's tendon attachment schemas over stock USD: every accessor, and the reader on what they write."""

from __future__ import annotations

import numpy as np
import pytest
from pxr import Gf, Sdf, Usd, UsdGeom

import artix
from artix.io.usd import (
    PhysxTendonAttachmentAPI,
    PhysxTendonAttachmentLeafAPI,
    PhysxTendonAttachmentRootAPI,
)
from tests.support.usd_stages import MECHANISMS

CLASSES = [PhysxTendonAttachmentAPI, PhysxTendonAttachmentRootAPI, PhysxTendonAttachmentLeafAPI]

#: Attributes by class: name, fallback, another value, type name, uniform.
INHERITED = {
    "gearing": (1.0, 0.5, "float", False),
    "localPos": ((0.0, 0.0, 0.0), Gf.Vec3f(1, 2, 3), "point3f", False),
    "parentAttachment": ("", "above", "token", True),
}
OWN = {
    PhysxTendonAttachmentAPI: {},
    PhysxTendonAttachmentRootAPI: {
        "tendonEnabled": (True, False, "bool", False),
        "stiffness": (0.0, 5.0, "float", False),
        "damping": (0.0, 2.0, "float", False),
        "limitStiffness": (0.0, 3.0, "float", False),
        "offset": (0.0, -0.25, "float", False),
    },
    PhysxTendonAttachmentLeafAPI: {
        "restLength": (-np.inf, 0.75, "float", False),
        "lowerLimit": (-np.inf, 0.5, "float", False),
        "upperLimit": (np.inf, 1.5, "float", False),
    },
}


@pytest.fixture
def prim():
    stage = Usd.Stage.CreateInMemory()
    prim = stage.DefinePrim("/robot/arm", "Xform")
    prim.keep = stage  # A prim does not keep its stage.
    return prim


def accessor(name: str) -> str:
    return name[0].upper() + name[1:]


@pytest.mark.parametrize("schema", CLASSES)
def test_every_attribute_is_read_with_its_fallback_and_written_with_its_type(schema, prim):
    api = schema.Apply(prim, "tip")
    for name, (fallback, value, type_name, uniform) in {**INHERITED, **OWN[schema]}.items():
        get, create = getattr(api, f"Get{accessor(name)}Attr"), getattr(api, f"Create{accessor(name)}Attr")
        assert get().Get() == fallback
        assert not get()
        created = create()
        assert created.Get() == fallback
        assert created.GetName() == f"physxTendon:tip:{name}"
        assert created.GetTypeName() == type_name
        assert not created.IsCustom()
        assert (created.GetVariability() == Sdf.VariabilityUniform) == uniform
        create(value)
        assert get().Get() == value
        assert get()
        assert prim.GetAttribute(f"physxTendon:tip:{name}").Get() == value


def test_sparse_writing_leaves_what_is_there(prim):
    api = PhysxTendonAttachmentRootAPI.Apply(prim, "tip")
    assert not api.CreateStiffnessAttr(0.0, writeSparsely=True).HasAuthoredValue()
    assert api.CreateStiffnessAttr(0.0).HasAuthoredValue()
    assert api.CreateStiffnessAttr(4.0, True).Get() == 4.0


def test_the_parent_link(prim):
    api = PhysxTendonAttachmentAPI.Apply(prim, "tip")
    assert not api.GetParentLinkRel()
    api.CreateParentLinkRel().AddTarget("/robot/base")
    assert api.GetParentLinkRel().GetName() == "physxTendon:tip:parentLink"
    assert [str(path) for path in api.GetParentLinkRel().GetTargets()] == ["/robot/base"]


@pytest.mark.parametrize("schema", CLASSES)
def test_applying_and_finding(schema, prim):
    assert not schema(prim, "tip")
    api = schema.Apply(prim, "tip")
    assert api
    assert isinstance(api, schema)
    assert api.GetName() == "tip"
    assert api.GetPrim() == prim
    assert api.GetPath() == prim.GetPath()
    assert f"{schema.__name__}:tip" in prim.GetPrimTypeInfo().GetAppliedAPISchemas()
    assert schema.Get(prim, "tip")
    assert not schema.Get(prim, "other")
    assert schema.Get(prim.GetStage(), Sdf.Path("/robot/arm.physxTendon:tip"))
    assert schema.Get(prim.GetStage(), "/robot/arm.physxTendon:tip").GetName() == "tip"
    assert not schema.Get(prim.GetStage(), "/robot/nothing.physxTendon:tip")
    with pytest.raises(ValueError, match=r"looks like </prim\.physxTendon:NAME>"):
        schema.Get(prim.GetStage(), "/robot/arm")
    schema.Apply(prim, "second")
    assert [one.GetName() for one in schema.GetAll(prim)] == ["tip", "second"]
    # From another schema object, as the generated classes allow.
    assert schema(UsdGeom.Xform(prim), "tip")
    assert schema(api, "tip").GetPrim() == prim


def test_root_and_leaf_include_the_attachment(prim):
    PhysxTendonAttachmentRootAPI.Apply(prim, "root")
    PhysxTendonAttachmentLeafAPI.Apply(prim, "leaf")
    assert PhysxTendonAttachmentAPI.Get(prim, "root")
    assert [one.GetName() for one in PhysxTendonAttachmentAPI.GetAll(prim)] == ["root", "leaf"]
    assert [one.GetName() for one in PhysxTendonAttachmentRootAPI.GetAll(prim)] == ["root"]
    assert not PhysxTendonAttachmentLeafAPI.Get(prim, "root")


@pytest.mark.parametrize("schema", CLASSES)
def test_where_a_schema_cannot_be_applied(schema, prim):
    for name in ("", "gearing", "parentLink", "a b", "1st"):
        assert not schema.CanApply(prim, name)
        with pytest.raises(ValueError, match="cannot be applied"):
            schema.Apply(prim, name)
    assert not schema.CanApply(prim.GetStage().GetPseudoRoot(), "tip")
    assert not schema.CanApply(Usd.Prim(), "tip")


@pytest.mark.parametrize("schema", CLASSES)
def test_names_of_attributes(schema):
    own = list(OWN[schema]) or list(INHERITED)
    everything = list(INHERITED) + list(OWN[schema])
    assert schema.GetSchemaAttributeNames(False) == own
    assert schema.GetSchemaAttributeNames() == schema.GetSchemaAttributeNames(True, "") == everything
    assert schema.GetSchemaAttributeNames(False, "tip") == [f"physxTendon:tip:{name}" for name in own]
    for name in (*everything, "parentLink"):
        assert schema.IsSchemaPropertyBaseName(name)
    assert not schema.IsSchemaPropertyBaseName("mass")
    if schema is not PhysxTendonAttachmentRootAPI:
        assert not schema.IsSchemaPropertyBaseName("stiffness")


@pytest.mark.parametrize("schema", CLASSES)
def test_paths(schema):
    is_path = getattr(schema, f"Is{schema.__name__}Path")
    assert is_path(Sdf.Path("/robot/arm.physxTendon:tip")) == "tip"
    assert is_path("/robot/arm.physxTendon:group:tip") == "group:tip"
    for path in ("/robot/arm", "/robot/arm.physxTendon", "/robot/arm.other:tip", "/robot/arm.physxTendon:tip:gearing"):
        assert not is_path(path)


@pytest.mark.parametrize("schema", CLASSES)
def test_the_kind_of_the_schema(schema, prim):
    multiple = Usd.SchemaKind.MultipleApplyAPI
    api = schema(prim, "tip")
    assert api.schemaKind == api.schemaType == schema._GetSchemaKind() == schema._GetSchemaType() == multiple


def test_what_they_write_is_what_the_reader_reads():
    stage = Usd.Stage.CreateInMemory()
    stage.GetRootLayer().ImportFromString(MECHANISMS["b_arm7"])
    bodies = [prim for prim in stage.Traverse() if "PhysicsRigidBodyAPI" in prim.GetAppliedSchemas()]
    root = PhysxTendonAttachmentRootAPI.Apply(bodies[0], "wire")
    root.CreateStiffnessAttr(100.0)
    root.CreateDampingAttr(3.0)
    root.CreateLimitStiffnessAttr(7.0)
    root.CreateOffsetAttr(0.5)
    leaf = PhysxTendonAttachmentLeafAPI.Apply(bodies[2], "end")
    leaf.CreateLocalPosAttr(Gf.Vec3f(0.25, 0, 1))
    leaf.CreateGearingAttr(2.0)
    leaf.CreateParentLinkRel().AddTarget(bodies[0].GetPath())
    leaf.CreateParentAttachmentAttr("wire")
    leaf.CreateRestLengthAttr(0.75)
    leaf.CreateUpperLimitAttr(1.5)
    articulation = artix.load_usd(stage)
    (tendon,) = articulation.topology.spatial_tendons
    assert tendon.name == "wire"
    assert tendon.attachment_names == ("wire", "end")
    found = articulation.spatial_tendons
    gains = (found.stiffness, found.damping, found.limit_stiffness, found.offset)
    assert [float(gain[0]) for gain in gains] == [100.0, 3.0, 7.0, 0.5]
    assert np.allclose(found.position[1], [0.25, 0, 1])
    assert [float(value[1]) for value in (found.coefficient, found.rest_length, found.upper_limit)] == [2.0, 0.75, 1.5]
    root.CreateTendonEnabledAttr(False)
    with pytest.warns(artix.DescriptionWarning, match="not enabled"):
        disabled = artix.load_usd(stage)
    assert float(disabled.spatial_tendons.stiffness[0]) == 0.0
