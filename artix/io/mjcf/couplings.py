"""Reads equalities of a compiled MJCF as mimic joints and loop joints, and its tendons."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from artix.io.common.description import Coupling, LinkDescription, LinkPlace, Names
from artix.io.common.diagnostics import Location
from artix.io.common.poses import compose, rotation_matrix, translation
from artix.io.common.xml_tree import LARGEST_NUMBER
from artix.io.mjcf.source import MjcfSource, import_mujoco, pose_from_wxyz
from artix.model.couplings import (
    Attachment,
    FixedTendon,
    LoopJoint,
    LoopJointType,
    MimicJoint,
    SpatialTendon,
    TendonJoint,
)

#: Why a coupling is refused that is only partly of one articulation.
BEYOND = "it couples two articulations, or one with the world or another that is not read"


@dataclasses.dataclass(frozen=True)
class Members:
    """The part of a model that belongs to one articulation.

    Attributes:
      bodies: the bodies.
      joints: the joints, except for free ones.
      places: places of the links in the description, by link name.
      links: descriptions of the links before any are merged, by link name.
    """

    bodies: frozenset[int]
    joints: frozenset[int]
    places: Mapping[str, LinkPlace]
    links: Mapping[str, LinkDescription]

    def link_of_joint(self, joint: str) -> str:
        """The name of the link that a joint moves."""
        return next(
            name
            for name, link in self.links.items()
            if link.joint is not None and link.joint.name == joint
        )

    def parent(self, link: str) -> str | None:
        """The parent of a link, or the link that the parent is merged into."""
        parent = self.links[link].parent
        return None if parent is None else self.places[parent].link

    def ancestors(self, link: str) -> list[str]:
        """The ancestors of a link, the nearest first."""
        ancestors: list[str] = []
        parent = self.parent(link)
        while parent is not None:
            ancestors.append(parent)
            parent = self.parent(parent)
        return ancestors


def held_joints(source: MjcfSource) -> dict[int, float]:
    """The positions at which equalities hold single joints, by joint."""
    model = source.model
    held = dict[int, float]()
    for equality in range(0 if source.disables("EQUALITY") else model.neq):
        relation = source.joint_relation(equality)
        if relation is not None and relation[1] < 0 and model.eq_active0[equality]:
            joint, _, (constant, *_) = relation
            if abs(constant) <= LARGEST_NUMBER:
                held[joint] = float(model.qpos0[model.jnt_qposadr[joint]]) + constant
    return held


def read_couplings(
    source: MjcfSource, members: Members, springs: Mapping[int, tuple[float, float]]
) -> list[Coupling]:
    """The equalities, tendons and springs of joints of one articulation.

    Equalities and tendons with other articulations are refused.

    Args:
      source: the model.
      members: the articulation.
      springs: stiffness and reference position of the springs that become tendons along one joint
        each, by joint.
    """
    couplings = [*_equalities(source, members), *_tendons(source, members)]
    names = Names(_name(source, tendon) for tendon in range(source.model.ntendon))
    for joint, (stiffness, rest) in springs.items():
        name = source.names.joints[joint]
        alone = TendonJoint(dof=name, coefficient=1.0, recip_coefficient=1.0)
        root = members.parent(members.link_of_joint(name))
        spring = names.new(f"{name}_spring")
        couplings.append(
            FixedTendon(
                name=spring, joints=[alone], stiffness=stiffness, rest_length=rest, root_link=root
            )
        )
    return couplings


def _equalities(source: MjcfSource, members: Members) -> list[Coupling]:
    """The equalities between members, or of members with the world."""
    couplings: list[Coupling | None] = []
    followers: set[int] = set()
    for equality in range(0 if source.disables("EQUALITY") else source.model.neq):
        kind = source.equality_kind(equality)
        relation = source.joint_relation(equality)
        if relation is not None:
            couplings.append(_mimic(source, members, equality, relation, followers))
        elif kind in ("connect", "weld"):
            couplings.append(_loop_joint(source, members, equality, weld=kind == "weld"))
    return [coupling for coupling in couplings if coupling is not None]


def check_equalities(source: MjcfSource) -> None:
    """Reports equalities of unsupported types."""
    for equality in range(0 if source.disables("EQUALITY") else source.model.neq):
        kind = source.equality_kind(equality)
        if kind not in ("connect", "weld") and source.joint_relation(equality) is None:
            source.report_unsupported(
                "equality", source.place("eq", equality), f"an equality of type {kind!r}"
            )


def _is_read(source: MjcfSource, equality: int, place: Location, inside: list[bool]) -> bool:
    """Whether to read an equality into this articulation; ``inside`` flags which of its objects are
    members.
    """
    active = bool(source.model.eq_active0[equality])
    if any(inside) and not (active and all(inside)) and source.first_report(place):
        if active:
            source.report_unsupported("equality", place, BEYOND)
        else:
            source.report.warning(
                place, "it is not active and is not read", "activate it if it should hold"
            )
    return active and bool(inside) and all(inside)


def _mimic(
    source: MjcfSource,
    members: Members,
    equality: int,
    relation: tuple[int, int, list[float]],
    followers: set[int],
) -> MimicJoint | None:
    """An equality of two joints, whose first joint joins ``followers``, the joints that follow
    another one.
    """
    model = source.model
    place = source.place("eq", equality)
    follower, reference, polynomial = relation
    if not np.all(np.abs(polynomial) <= LARGEST_NUMBER):
        source.report.error(
            place,
            f"its numbers are not finite or beyond {LARGEST_NUMBER:g}",
            "write finite numbers",
        )
        return None
    if reference < 0:
        if _is_read(source, equality, place, [follower in members.joints]):
            message = "it holds one joint at a position, by equal limits, which are hard"
            source.report.warning(place, message, "nothing; artix.lock_joints removes such a joint")
        return None
    if not _is_read(
        source, equality, place, [joint in members.joints for joint in (follower, reference)]
    ):
        return None
    constant, slope, *higher = polynomial
    if any(higher):
        source.report_unsupported("equality", place, "its polynomial is not linear")
        return None
    if follower in followers:
        source.report_unsupported(
            "equality", place, "its first joint already follows another joint"
        )
        return None
    followers.add(follower)
    start, start_of_reference = (
        float(model.qpos0[model.jnt_qposadr[joint]]) for joint in (follower, reference)
    )
    offset = slope * start_of_reference - constant - start
    joints = source.names.joints
    return MimicJoint(
        follower=joints[follower], reference=joints[reference], gear_ratio=-slope, offset=offset
    )


def _loop_joint(
    source: MjcfSource, members: Members, equality: int, *, weld: bool
) -> LoopJoint | None:
    model = source.model
    place = source.place("eq", equality)
    data = model.eq_data[equality]
    if not np.all(np.abs(data) <= LARGEST_NUMBER):
        source.report.error(
            place,
            f"its numbers are not finite or beyond {LARGEST_NUMBER:g}",
            "write finite numbers",
        )
        return None
    first, second = int(model.eq_obj1id[equality]), int(model.eq_obj2id[equality])
    if int(model.eq_objtype[equality]) == int(import_mujoco().mjtObj.mjOBJ_SITE):
        poses = [
            pose_from_wxyz(model.site_pos[site], model.site_quat[site]) for site in (first, second)
        ]
        first, second = (int(model.site_bodyid[site]) for site in (first, second))
    elif weld:
        poses = [pose_from_wxyz(data[3:6], data[6:10]), translation(data[:3])]
    else:
        poses = [translation(data[at : at + 3]) for at in (0, 3)]
    # A body is coupled to the world by its own articulation, whichever articulation has the world
    # for its root.
    if not _is_read(
        source, equality, place, [body in members.bodies for body in (first, second) if body]
    ):
        return None
    ends = [
        _end(source, members, body, pose) for body, pose in zip((first, second), poses, strict=True)
    ]
    if ends[1][0] is None:
        ends.reverse()
    (link_a, pose_a), (link_b, pose_b) = ends
    if link_b is None or link_a == link_b:
        source.report.warning(
            place,
            "it connects bodies that cannot move relative to each other; not read",
            "remove it",
        )
        return None
    # A weld whose torquescale is 0 leaves the rotation free.
    holds_rotation = weld and data[10] != 0.0
    kind = LoopJointType.FIXED if holds_rotation else LoopJointType.SPHERICAL
    name = source.name("eq", equality) or f"equality{equality}"
    return LoopJoint(
        name=name, link_a=link_a, link_b=link_b, pose_a=pose_a, pose_b=pose_b, type=kind
    )


def _end(
    source: MjcfSource, members: Members, body: int, pose: np.ndarray
) -> tuple[str | None, np.ndarray]:
    """The link of a body, ``None`` for the world, and a pose given in the body's frame expressed in
    the link's.
    """
    if body == 0:
        return None, pose
    place = members.places[source.names.bodies[body]]
    return place.link, compose(place.pose, pose)


# --- tendons ------------------------------------------------------------------------------------


def _tendons(source: MjcfSource, members: Members) -> list[Coupling]:
    """The tendons between members that exert a force; the others are reported."""
    couplings: list[Coupling | None] = []
    for tendon in range(source.model.ntendon):
        path = source.tendon_path(tendon)
        inside = [
            element in members.joints
            if kind == "joint"
            else int(source.model.site_bodyid[element]) in members.bodies
            for kind, element, _ in path
            if kind in ("joint", "site")
        ]
        place = source.place("tendon", tendon)
        kinds = {kind for kind, _, _ in path}
        if not any(inside) or (not all(inside) and not source.first_report(place)):
            continue
        if kinds not in ({"joint"}, {"site"}):
            others = ", ".join(sorted(kinds - {"joint", "site"})) or "joint and site"
            source.report_unsupported(
                "tendon", place, f"artix does not support this element of its path: {others}"
            )
            continue
        numbers = _numbers(source, tendon)
        if numbers is None:
            continue
        if not all(inside):
            source.report_unsupported("tendon", place, BEYOND)
        else:
            read = _fixed_tendon if kinds == {"joint"} else _spatial_tendon
            couplings.append(read(source, members, tendon, numbers))
    return [coupling for coupling in couplings if coupling is not None]


def _name(source: MjcfSource, tendon: int) -> str:
    return source.name("tendon", tendon) or f"tendon{tendon}"


def _fixed_tendon(
    source: MjcfSource, members: Members, tendon: int, numbers: _Numbers
) -> FixedTendon | None:
    """A tendon along joints; joints that it skips in between become members with coefficient 0."""
    coefficient: dict[str, float] = {}
    for _, element, factor in source.tendon_path(tendon):
        link = members.link_of_joint(source.names.joints[element])
        coefficient[link] = coefficient.get(link, 0.0) + factor
    paths = [[link, *members.ancestors(link)] for link in coefficient]
    root = next(link for link in paths[0][1:] if all(link in path[1:] for path in paths))
    # The links between the root and the tendon's joints, parents first, without duplicates.
    order = list(
        dict.fromkeys(link for path in paths for link in reversed(path[: path.index(root)]))
    )
    joints = []
    for link in order:
        joint = members.links[link].joint
        if joint is None or len(joint.axes) != 1:
            message = (
                f"it passes link {link!r}, whose joint does not have exactly one degree of freedom"
            )
            source.report_unsupported("tendon", source.place("tendon", tendon), message)
            return None
        parent = members.parent(link)
        factor = coefficient.get(link, 0.0)
        joints.append(
            TendonJoint(
                dof=str(joint.name),
                coefficient=factor,
                recip_coefficient=factor,
                parent=-1 if parent == root else order.index(str(parent)),
            )
        )
    if any(joint.parent >= 0 for joint in joints):
        _warn_of_law(source, tendon)
    # PhysX divides the tension among the joints of the tendon; MuJoCo applies the full tension to
    # each.
    gains = {
        gain: len(order) * getattr(numbers, gain)
        for gain in ("stiffness", "damping", "limit_stiffness")
    }
    law = dataclasses.asdict(numbers) | gains
    return FixedTendon(name=_name(source, tendon), joints=joints, root_link=root, **law)


def _warn_of_law(source: MjcfSource, tendon: int) -> None:
    """Warns of a tendon that pulls differently by PhysX's law, which steps follow unless told
    otherwise.
    """
    message = (
        "MuJoCo's tendons pull by virtual work, which for this one differs from PhysX's law, the "
        "default of steps"
    )
    fix = "simulate it with SolverOptions(tendon_law='virtual_work')"
    source.report.warning(source.place("tendon", tendon), message, fix)


def _spatial_tendon(
    source: MjcfSource, members: Members, tendon: int, numbers: _Numbers
) -> SpatialTendon:
    """A tendon with straight segments from site to site."""
    model = source.model
    sites = [site for _, site, _ in source.tendon_path(tendon)]
    points = []
    for index, site in enumerate(sites):
        place = members.places[source.names.bodies[model.site_bodyid[site]]]
        leaf = index == len(sites) - 1
        points.append(
            Attachment(
                link=place.link,
                position=place.pose[:3]
                + rotation_matrix(place.pose[3:]) @ np.asarray(model.site_pos[site]),
                parent=index - 1,
                rest_length=numbers.rest_length if leaf else None,
                limits=numbers.limits if leaf else None,
                name=source.name("site", site) or None,
            )
        )
    if len(sites) > 2:
        _warn_of_law(source, tendon)
    return SpatialTendon(
        name=_name(source, tendon),
        attachments=points,
        stiffness=numbers.stiffness,
        damping=numbers.damping,
        limit_stiffness=numbers.limit_stiffness,
    )


@dataclasses.dataclass(frozen=True)
class _Numbers:
    """Spring and damper of a tendon; a spring with a deadband has limits instead of a rest
    length.
    """

    stiffness: float
    damping: float
    limit_stiffness: float
    rest_length: float
    limits: tuple[float, float] | None


#: Fields of tendons that artix's do not have, and what they are in a file.
_UNREAD = {
    name: name
    for name in ("frictionloss", "armature", "stiffnesspoly", "dampingpoly", "springyield")
} | {"actfrclimited": "actuatorfrcrange"}


def _numbers(source: MjcfSource, tendon: int) -> _Numbers | None:
    """Spring and damper of a tendon; ``None`` if it exerts no force."""
    model = source.model
    place = source.place("tendon", tendon)
    for field in _UNREAD:
        if np.any(getattr(model, f"tendon_{field}", np.zeros(model.ntendon))[tendon]):
            source.report_unsupported(
                "tendon", place, f"its {_UNREAD[field]}, which tendons of artix do not have"
            )
    limited = bool(model.tendon_limited[tendon]) and not source.disables("LIMIT")
    if limited and model.tendon_invweight0[tendon] < 1e-9:
        source.report_unsupported("limit", place, "its range: no joint changes its length at qpos0")
        limited = False
    stiffness = 0.0 if source.disables("SPRING") else float(model.tendon_stiffness[tendon])
    damping = 0.0 if source.disables("DAMPER") else float(model.tendon_damping[tendon])
    if min(stiffness, damping) < 0.0:
        source.report_unsupported("tendon", place, "its stiffness or damping is negative")
        return None
    if stiffness == 0.0 and damping == 0.0 and not limited:
        source.report.note(place, "it exerts no force of its own and is not read", "nothing")
        return None
    low, high = map(float, model.tendon_lengthspring[tendon])
    if low < high and stiffness:
        if limited:
            source.report_unsupported(
                "limit", place, "its range, as its spring has limits of its own"
            )
        return _Numbers(0.0, damping, stiffness, 0.0, (low, high))
    if not limited:
        return _Numbers(stiffness, damping, 0.0, low, None)
    message = "its range is kept by a spring that stretches under a load as MuJoCo's limit does"
    source.report.warning(place, message, "nothing, unless the tendon hits its limits fast")
    first, last = map(float, model.tendon_range[tendon])
    return _Numbers(stiffness, damping, _limit_stiffness(source, tendon), low, (first, last))


def _limit_stiffness(source: MjcfSource, tendon: int) -> float:
    """The load on a tendon's limit divided by how far it gives way in MuJoCo, once the impedance is
    at its largest.

    At rest MuJoCo's constraint with impedance d, reference stiffness k and inverse inertia A gives
    way by ``(1 - d) A / (d^2 k)`` for each newton (its documentation, "Solver parameters").
    """
    model = source.model
    impedance = float(np.clip(model.tendon_solimp_lim[tendon, 1], 1e-4, 0.9999))
    time, ratio = map(float, model.tendon_solref_lim[tendon])
    if time > 0.0:
        time = time if source.disables("REFSAFE") else max(time, 2.0 * float(model.opt.timestep))
        stiffness = 1.0 / (impedance * time * ratio) ** 2
    else:
        stiffness = -time / impedance**2
    return impedance**2 * stiffness / ((1.0 - impedance) * float(model.tendon_invweight0[tendon]))
