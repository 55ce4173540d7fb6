"""Compiles an MJCF with MuJoCo: checks the file first, and keeps the lines of its elements for
messages.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from artix.io.common.description import Names, ReadOptions
from artix.io.common.diagnostics import Location, Report
from artix.io.common.xml_tree import LARGEST_NUMBER, Element, is_text, origin, read_xml

if TYPE_CHECKING:
    import mujoco

WORLD = "world"
FREE, BALL, SLIDE, HINGE = range(4)  # mjtJoint
NOT_SAME, SAME_AS_BODY = 0, 1  # mjtSameFrame

#: Kinds of unsupported elements, which a strict reader leaves out on request only.
SKIPPABLE = ("actuator", "equality", "flex", "fluid", "free_joint", "limit", "spring", "tendon")

#: Attributes by which a few bytes of XML make MuJoCo allocate arbitrary memory, and the largest
#: values allowed.
MEMORY_ATTRIBUTES = {
    **dict.fromkeys(("count", "cellcount", "params", "dim", "nsample"), 10_000),
    **dict.fromkeys(("nrow", "ncol", "width", "height"), 20_000),
}
MEMORY_ATTRIBUTES_OF = {"size": ("nkey", "nuser_"), "numeric": ("size",)}
LARGEST_COUNT = 10_000

#: Numeric fields of the compiled model that reach the articulation, by the kind of element.
_NUMBERS = {
    "body": ("pos", "quat", "mass", "ipos", "iquat", "inertia", "gravcomp"),
    "jnt": ("pos", "axis", "range", "stiffness", "actfrcrange"),
    "site": ("pos", "quat"),
    "geom": ("pos", "quat", "size", "friction"),
    "actuator": ("gear", "gainprm", "biasprm", "forcerange", "ctrlrange"),
    "tendon": ("stiffness", "damping", "range", "lengthspring", "frictionloss", "armature"),
}
_DOF_NUMBERS = ("dof_armature", "dof_damping", "dof_frictionloss")
#: Tags of elements by the kinds that MuJoCo's names of fields begin with, and the kinds by tag.
_TAGS = {kind: kind for kind in ("body", "site", "geom", "tendon", "actuator")} | {
    "jnt": "joint",
    "eq": "equality",
}
_KINDS = {tag: kind for kind, tag in _TAGS.items()} | {"freejoint": "jnt"}
#: Tags of sections, all elements in which are of one kind.
_SECTIONS = ("actuator", "tendon", "equality")
#: Flags of what MuJoCo's solver of constraints does, which one flag disables as a whole.
_CONSTRAINTS = ("CONTACT", "EQUALITY", "FRICTIONLOSS", "LIMIT")


@dataclasses.dataclass(frozen=True)
class MjcfNames:
    """Unique names for all bodies and joints of a model, generated for those without one in the
    file.

    Attributes:
      bodies: names by body; the last link of the chain for a body has the body's name.
      joints: names by joint.
    """

    bodies: tuple[str, ...]
    joints: tuple[str, ...]

    @classmethod
    def of(cls, model: mujoco.MjModel) -> MjcfNames:
        """Names of the elements of a model; unnamed ones are ``body3``, ``body3_joint``,
        ``body3_joint_2``, ...
        """
        of_bodies = [model.body(k).name for k in range(model.nbody)]
        unused = Names(of_bodies)
        bodies = [name or unused.new(f"body{k}") for k, name in enumerate(of_bodies)]
        of_joints = [model.joint(k).name for k in range(model.njnt)]
        unused = Names(of_joints)
        links = [bodies[body] for body in model.jnt_bodyid]
        joints = [
            name or unused.new(f"{link}_joint") for name, link in zip(of_joints, links, strict=True)
        ]
        return cls(tuple(bodies), tuple(joints))


@dataclasses.dataclass
class MjcfSource:
    """A compiled model, the places of its elements in the file, and the options of the reader.

    Attributes:
      model: MuJoCo's compiled model.
      elements: the places of named elements by kind (``"body"``, ``"jnt"``, ...) and name.
      report: receives the issues.
      options: of the reader; ``skip`` is out of :data:`SKIPPABLE`.
      reported: places of couplings beyond one articulation, which each of their articulations would
        report.
    """

    model: mujoco.MjModel
    elements: dict[tuple[str, str], Location]
    report: Report
    options: ReadOptions
    reported: set[Location] = dataclasses.field(default_factory=set)

    @functools.cached_property
    def names(self) -> MjcfNames:
        """Unique names of the bodies and joints."""
        return MjcfNames.of(self.model)

    @functools.cached_property
    def controls(self) -> np.ndarray:
        """The first control of each actuator: some of MuJoCo 4, such as PID, have several."""
        model = self.model
        return np.asarray(getattr(model, "actuator_ctrladr", np.arange(model.nu)), int)

    def tendon_path(self, tendon: int) -> list[tuple[str, int, float]]:
        """The elements of a tendon's path: kind (``"joint"``, ``"site"``, ``"pulley"``, ...),
        number, parameter.
        """
        model = self.model
        wraps = import_mujoco().mjtWrap
        first = int(model.tendon_adr[tendon])
        return [
            (
                wraps(int(model.wrap_type[at])).name[7:].lower(),
                int(model.wrap_objid[at]),
                float(model.wrap_prm[at]),
            )
            for at in range(first, first + int(model.tendon_num[tendon]))
        ]

    def equality_kind(self, equality: int) -> str:
        """The type of an equality, such as ``"weld"``."""
        return import_mujoco().mjtEq(int(self.model.eq_type[equality])).name[5:].lower()

    def joint_relation(self, equality: int) -> tuple[int, int, list[float]] | None:
        """Follower, reference (-1 for none) and polynomial of an equality of joint positions, if it
        is one.

        The polynomial maps the reference's displacement from its ``qpos0`` to the follower's. A
        fixed tendon along one or two joints whose length is held constant is such a relation as
        well.
        """
        model = self.model
        kind = self.equality_kind(equality)
        first, second = int(model.eq_obj1id[equality]), int(model.eq_obj2id[equality])
        numbers = [float(number) for number in model.eq_data[equality, :5]]
        if kind == "joint":
            return first, second, numbers
        path = self.tendon_path(first) if kind == "tendon" and second < 0 else []
        if (
            not 1 <= len(path) <= 2
            or path[0][2] == 0.0
            or any(what != "joint" for what, _, _ in path)
        ):
            return None
        if len(path) == 1:
            return path[0][1], -1, [numbers[0] / path[0][2]]
        (_, follower, follower_factor), (_, reference, reference_factor) = path
        slope = -reference_factor / follower_factor
        return follower, reference, [numbers[0] / follower_factor, slope]

    def report_unsupported(
        self, kind: str, place: Location, message: str, *, left_out: bool = True
    ) -> None:
        """Reports what is left out or read otherwise: an error if the reader is strict and does not
        skip its kind.
        """
        if self.options.strict and kind not in self.options.skip:
            self.report.error(place, message, f"change it, or read the rest with skip=({kind!r},)")
            return
        report = self.report.left_out if left_out else self.report.warning
        report(place, message, "nothing, unless the articulation needs it; strict=True refuses it")

    def first_report(self, place: Location) -> bool:
        """Whether the coupling at a place has not been reported by another articulation; it counts
        as reported then.
        """
        is_first = place not in self.reported
        self.reported.add(place)
        return is_first

    def disables(self, flag: str) -> bool:
        """Whether the model's ``<flag>`` disables a feature, such as ``"GRAVITY"``."""
        bits = import_mujoco().mjtDisableBit
        if flag in _CONSTRAINTS and self.disables("CONSTRAINT"):
            return True
        if not hasattr(bits, f"mjDSBL_{flag}"):
            flag = (
                "PASSIVE"  # In earlier versions of MuJoCo, one flag disables springs and dampers.
            )
        return bool(self.model.opt.disableflags & getattr(bits, f"mjDSBL_{flag}"))

    def name(self, kind: str, index: int) -> str:
        """The name of an element, empty if it has none; ``kind`` is the prefix of MuJoCo's field
        names.
        """
        address = int(getattr(self.model, f"name_{kind}adr")[index])
        return self.model.names[address : self.model.names.index(b"\0", address)].decode(
            "utf-8", "replace"
        )

    def place(self, kind: str, index: int) -> Location:
        """Where the file defines an element; line 1 for elements generated by the compiler."""
        name = self.name(kind, index)
        if (kind, name) in self.elements:
            return self.elements[kind, name]
        return Location(
            f'<{_TAGS[kind]} name="{name}">' if name else f"<{_TAGS[kind]}> number {index}"
        )


