"""Checks a whole MJCF model for features that an articulation does not have."""

from __future__ import annotations

import numpy as np

from artix.io.mjcf.actuators import check_transmissions
from artix.io.mjcf.couplings import check_equalities
from artix.io.mjcf.source import MjcfPlace, MjcfSource


def check_world(source: MjcfSource) -> None:
    """Reports features of the whole model that an articulation cannot represent or does not need."""
    model, place = source.model, MjcfPlace("<mujoco>")
    if model.opt.density > 0.0 or model.opt.viscosity > 0.0:
        source.report_unsupported(
            "fluid", MjcfPlace("<option>"), "its density and viscosity: artix has no fluid forces"
        )
    if model.nflex:
        source.report_unsupported("flex", place, f"{model.nflex} flexible bodies: artix has rigid links only")
    if source.disables("CONTACT"):
        message = "its <flag> disables contacts; artix reads shapes all the same"
        source.report.warning(MjcfPlace("<option>"), message, "nothing; without a ground and pairs nothing touches")
    if np.any(model.body_plugin >= 0):
        source.report_unsupported("flex", place, "plugins that act on bodies")
    for body in np.flatnonzero(model.body_mocapid >= 0):
        source.report.warning(source.place("body", int(body)), "a mocap body is read as a fixed one", "nothing")
    check_transmissions(source)
    check_equalities(source)
    if model.nkey:
        message = f"{model.nkey} keyframes are states, which an articulation does not contain"
        source.report.warning(MjcfPlace("<keyframe>"), message, "convert their qpos with MujocoCoordinates")
