"""PhysX's tendon attachment schemas for stock USD: accessors with the names of the generated schema classes.

NVIDIA's ``PhysxSchema`` plugin provides these classes. Stock USD does not define the schemas, so it omits them from
``Usd.Prim.GetAppliedSchemas`` and has no fallback values. The classes here read and write the same properties and
applied schemas, so stages are interchangeable between the two. ``pxr`` is imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from artix.io.usd.stage import import_pxr

if TYPE_CHECKING:
    from pxr import Sdf, Usd

_NAMESPACE = "physxTendon"


class _Definition(NamedTuple):
    """An attribute of a schema: the name of its value type, its fallback value, and whether it is uniform."""

    type_name: str
    fallback: Any
    uniform: bool = False


class SchemaAttribute:
    """A ``Usd.Attribute`` with the fallback value of its schema; everything else is forwarded to the attribute.

    Args:
      attribute: the attribute, valid only if it is authored.
      fallback: its value where none is authored.
    """

    def __init__(self, attribute: Usd.Attribute, fallback: Any) -> None:
        self._attribute, self._fallback = attribute, fallback

    def Get(self, time: Usd.TimeCode | float | None = None) -> Any:
        """The value at a time, the default value when ``None``; the fallback if nothing is authored."""
        if not self._attribute or not self._attribute.HasAuthoredValue():
            return self._fallback
        return self._attribute.Get() if time is None else self._attribute.Get(time)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._attribute, name)

    def __bool__(self) -> bool:
        return bool(self._attribute)


def _accessors(name: str, meaning: str) -> tuple[Callable[..., SchemaAttribute], Callable[..., SchemaAttribute]]:
    """``GetXAttr()`` and ``CreateXAttr(defaultValue=None, writeSparsely=False)`` of an attribute."""

    def get(self: PhysxTendonAttachmentAPI) -> SchemaAttribute:
        return self._get(name)

    def create(
        self: PhysxTendonAttachmentAPI, defaultValue: Any = None, writeSparsely: bool = False
    ) -> SchemaAttribute:
        return self._create(name, defaultValue, writeSparsely)

    get.__doc__ = create.__doc__ = meaning
    return get, create


class PhysxTendonAttachmentAPI:
    """A point of a spatial tendon on a rigid body: multiple-apply, each instance named after its attachment.

    Args:
      prim: the body, or another schema object on it.
      name: the attachment's name.
    """

    _ATTRIBUTES: ClassVar[dict[str, _Definition]] = {
        "gearing": _Definition("float", 1.0),
        "localPos": _Definition("point3f", (0.0, 0.0, 0.0)),
        "parentAttachment": _Definition("token", "", uniform=True),
    }
    _RELATIONSHIPS: ClassVar[tuple[str, ...]] = ("parentLink",)

    def __init__(self, prim: Any, name: str) -> None:
        self._prim = prim.GetPrim()
        self._name = str(name)

    def __bool__(self) -> bool:
        """Whether the prim exists and has the schema, or one that includes it, applied under this name."""
        return bool(self._prim) and self._name in self._names(self._prim)

    def GetPrim(self) -> Usd.Prim:
        """The prim."""
        return self._prim

    def GetPath(self) -> Sdf.Path:
        """The path of the prim."""
        return self._prim.GetPath()

    def GetName(self) -> str:
        """The instance name, which is the name of the attachment."""
        return self._name

    @classmethod
    def Apply(cls, prim: Usd.Prim, name: str) -> Self:
        """Applies the schema to a prim.

        Raises:
          ValueError: the prim is invalid, or the name is empty, not an identifier, or that of a property of the schema.
        """
        if not cls.CanApply(prim, name):
            raise ValueError(
                f"{cls.__name__} cannot be applied to {prim} as {name!r}; it needs a prim and a name that is an "
                f"identifier other than {', '.join(cls._base_names())}"
            )
        prim.AddAppliedSchema(f"{cls.__name__}:{name}")
        return cls(prim, name)

    @classmethod
    def CanApply(cls, prim: Usd.Prim, name: str) -> bool:
        """Whether the schema can be applied to a prim under a name."""
        valid = import_pxr().Sdf.Path.IsValidNamespacedIdentifier(name)
        return bool(prim) and not prim.IsPseudoRoot() and valid and not cls.IsSchemaPropertyBaseName(name)

    @classmethod
    def Get(cls, prim_or_stage: Any, name_or_path: Any) -> Self:
        """The schema object of a prim and a name, or of a stage and a path ``/prim.physxTendon:NAME``.

        The object is true if the schema is applied there.

        Raises:
          ValueError: the path is not of that form.
        """
        if isinstance(prim_or_stage, import_pxr().Usd.Prim):
            return cls(prim_or_stage, name_or_path)
        path = import_pxr().Sdf.Path(name_or_path)
        name = cls._name_in(path)
        if name is None:
            raise ValueError(f"<{path}> is not a path of a {cls.__name__}; it looks like </prim.{_NAMESPACE}:NAME>")
        return cls(prim_or_stage.GetPrimAtPath(path.GetPrimPath()), name)

    @classmethod
    def GetAll(cls, prim: Usd.Prim) -> list[Self]:
        """The schema objects of all instances on a prim."""
        return [cls(prim, name) for name in cls._names(prim)]

    @classmethod
    def GetSchemaAttributeNames(cls, includeInherited: bool = True, instanceName: str = "") -> list[str]:
        """Names of the attributes, with or without those of base schemas; prefixed for an instance if given."""
        names = [*(cls._definitions() if includeInherited else cls._ATTRIBUTES)]
        return [f"{_NAMESPACE}:{instanceName}:{name}" for name in names] if instanceName else names

    @classmethod
    def IsSchemaPropertyBaseName(cls, baseName: str) -> bool:
        """Whether the schema, or a base schema, has an attribute or relationship of this name."""
        return baseName in cls._base_names()

    @staticmethod
    def IsPhysxTendonAttachmentAPIPath(path: Sdf.Path | str) -> str | None:
        """The instance name in a path ``/prim.physxTendon:NAME``; ``None`` if the path is not of that form."""
        return PhysxTendonAttachmentAPI._name_in(import_pxr().Sdf.Path(path))

    @classmethod
    def _GetSchemaKind(cls) -> Any:
        """``Usd.SchemaKind.MultipleApplyAPI``."""
        return import_pxr().Usd.SchemaKind.MultipleApplyAPI

    _GetSchemaType = _GetSchemaKind

    @property
    def schemaKind(self) -> Any:
        """``Usd.SchemaKind.MultipleApplyAPI``."""
        return self._GetSchemaKind()

    schemaType = schemaKind

    GetGearingAttr, CreateGearingAttr = _accessors(
        "gearing", "Factor on the length of the segment to the parent attachment (float, 1); of a root, unused."
    )
    GetLocalPosAttr, CreateLocalPosAttr = _accessors(
        "localPos", "The point in the body's coordinates [distance] (point3f, the origin)."
    )
    GetParentAttachmentAttr, CreateParentAttachmentAttr = _accessors(
        "parentAttachment",
        "Name of the parent attachment on the parent link (uniform token, empty); of a root, unused.",
    )

    def GetParentLinkRel(self) -> Usd.Relationship:
        """Relationship whose first target is the body of the parent attachment; unused on a root."""
        return self._prim.GetRelationship(self._property("parentLink"))

    def CreateParentLinkRel(self) -> Usd.Relationship:
        """See :meth:`GetParentLinkRel`."""
        return self._prim.CreateRelationship(self._property("parentLink"), custom=False)

    def _property(self, base_name: str) -> str:
        return f"{_NAMESPACE}:{self._name}:{base_name}"

    def _get(self, base_name: str) -> SchemaAttribute:
        attribute = self._prim.GetAttribute(self._property(base_name))
        return SchemaAttribute(attribute, self._definitions()[base_name].fallback)

    def _create(self, base_name: str, value: Any, sparsely: bool) -> SchemaAttribute:
        """Authors an attribute; with ``sparsely``, sets its value only if that differs from the current one."""
        sdf, definition = import_pxr().Sdf, self._definitions()[base_name]
        variability = sdf.VariabilityUniform if definition.uniform else sdf.VariabilityVarying
        type_name = sdf.ValueTypeNames.Find(definition.type_name)
        attribute = self._prim.CreateAttribute(self._property(base_name), type_name, False, variability)
        created = SchemaAttribute(attribute, definition.fallback)
        if value is not None and not (sparsely and created.Get() == value):
            attribute.Set(value)
        return created

    @classmethod
    def _definitions(cls) -> dict[str, _Definition]:
        """All attributes, inherited ones first."""
        schemas = [base for base in reversed(cls.__mro__) if "_ATTRIBUTES" in base.__dict__]
        return {name: definition for base in schemas for name, definition in base.__dict__["_ATTRIBUTES"].items()}

    @classmethod
    def _base_names(cls) -> list[str]:
        return [*cls._definitions(), *cls._RELATIONSHIPS]

    @classmethod
    def _names(cls, prim: Usd.Prim) -> list[str]:
        """The instance names on a prim, including those of derived schemas."""
        schemas = {cls.__name__, *(derived.__name__ for derived in cls.__subclasses__())}
        applied = (str(name).partition(":") for name in prim.GetPrimTypeInfo().GetAppliedAPISchemas())
        return list(dict.fromkeys(instance for schema, _, instance in applied if schema in schemas and instance))

    @classmethod
    def _name_in(cls, path: Sdf.Path) -> str | None:
        if not path.IsPropertyPath():
            return None
        space, _, name = str(path.name).partition(":")
        if space != _NAMESPACE or not name or cls.IsSchemaPropertyBaseName(name.rpartition(":")[2]):
            return None
        return name


class PhysxTendonAttachmentRootAPI(PhysxTendonAttachmentAPI):
    """The first attachment of a spatial tendon, with parameters of the tendon; includes the attachment's schema.

    Every path to a leaf has the length ``offset + sum gearing |segment|``; its spring, damper and limit pull the leaf
    towards the attachment above it and the root towards the one below it.
    """

    _ATTRIBUTES: ClassVar[dict[str, _Definition]] = {
        "tendonEnabled": _Definition("bool", True),
        "stiffness": _Definition("float", 0.0),
        "damping": _Definition("float", 0.0),
        "limitStiffness": _Definition("float", 0.0),
        "offset": _Definition("float", 0.0),
    }

    @staticmethod
    def IsPhysxTendonAttachmentRootAPIPath(path: Sdf.Path | str) -> str | None:
        """The instance name in a path ``/prim.physxTendon:NAME``; ``None`` if the path is not of that form."""
        return PhysxTendonAttachmentRootAPI._name_in(import_pxr().Sdf.Path(path))

    GetTendonEnabledAttr, CreateTendonEnabledAttr = _accessors(
        "tendonEnabled", "Whether the tendon pulls (bool, true); if not, its three gains count as zero."
    )
    GetStiffnessAttr, CreateStiffnessAttr = _accessors(
        "stiffness", "Spring towards each leaf's rest length [mass / second^2] (float, 0)."
    )
    GetDampingAttr, CreateDampingAttr = _accessors(
        "damping", "Damper of the paths' lengths [mass / second] (float, 0)."
    )
    GetLimitStiffnessAttr, CreateLimitStiffnessAttr = _accessors(
        "limitStiffness", "Spring back into the leaves' limits [mass / second^2] (float, 0)."
    )
    GetOffsetAttr, CreateOffsetAttr = _accessors(
        "offset", "Added to the length of every path [distance] (float, 0); not included in an automatic rest length."
    )


class PhysxTendonAttachmentLeafAPI(PhysxTendonAttachmentAPI):
    """A leaf attachment of a spatial tendon, with parameters of the path to it; includes the attachment's schema."""

    _ATTRIBUTES: ClassVar[dict[str, _Definition]] = {
        "restLength": _Definition("float", float("-inf")),
        "lowerLimit": _Definition("float", float("-inf")),
        "upperLimit": _Definition("float", float("inf")),
    }

    @staticmethod
    def IsPhysxTendonAttachmentLeafAPIPath(path: Sdf.Path | str) -> str | None:
        """The instance name in a path ``/prim.physxTendon:NAME``; ``None`` if the path is not of that form."""
        return PhysxTendonAttachmentLeafAPI._name_in(import_pxr().Sdf.Path(path))

    GetRestLengthAttr, CreateRestLengthAttr = _accessors(
        "restLength",
        "Length of the path without force [distance] (float, -inf); a negative one is its length when it is read.",
    )
    GetLowerLimitAttr, CreateLowerLimitAttr = _accessors(
        "lowerLimit", "Least length of the path [distance] (float, -inf)."
    )
    GetUpperLimitAttr, CreateUpperLimitAttr = _accessors(
        "upperLimit", "Largest length of the path [distance] (float, inf)."
    )