def import_mujoco() -> Any:
    """The ``mujoco`` package.

    Raises:
      ImportError: it is not installed; the message names the extra to install.
    """
    try:
        import mujoco
    except ImportError as error:
        raise ImportError(
            "reading MJCF requires MuJoCo's compiler: pip install 'artix[mjcf]'"
        ) from error
    return mujoco


def compile_mjcf(
    path_or_text: str | Path, report: Report, options: ReadOptions | None = None
) -> MjcfSource | None:
    """Checks the XML of an MJCF and of the files that it includes, then compiles it.

    Args:
      path_or_text: a path, or the MJCF itself; see :func:`~artix.io.common.xml_tree.is_text`.
      report: receives the issues; MuJoCo's warnings become warnings.
      options: of the reader, kept with the model.

    Returns:
      The model; ``None`` if there was an error.

    Raises:
      OSError: the file cannot be read.
      ImportError: ``mujoco`` is not installed.
    """
    mujoco = import_mujoco()
    document = read_xml(path_or_text, report)
    if document is None:
        return None
    if document.tag != "mujoco":
        fix = (
            "read it with load_urdf"
            if document.tag == "robot"
            else "check that this file is an MJCF"
        )
        report.error(document, "the outermost element of an MJCF is <mujoco>", fix)
        return None
    elements: dict[tuple[str, str], Location] = {}
    for file, root in [
        (None, document),
        *_read_includes(document, origin(path_or_text)[1], report),
    ]:
        _index(root, file, elements)
        _check_sizes(root, file, report)
    if report.num_errors:
        return None
    model = _compile(mujoco, path_or_text, report)
    if model is None:
        return None
    source = MjcfSource(model, elements, report, options or ReadOptions())
    _check_numbers(source)
    return None if report.num_errors else source


