"""Pinocchio's first derivatives in artix's tangent space, and back: the only place that converts
them.

With ``nu = T nu_pin``, ``nu' = T nu_pin' + b`` and ``tau = T^-T tau_pin``: a rotation ``w`` of the
root about the world's axes changes T by ``W T``, where W carries the cross product matrix of w in
its two root blocks, while Pinocchio holds the components of velocities, accelerations and forces in
the base's axes and artix in the world's.
"""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from tests.support.oracles import Oracle


def turns_of_root(oracle: Oracle) -> np.ndarray:
    """W_k for a unit displacement along each entry of ``nu``, [nv, nv, nv]."""
    nv = oracle.model.nv
    turns = np.zeros((nv, nv, nv))
    if not oracle.fixed_base:
        for k in range(3):
            turns[3 + k, :3, :3] = turns[3 + k, 3:6, 3:6] = pin.skew(np.eye(3)[k])
    return turns


def drift_by_velocity(oracle: Oracle, nu: np.ndarray) -> np.ndarray:
    """db/dnu: the root's b is the cross product of its angular and linear velocity in world
    axes."""
    matrix = np.zeros((oracle.model.nv,) * 2)
    if not oracle.fixed_base:
        matrix[:3, :3], matrix[:3, 3:6] = pin.skew(nu[3:6]), -pin.skew(nu[:3])
    return matrix


def symmetric(matrix: np.ndarray) -> np.ndarray:
    """A symmetric matrix from its upper triangle."""
    upper = np.triu(matrix)
    return upper + np.triu(upper, 1).T


def pinocchio_rnea_derivatives(oracle: Oracle, acceleration) -> tuple[np.ndarray, ...]:
    """Pinocchio's derivatives in its own convention, at artix's acceleration."""
    rate = np.linalg.solve(
        oracle.twist_map, np.asarray(acceleration, float) - oracle.twist_map_drift
    )
    data = oracle.model.createData()
    pin.computeRNEADerivatives(oracle.model, data, oracle.q, oracle.v, rate)
    mass = symmetric(pin.crba(oracle.model, oracle.model.createData(), oracle.q))
    return data.dtau_dq.copy(), data.dtau_dv.copy(), mass


def inverse_dynamics_derivatives(oracle: Oracle, acceleration) -> tuple[np.ndarray, ...]:
    """Derivatives by configuration, velocity and acceleration, [nv, nv] each."""
    by_q, by_v, mass = pinocchio_rnea_derivatives(oracle, acceleration)
    forward, backward = oracle.twist_map, np.linalg.inv(oracle.twist_map)
    nu, rest = forward @ oracle.v, np.asarray(acceleration, float) - oracle.twist_map_drift
    data = oracle.model.createData()
    force = backward.T @ pin.rnea(oracle.model, data, oracle.q, oracle.v, backward @ rest)
    by_configuration = backward.T @ by_q @ backward
    for k, turn in enumerate(turns_of_root(oracle)):
        held = by_v @ backward @ turn @ nu + mass @ backward @ turn @ rest
        by_configuration[:, k] += turn @ force - backward.T @ held
    by_velocity = backward.T @ (by_v @ backward - mass @ backward @ drift_by_velocity(oracle, nu))
    return by_configuration, by_velocity, backward.T @ mass @ backward


def to_pinocchio(oracle: Oracle, found, force, acceleration) -> tuple[np.ndarray, ...]:
    """The inverse: Pinocchio's derivatives from artix's derivatives and forces alone."""
    by_configuration, by_velocity, matrix = (np.asarray(x, float) for x in found)
    forward = oracle.twist_map
    nu, rest = forward @ oracle.v, np.asarray(acceleration, float) - oracle.twist_map_drift
    # Held in the base's axes, velocities, accelerations and forces turn with the base.
    by_q = by_configuration.copy()
    drift = drift_by_velocity(oracle, nu)
    for k, turn in enumerate(turns_of_root(oracle)):
        turned = turn @ rest + drift @ turn @ nu
        by_q[:, k] += by_velocity @ turn @ nu + matrix @ turned - turn @ np.asarray(force, float)
    by_v = by_velocity + matrix @ drift
    return tuple(forward.T @ x @ forward for x in (by_q, by_v, matrix))


def forward_dynamics_derivatives(oracle: Oracle, force) -> tuple[np.ndarray, ...]:
    """Derivatives by configuration, velocity and forces, [nv, nv] each."""
    forward, backward = oracle.twist_map, np.linalg.inv(oracle.twist_map)
    force, nu = np.asarray(force, float), forward @ oracle.v
    data = oracle.model.createData()
    pin.computeABADerivatives(oracle.model, data, oracle.q, oracle.v, forward.T @ force)
    by_q, by_v, inverse = data.ddq_dq.copy(), data.ddq_dv.copy(), symmetric(data.Minv)
    rest = forward @ data.ddq.copy()
    by_configuration = forward @ by_q @ backward
    for k, turn in enumerate(turns_of_root(oracle)):
        held = by_v @ backward @ turn @ nu + inverse @ forward.T @ turn @ force
        by_configuration[:, k] += turn @ rest - forward @ held
    by_velocity = forward @ by_v @ backward + drift_by_velocity(oracle, nu)
    return by_configuration, by_velocity, forward @ inverse @ forward.T


def differences(function, state_of, count: int, step: float = 1e-3) -> np.ndarray:
    """Derivatives of a function of a state along ``state_of(k, h)``, by fourth-order differences;
    last axis k."""
    columns = []
    for k in range(count):
        values = {h: np.asarray(function(state_of(k, h * step))) for h in (-2, -1, 1, 2)}
        columns.append((8 * (values[1] - values[-1]) - (values[2] - values[-2])) / (12 * step))
    return np.stack(columns, axis=-1)
