"""Reads tendons of a compiled MJCF."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from artix.io.common.names import Names
from artix.io.common.poses import rotation_matrix
from artix.io.mjcf.couplings import BEYOND, Members
from artix.io.mjcf.source import MjcfSource
from artix.model.builder import ArticulationBuilder
from artix.model.tendons import Attachment, FixedTendon, SpatialTendon, TendonJoint


def add_joint_springs(
    builder: ArticulationBuilder, source: MjcfSource, members: Members, springs: Mapping[int, tuple[float, float]]
) -> None:
    """Adds springs of joints, given by their stiffness and reference position, as tendons along one joint each."""
    names = Names(_name(source, tendon) for tendon in range(source.model.ntendon))
    for joint, (stiffness, rest) in springs.items():
        name = source.names.joints[joint]
        alone = TendonJoint(dof=name, coefficient=1.0, recip_coefficient=1.0)
        root = members.parent(members.link_of_joint(name))
        builder.add_fixed_tendon(
            FixedTendon(
                name=names.new(f"{name}_spring"),
                joints=[alone],
                stiffness=stiffness,
                rest_length=rest,
                root_link=root,
            )
        )


def add_tendons(builder: ArticulationBuilder, source: MjcfSource, members: Members) -> None:
    """Adds the tendons between members that exert a force, and reports the others."""
    for tendon in range(source.model.ntendon):
        path = source.tendon_path(tendon)
        inside = [
            element in members.joints if kind == "joint" else int(source.model.site_bodyid[element]) in members.bodies
            for kind, element, _ in path
            if kind in ("joint", "site")
        ]
        place, kinds = source.place("tendon", tendon), {kind for kind, _, _ in path}
        if not any(inside) or (not all(inside) and not source.first_report(place)):
            continue
        if kinds not in ({"joint"}, {"site"}):
            others = ", ".join(sorted(kinds - {"joint", "site"})) or "joint and site"
            source.report_unsupported("tendon", place, f"artix does not support this element of its path: {others}")
            continue
        numbers = _numbers(source, tendon)
        if numbers is None:
            continue
        if not all(inside):
            source.report_unsupported("tendon", place, BEYOND)
        elif kinds == {"joint"}:
            _add_fixed_tendon(builder, source, members, tendon, numbers)
        else:
            _add_spatial_tendon(builder, source, members, tendon, numbers)


def _name(source: MjcfSource, tendon: int) -> str:
    return source.name("tendon", tendon) or f"tendon{tendon}"


def _add_fixed_tendon(
    builder: ArticulationBuilder,
    source: MjcfSource,
    members: Members,
    tendon: int,
    numbers: _Numbers,
) -> None:
    """Adds a tendon along joints; joints that it skips in between become members with coefficient 0."""
    coefficient: dict[str, float] = {}
    for _, element, factor in source.tendon_path(tendon):
        link = members.link_of_joint(source.names.joints[element])
        coefficient[link] = coefficient.get(link, 0.0) + factor
    paths = [[link, *members.ancestors(link)] for link in coefficient]
    root = next(link for link in paths[0][1:] if all(link in path[1:] for path in paths))
    # The links between the root and the tendon's joints, parents first, without duplicates.
    order = list(dict.fromkeys(link for path in paths for link in reversed(path[: path.index(root)])))
    joints = []
    for link in order:
        joint = members.links[link].joint
        if joint is None or len(joint.axes) != 1:
            message = f"it passes link {link!r}, whose joint does not have exactly one degree of freedom"
            source.report_unsupported("tendon", source.place("tendon", tendon), message)
            return
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
    # PhysX divides the tension among the joints of the tendon; MuJoCo applies the full tension to each.
    gains = {gain: len(order) * getattr(numbers, gain) for gain in ("stiffness", "damping", "limit_stiffness")}
    builder.add_fixed_tendon(
        FixedTendon(name=_name(source, tendon), joints=joints, root_link=root, **(dataclasses.asdict(numbers) | gains))
    )


def _warn_of_law(source: MjcfSource, tendon: int) -> None:
    """Warns of a tendon that pulls differently by PhysX's law, which steps follow unless told otherwise."""
    message = "MuJoCo's tendons pull by virtual work, which for this one differs from PhysX's law, the default of steps"
    fix = "simulate it with SolverOptions(tendon_law='virtual_work')"
    source.report.warning(source.place("tendon", tendon), message, fix)


def _add_spatial_tendon(
    builder: ArticulationBuilder,
    source: MjcfSource,
    members: Members,
    tendon: int,
    numbers: _Numbers,
) -> None:
    """Adds a tendon with straight segments from site to site."""
    model, sites = source.model, [site for _, site, _ in source.tendon_path(tendon)]
    points = []
    for index, site in enumerate(sites):
        place = members.places[source.names.bodies[model.site_bodyid[site]]]
        leaf = index == len(sites) - 1
        points.append(
            Attachment(
                link=place.link,
                position=place.pose[:3] + rotation_matrix(place.pose[3:]) @ np.asarray(model.site_pos[site]),
                parent=index - 1,
                rest_length=numbers.rest_length if leaf else None,
                limits=numbers.limits if leaf else None,
                name=source.name("site", site) or None,
            )
        )
    if len(sites) > 2:
        _warn_of_law(source, tendon)
    builder.add_spatial_tendon(
        SpatialTendon(
            name=_name(source, tendon),
            attachments=points,
            stiffness=numbers.stiffness,
            damping=numbers.damping,
            limit_stiffness=numbers.limit_stiffness,
        )
    )


@dataclasses.dataclass(frozen=True)
class _Numbers:
    """Spring and damper of a tendon; a spring with a deadband has limits instead of a rest length."""

    stiffness: float
    damping: float
    limit_stiffness: float
    rest_length: float
    limits: tuple[float, float] | None


def _numbers(source: MjcfSource, tendon: int) -> _Numbers | None:
    """Spring and damper of a tendon; ``None`` if it exerts no force."""
    model, place = source.model, source.place("tendon", tendon)
    for field in ("frictionloss", "armature", "stiffnesspoly", "dampingpoly", "springyield"):
        if np.any(getattr(model, f"tendon_{field}", np.zeros(model.ntendon))[tendon]):
            source.report_unsupported("tendon", place, f"its {field}, which tendons of artix do not have")
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
            source.report_unsupported("limit", place, "its range, as its spring has limits of its own")
        return _Numbers(0.0, damping, stiffness, 0.0, (low, high))
    if not limited:
        return _Numbers(stiffness, damping, 0.0, low, None)
    message = "its range is kept by a spring that stretches under a load as MuJoCo's limit does"
    source.report.warning(place, message, "nothing, unless the tendon hits its limits fast")
    first, last = map(float, model.tendon_range[tendon])
    return _Numbers(stiffness, damping, _limit_stiffness(source, tendon), low, (first, last))


def _limit_stiffness(source: MjcfSource, tendon: int) -> float:
    """The load on a tendon's limit divided by how far it gives way in MuJoCo, once the impedance is at its largest.

    At rest MuJoCo's constraint with impedance d, reference stiffness k and inverse inertia A gives way by
    ``(1 - d) A / (d^2 k)`` for each newton (its documentation, "Solver parameters").
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