def _read_includes(document: Element, base: Path, report: Report) -> list[tuple[str, Element]]:
    """The included documents, without duplicates; MuJoCo's compiler reports missing ones."""
    included: list[tuple[str, Element]] = []
    seen: set[str] = set()
    pending = [document]
    while pending:
        for element in _walk(pending.pop()):
            file = element.attributes.get("file", "") if element.tag == "include" else ""
            path = base / file
            if not file or file in seen or not path.is_file():
                continue
            seen.add(file)
            root = read_xml(path, report)
            if root is not None:
                included.append((str(path), root))
                pending.append(root)
    return included


def _walk(root: Element) -> list[Element]:
    elements = [root]
    for element in elements:
        elements += element.children
    return elements


def _index(root: Element, file: str | None, elements: dict[tuple[str, str], Location]) -> None:
    for element in _walk(root):
        around = "" if element.parent is None else element.parent.tag
        kind = _KINDS.get(around if around in _SECTIONS else element.tag)
        if kind is not None and "name" in element.attributes:
            place = Location(element.label, element.line, file)
            elements.setdefault((kind, element.attributes["name"]), place)


def _check_sizes(root: Element, file: str | None, report: Report) -> None:
    """Refuses numbers by which a small file could exhaust memory."""
    repeated = {id(root): 1.0}
    for element in _walk(root):
        copies = repeated[id(element)]
        for attribute, value in element.attributes.items():
            prefixes = MEMORY_ATTRIBUTES_OF.get(element.tag, ())
            is_count = bool(prefixes) and attribute.startswith(prefixes)
            limit = LARGEST_COUNT if is_count else MEMORY_ATTRIBUTES.get(attribute)
            largest = max(
                (
                    abs(float(number))
                    for number in re.findall(r"\d+(?:\.\d*)?(?:[eE]\+?\d+)?", value)
                ),
                default=0.0,
            )
            if limit is not None and largest > limit:
                place = Location(element.label, element.line, file)
                message = (
                    f"{attribute}={value[:60]!r} is beyond {limit:,}, which would take much "
                    "memory or time"
                )
                report.error(place, message, "write a smaller number")
            if attribute == "count":
                copies *= max(largest, 1.0)
        if copies > LARGEST_COUNT and repeated[id(element)] <= LARGEST_COUNT:
            place = Location(element.label, element.line, file)
            message = f"nested repetitions make more than {LARGEST_COUNT:,} copies"
            report.error(place, message, "write smaller counts")
        repeated.update((id(child), copies) for child in element.children)


