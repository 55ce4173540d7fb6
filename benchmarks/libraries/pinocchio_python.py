"""Pinocchio's Python package: one call for each state, on one core, in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pinocchio

from benchmarks.libraries.base import mean_seconds, seconds_of
from benchmarks.libraries.pinocchio_results import PinocchioResults
from benchmarks.reference import JUDGED_STATES, HeldFeet, Reference
from benchmarks.robots import Robot

_AXES = pinocchio.ReferenceFrame.LOCAL_WORLD_ALIGNED


class PinocchioPython(PinocchioResults):
    """One model. Results stay in Pinocchio's data and are read only for the comparison."""

    def __init__(self, robot: Robot, reference: Reference) -> None:
        super().__init__(reference)
        model, data = reference.model, reference.data
        joints = range(1, model.njoints)

        def jacobians(q, v, a, f):
            pinocchio.computeJointJacobians(model, data, q)
            return [pinocchio.getJointJacobian(model, data, joint, _AXES) for joint in joints]

        #: what is timed, and the numbers of its result in the layout of the C++ program
        self._calls: dict[str, tuple[Callable[..., Any], Callable[[Any], list[np.ndarray]]]] = {
            "link poses": (
                lambda q, v, a, f: pinocchio.forwardKinematics(model, data, q),
                lambda result: [_pose(data.oMi[joint]) for joint in joints],
            ),
            "poses and velocities": (
                lambda q, v, a, f: pinocchio.forwardKinematics(model, data, q, v),
                lambda result: [
                    part
                    for joint in joints
                    for part in (_pose(data.oMi[joint]), data.v[joint].vector)
                ],
            ),
            "dense Jacobian": (jacobians, lambda result: [jacobian.T for jacobian in result]),
            "mass matrix": (
                lambda q, v, a, f: pinocchio.crba(model, data, q),
                lambda result: [result],
            ),
            "bias force": (
                lambda q, v, a, f: pinocchio.nonLinearEffects(model, data, q, v),
                lambda result: [result],
            ),
            "inverse dynamics": (
                lambda q, v, a, f: pinocchio.rnea(model, data, q, v, a),
                lambda result: [result],
            ),
            "forward dynamics": (
                lambda q, v, a, f: pinocchio.aba(model, data, q, v, f),
                lambda result: [result],
            ),
            "inverse dynamics derivatives": (
                lambda q, v, a, f: pinocchio.computeRNEADerivatives(model, data, q, v, a),
                lambda result: [data.dtau_dq.T, data.dtau_dv.T],
            ),
            "forward dynamics derivatives": (
                lambda q, v, a, f: pinocchio.computeABADerivatives(model, data, q, v, f),
                lambda result: [data.ddq_dq.T, data.ddq_dv.T],
            ),
        }
        if reference.feet:
            held = HeldFeet(reference)
            self._calls["constrained forward dynamics"] = (
                lambda q, v, a, f: held.accelerations(q, v, f),
                lambda result: [result],
            )
            self._calls["constrained forward dynamics derivatives"] = (
                lambda q, v, a, f: held.derivatives(q, v, f),
                lambda result: [by.T for by in result],
            )

    def program(self, quantity: str, batch: int) -> _PythonProgram:
        states = list(
            zip(
                self.q[:batch],
                self.v[:batch],
                self.acceleration[:batch],
                self.force[:batch],
                strict=True,
            )
        )
        return _PythonProgram(*self._calls[quantity], states)


class _PythonProgram:
    def __init__(
        self,
        call: Callable[..., Any],
        numbers: Callable[[Any], list[np.ndarray]],
        states: list[Any],
    ) -> None:
        self.facts: dict[str, float] = {}
        self._call, self._numbers, self._states = call, numbers, states

    def value(self) -> np.ndarray:
        return np.array(
            [
                np.concatenate([np.ravel(part) for part in self._numbers(self._call(*state))])
                for state in self._states[:JUDGED_STATES]
            ]
        )

    def seconds(self) -> float:
        def run() -> None:
            for state in self._states:
                self._call(*state)

        return mean_seconds(lambda: seconds_of(run))


def _pose(pose: Any) -> np.ndarray:
    return np.concatenate([pose.translation, pose.rotation.T.ravel()])
