"""Checks a whole MJCF model for features that an articulation does not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from artix.io.common.diagnostics import Location
from artix.io.common.names import listed
from artix.io.mjcf.actuators import acts_on_joint, check_transmissions
from artix.io.mjcf.bodies import BALL, geom_type, is_free
from artix.io.mjcf.contacts import ground_geoms
from artix.io.mjcf.couplings import check_equalities
from artix.io.mjcf.source import MjcfSource, import_mujoco

#: Attributes of geoms and pairs that artix's contacts do not have, with the largest values that say nothing. Contacts
#: with a ``condim`` of 1 are read as frictionless; 4 and 6 add torsional and rolling friction.
_CONTACT_PARAMETERS = {"condim": 3, "margin": 0.0, "gap": 0.0, "adhesion": 0.0, "surfacevel": 0.0}


def check_world(source: MjcfSource) -> None:
    """Reports features of the whole model that an articulation cannot represent or does not need."""
    model, place = source.model, Location("<mujoco>")
    if model.opt.density > 0.0 or model.opt.viscosity > 0.0:
        source.report_unsupported("fluid", Location("<option>"), "its density and viscosity: artix has no fluid forces")
    if model.nflex:
        source.report_unsupported("flex", place, f"{model.nflex} flexible bodies: artix has rigid links only")
    if source.disables("CONTACT"):
        message = "its <flag> disables contacts; artix reads shapes all the same"
        source.report.warning(Location("<option>"), message, "nothing; without a ground and pairs nothing touches")
    if np.any(model.body_plugin >= 0):
        source.report_unsupported("flex", place, "plugins that act on bodies")
    for body in np.flatnonzero(model.body_mocapid >= 0):
        source.report.warning(source.place("body", int(body)), "a mocap body is read as a fixed one", "nothing")
    check_transmissions(source)
    check_equalities(source)
    _check_obstacles(source)
    _check_contact_parameters(source)
    if model.nkey:
        message = f"{model.nkey} keyframes are states, which an articulation does not contain"
        source.report.note(Location("<keyframe>"), message, "convert their qpos with MujocoCoordinates")


def check_joints(source: MjcfSource, options: Mapping[int, Mapping[str, Any]]) -> None:
    """Reports joints that nothing drives, and those whose reference position is not zero.

    Args:
      source: the model.
      options: drive, limits and armature of the joints of one articulation, as for :class:`~artix.Joint`.
    """
    model, driven = source.model, _driven_joints(source)
    if options and not driven.intersection(options) and not any(one["drive"].stiffness for one in options.values()):
        lacking = ["their drives have no gains"]
        if all(np.all(np.isinf(one["max_force"])) for one in options.values()):
            lacking += ["efforts are unlimited"]
        if not any(one["armature"] for one in options.values()):
            lacking += ["armature is zero"]
        joints = "its joint" if len(options) == 1 else f"its {len(options)} joints"
        message = f"no actuator acts on {joints}: {', '.join(lacking)}"
        fix = "nothing for passive joints; else set articulation.drive, max_joint_force and armature"
        source.report.warning(Location("<actuator>"), message, fix)
    moved = [joint for joint in options if model.jnt_type[joint] != BALL and model.qpos0[model.jnt_qposadr[joint]]]
    if moved:
        names = listed(source.names.joints[joint] for joint in moved)
        message = f"the neutral state, with all joints at zero, is not MuJoCo's qpos0 (ref of {names})"
        fix = "start from MujocoCoordinates(articulation, model).state(model.qpos0, np.zeros(model.nv))"
        source.report.warning(Location("<joint>"), message, fix)


def _driven_joints(source: MjcfSource) -> set[int]:
    """The joints on which actuators act, by themselves or through tendons."""
    model, transmissions, driven = source.model, import_mujoco().mjtTrn, set[int]()
    for actuator, target in enumerate(np.asarray(model.actuator_trnid)[:, 0].tolist()):
        if acts_on_joint(source, actuator):
            driven.add(target)
        elif int(model.actuator_trntype[actuator]) == int(transmissions.mjTRN_TENDON):
            driven |= {joint for what, joint, _ in source.tendon_path(target) if what == "joint"}
    return driven


def _check_obstacles(source: MjcfSource) -> None:
    """Reports static geoms that would touch a floating articulation, but are not ground."""
    model, ground = source.model, ground_geoms(source.model)
    roots = np.asarray(model.body_rootid)[model.geom_bodyid]
    floats = np.array([is_free(model, body) for body in range(model.nbody)])[roots]
    types, affinities = (np.asarray(masks)[floats] for masks in (model.geom_contype, model.geom_conaffinity))
    types, affinities = np.bitwise_or.reduce(types), np.bitwise_or.reduce(affinities)
    static = np.asarray(model.body_weldid)[model.geom_bodyid] == 0
    touching = (np.asarray(model.geom_contype) & affinities) | (np.asarray(model.geom_conaffinity) & types)
    obstacles = [geom for geom in np.flatnonzero(static & (touching != 0)).tolist() if geom not in ground]
    if obstacles:
        kinds = ", ".join(sorted({geom_type(model, geom).lower() for geom in obstacles}))
        message = f"floating articulations do not touch the {len(obstacles)} static geoms of type {kinds}"
        fix = "nothing, unless they matter: only planes and height fields are ground"
        source.report.warning(source.place("geom", obstacles[0]), message, fix)


def _check_contact_parameters(source: MjcfSource) -> None:
    """Reports attributes of geoms and pairs that change contacts and are not read."""
    model = source.model
    collides = (np.asarray(model.geom_contype) | np.asarray(model.geom_conaffinity)) != 0
    collides[[*model.pair_geom1, *model.pair_geom2]] = True
    used = []
    for name, largest in _CONTACT_PARAMETERS.items():
        # Some of them do not exist in earlier versions of MuJoCo.
        of_geoms = np.asarray(getattr(model, f"geom_{name}", ()))
        of_pairs = np.asarray(getattr(model, f"pair_{'dim' if name == 'condim' else name}", ()))
        if (of_geoms.size and np.any(np.abs(of_geoms[collides]) > largest)) or np.any(np.abs(of_pairs) > largest):
            used.append(name)
    if used:
        message = f"{', '.join(used)} of geoms and pairs: artix's contacts do not have these, and they are not read"
        source.report.warning(Location("<contact>"), message, "nothing, unless they matter; see docs/contact.md")