def _compile(mujoco: Any, path_or_text: str | Path, report: Report) -> mujoco.MjModel | None:
    """Runs MuJoCo's compiler and reports its warnings, which it would otherwise write to a log
    file.
    """
    place = Location("<mujoco>")
    warned = list[str]()
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(warned.append)
    try:
        if is_text(path_or_text):
            # Lines before the document count in messages; a byte order mark is refused.
            text = str(path_or_text).lstrip("\ufeff \t\r\n")
            return mujoco.MjModel.from_xml_string(
                "\n" * str(path_or_text)[: -len(text)].count("\n") + text
            )
        return mujoco.MjModel.from_xml_path(str(path_or_text))
    except (ValueError, mujoco.FatalError) as error:
        message = " ".join(str(error).split())
        line = re.search(r"line(?: number=)? ?([1-9]\d*)", message)  # Line 0 is none.
        place = Location("<mujoco>", int(line[1]) if line else 1)
        report.error(
            place,
            f"MuJoCo's compiler refuses it: {message}",
            "correct the element named in the message",
        )
        return None
    finally:
        mujoco.set_mju_user_warning(before)
        for message in warned:
            report.warning(
                place,
                f"MuJoCo's compiler warns: {' '.join(str(message).split())}",
                "see MuJoCo's manual",
            )


def _check_numbers(source: MjcfSource) -> None:
    """Refuses infinities and NaNs, which MuJoCo's compiler accepts."""
    model = source.model
    owner = np.searchsorted(source.controls, np.arange(model.nu), side="right") - 1
    for kind, fields in _NUMBERS.items():
        for field in fields:
            of = owner if field == "ctrlrange" else None
            _check_field(source, f"{kind}_{field}", kind, of)
    for field in _DOF_NUMBERS:
        _check_field(source, field, "jnt", model.dof_jntid)
    for label, values in (
        ("gravity", model.opt.gravity),
        ("ref", model.qpos0),
        ("springref", model.qpos_spring),
    ):
        if not np.all(np.abs(values) <= LARGEST_NUMBER):
            source.report.error(
                Location("<mujoco>"),
                f"{label} is not finite or beyond {LARGEST_NUMBER:g}",
                "correct the number",
            )


def _check_field(source: MjcfSource, field: str, kind: str, owner: np.ndarray | None) -> None:
    # Some of the fields do not exist in earlier versions of MuJoCo.
    values = np.asarray(getattr(source.model, field, ()), float)
    if not values.size:
        return
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(values.reshape(len(values), -1)) <= LARGEST_NUMBER).all(axis=1)
    for index in np.flatnonzero(wrong):
        place = source.place(kind, int(index if owner is None else owner[index]))
        source.report.error(
            place, f"{field} is not finite or beyond {LARGEST_NUMBER:g}", "write a finite number"
        )


# --- parts of a model ---------------------------------------------------------------------------


def top_bodies(model: mujoco.MjModel) -> list[int]:
    """The bodies that are children of the world."""
    return [body for body in range(1, model.nbody) if model.body_parentid[body] == 0]


def is_free(model: mujoco.MjModel, body: int) -> bool:
    """Whether a body has a free joint."""
    return model.body_jntnum[body] > 0 and model.jnt_type[model.body_jntadr[body]] == FREE


def welds(model: mujoco.MjModel) -> np.ndarray:
    """The first of the bodies that each body is welded to, zero for those that do not move: mocap
    bodies as well, which artix reads as fixed ones.
    """
    weld = np.array(model.body_weldid)
    weld[np.isin(weld, np.flatnonzero(np.asarray(model.body_mocapid) >= 0))] = 0
    return weld


def has_dofs(model: mujoco.MjModel, top: int) -> bool:
    """Whether anything moves in the subtree of a child of the world."""
    return bool(np.any(model.body_dofnum[np.asarray(model.body_rootid) == top]))


def geom_type(model: mujoco.MjModel, geom: int) -> str:
    """MuJoCo's name of a geom's type, such as ``"SPHERE"``."""
    return import_mujoco().mjtGeom(int(model.geom_type[geom])).name[7:]


def joints_of(model: mujoco.MjModel, body: int) -> range:
    """The joints between a body and its parent, in order."""
    first = int(model.body_jntadr[body])
    return range(first, first + int(model.body_jntnum[body]))


def pose_from_wxyz(position: np.ndarray, quaternion: np.ndarray) -> np.ndarray:
    """A pose from MuJoCo's position and quaternion wxyz, shape [7]."""
    w, x, y, z = quaternion / np.linalg.norm(quaternion)
    return np.array([*position, x, y, z, w], float)
