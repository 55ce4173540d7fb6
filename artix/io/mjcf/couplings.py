"""Reads equalities of a compiled MJCF as mimic joints and loop joints."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from artix.io.common.diagnostics import Location
from artix.io.common.links import LinkDescription, LinkPlace
from artix.io.common.poses import compose, translation
from artix.io.common.xml_tree import LARGEST_NUMBER
from artix.io.mjcf.bodies import pose_from_wxyz
from artix.io.mjcf.source import MjcfSource, import_mujoco
from artix.model.builder import ArticulationBuilder
from artix.model.couplings import LoopJoint, LoopJointType

#: Why a coupling is refused that is only partly of one articulation.
BEYOND = "it couples two articulations, or one with the world or another that is not read"


@dataclasses.dataclass(frozen=True)
class Members:
    """The part of a model that belongs to one articulation.

    Attributes:
      bodies: the bodies.
      joints: the joints, except for free ones.
      places: places of the links in the builder, by link name.
      links: descriptions of the links, by link name.
    """

    bodies: frozenset[int]
    joints: frozenset[int]
    places: Mapping[str, LinkPlace]
    links: Mapping[str, LinkDescription]

    def link_of_joint(self, joint: str) -> str:
        """The name of the link that a joint moves."""
        return next(name for name, link in self.links.items() if link.joint is not None and link.joint.name == joint)

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
    model, held = source.model, dict[int, float]()
    for equality in range(0 if source.disables("EQUALITY") else model.neq):
        relation = _relation(source, equality)
        if relation is not None and relation[1] < 0 and model.eq_active0[equality]:
            joint, _, (constant, *_) = relation
            if abs(constant) <= LARGEST_NUMBER:
                held[joint] = float(model.qpos0[model.jnt_qposadr[joint]]) + constant
    return held


def add_equalities(builder: ArticulationBuilder, source: MjcfSource, members: Members) -> None:
    """Adds the equalities between members, or of members with the world; refuses those with other articulations."""
    if source.disables("EQUALITY"):
        return
    followers: set[int] = set()
    for equality in range(source.model.neq):
        kind, relation = _kind(source, equality), _relation(source, equality)
        if relation is not None:
            _add_mimic(builder, source, members, equality, relation, followers)
        elif kind in ("connect", "weld"):
            _add_loop_joint(builder, source, members, equality, weld=kind == "weld")


def check_equalities(source: MjcfSource) -> None:
    """Reports equalities of unsupported types."""
    for equality in range(0 if source.disables("EQUALITY") else source.model.neq):
        kind = _kind(source, equality)
        if kind not in ("connect", "weld") and _relation(source, equality) is None:
            source.report_unsupported("equality", source.place("eq", equality), f"an equality of type {kind!r}")


def _kind(source: MjcfSource, equality: int) -> str:
    return import_mujoco().mjtEq(int(source.model.eq_type[equality])).name[5:].lower()


def _relation(source: MjcfSource, equality: int) -> tuple[int, int, list[float]] | None:
    """Follower, reference (-1 for none) and polynomial of an equality of joint positions, if it is one.

    The polynomial maps the displacement of the reference from its ``qpos0`` to that of the follower. A fixed tendon
    along one or two joints whose length is held constant is such a relation as well.
    """
    model, kind = source.model, _kind(source, equality)
    first, second = int(model.eq_obj1id[equality]), int(model.eq_obj2id[equality])
    numbers = [float(number) for number in model.eq_data[equality, :5]]
    if kind == "joint":
        return first, second, numbers
    path = source.tendon_path(first) if kind == "tendon" and second < 0 else []
    if not 1 <= len(path) <= 2 or path[0][2] == 0.0 or any(what != "joint" for what, _, _ in path):
        return None
    if len(path) == 1:
        return path[0][1], -1, [numbers[0] / path[0][2]]
    (_, follower, own), (_, reference, other) = path
    return follower, reference, [numbers[0] / own, -other / own]


def _is_read(source: MjcfSource, equality: int, place: Location, inside: list[bool]) -> bool:
    """Whether to read an equality into this articulation; ``inside`` flags which of its objects are members."""
    active = bool(source.model.eq_active0[equality])
    if any(inside) and not (active and all(inside)) and source.first_report(place):
        if active:
            source.report_unsupported("equality", place, BEYOND)
        else:
            source.report.warning(place, "it is not active and is not read", "activate it if it should hold")
    return active and bool(inside) and all(inside)


def _add_mimic(
    builder: ArticulationBuilder,
    source: MjcfSource,
    members: Members,
    equality: int,
    relation: tuple[int, int, list[float]],
    followers: set[int],
) -> None:
    """Adds an equality of two joints, and its first joint to ``followers``, the joints that follow another one."""
    model, place = source.model, source.place("eq", equality)
    follower, reference, polynomial = relation
    if not np.all(np.abs(polynomial) <= LARGEST_NUMBER):
        source.report.error(place, f"its numbers are not finite or beyond {LARGEST_NUMBER:g}", "write finite numbers")
        return
    if reference < 0:
        if _is_read(source, equality, place, [follower in members.joints]):
            message = "it holds one joint at a position, by equal limits, which are hard"
            source.report.warning(place, message, "nothing; artix.lock_joints removes such a joint")
        return
    if not _is_read(source, equality, place, [joint in members.joints for joint in (follower, reference)]):
        return
    constant, slope, *higher = polynomial
    if any(higher):
        source.report_unsupported("equality", place, "its polynomial is not linear")
        return
    if follower in followers:
        source.report_unsupported("equality", place, "its first joint already follows another joint")
        return
    followers.add(follower)
    start, start_of_reference = (float(model.qpos0[model.jnt_qposadr[joint]]) for joint in (follower, reference))
    offset = slope * start_of_reference - constant - start
    builder.add_mimic(source.names.joints[follower], source.names.joints[reference], gear_ratio=-slope, offset=offset)


def _add_loop_joint(
    builder: ArticulationBuilder, source: MjcfSource, members: Members, equality: int, *, weld: bool
) -> None:
    model, place, data = source.model, source.place("eq", equality), source.model.eq_data[equality]
    if not np.all(np.abs(data) <= LARGEST_NUMBER):
        source.report.error(place, f"its numbers are not finite or beyond {LARGEST_NUMBER:g}", "write finite numbers")
        return
    first, second = int(model.eq_obj1id[equality]), int(model.eq_obj2id[equality])
    if int(model.eq_objtype[equality]) == int(import_mujoco().mjtObj.mjOBJ_SITE):
        poses = [pose_from_wxyz(model.site_pos[site], model.site_quat[site]) for site in (first, second)]
        first, second = (int(model.site_bodyid[site]) for site in (first, second))
    elif weld:
        poses = [pose_from_wxyz(data[3:6], data[6:10]), translation(data[:3])]
    else:
        poses = [translation(data[at : at + 3]) for at in (0, 3)]
    # A body is coupled to the world by its own articulation, whichever articulation has the world for its root.
    if not _is_read(source, equality, place, [body in members.bodies for body in (first, second) if body]):
        return
    ends = [_end(source, members, body, pose) for body, pose in zip((first, second), poses, strict=True)]
    if ends[1][0] is None:
        ends.reverse()
    (link_a, pose_a), (link_b, pose_b) = ends
    if link_b is None or link_a == link_b:
        source.report.warning(
            place, "it connects bodies that cannot move relative to each other; not read", "remove it"
        )
        return
    holds_rotation = weld and data[10] != 0.0  # A weld whose torquescale is 0 leaves the rotation free.
    kind = LoopJointType.FIXED if holds_rotation else LoopJointType.SPHERICAL
    name = source.name("eq", equality) or f"equality{equality}"
    builder.add_loop_joint(LoopJoint(name=name, link_a=link_a, link_b=link_b, pose_a=pose_a, pose_b=pose_b, type=kind))


def _end(source: MjcfSource, members: Members, body: int, pose: np.ndarray) -> tuple[str | None, np.ndarray]:
    """The link of a body, ``None`` for the world, and a pose given in the body's frame expressed in the link's."""
    if body == 0:
        return None, pose
    place = members.places[source.names.bodies[body]]
    return place.link, compose(place.pose, pose)
