"""Identities between quantities that come from different algorithms, checked in float64 on the numbers of a fleet."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import artix


@dataclasses.dataclass(frozen=True)
class Identity:
    """One identity and how well it held.

    Attributes:
      name: what it says in words.
      formula: what it says in symbols.
      value: the worst residual over all members, relative to the largest entry of either side (or another number, see
        ``lower``).
      bound: what ``value`` may not exceed.
      lower: whether ``bound`` is instead a lower bound of ``value``.
    """

    name: str
    formula: str
    value: float
    bound: float
    lower: bool = False

    @property
    def holds(self) -> bool:
        """Whether the value respects the bound; never true for a NaN."""
        return self.value > self.bound if self.lower else self.value <= self.bound

    @property
    def condition(self) -> str:
        """The bound in words."""
        return f"> {self.bound:g}" if self.lower else f"<= {self.bound:.1e}"


def verified_identities(
    fleet: artix.Fleet, state: artix.State, acceleration: Any, values: dict[str, Any]
) -> list[Identity]:
    """Checks the identities that tie the demonstration's quantities together.

    Args:
      fleet: the fleet.
      state: its state.
      acceleration: generalised accelerations, shape [N, nv].
      values: the quantities by name, as evaluated.

    Returns:
      The identities with their worst residuals; rounding of the articulation's dtype bounds them.
    """
    double = {name: _double(value) for name, value in values.items()}
    articulation, nu, nu_rate = fleet.articulation, _velocity(fleet, state), _double(acceleration)
    base = articulation.topology.num_base_dofs
    bound = 256 * float(np.finfo(articulation.dtype).eps)
    mass, inertia = _double(articulation.link_mass), double["mass matrix"]
    velocities, accelerations = double["link velocities"], double["link accelerations"]
    if not base:  # the dense Jacobian of a fixed base has no rows for the root
        velocities = velocities[:, 1:]
    matrix, matrix_bias = double["centroidal matrix, bias"]
    gravity, coriolis, bias = (double[k] for k in ("gravity compensation", "Coriolis compensation", "bias force"))
    armature = np.pad(_double(articulation.armature), ((0, 0), (base, 0)))
    jacobian_nu = _times(double["dense Jacobian"], nu).reshape(velocities.shape)
    momentum = double["centroidal momentum"]
    twice_energy = np.sum(nu * _times(inertia, nu), axis=1)
    force = _times(inertia, nu_rate) + armature * nu_rate + coriolis + gravity
    link_force = np.sum(mass[:, :, None] * accelerations[:, :, :3], axis=1)
    link_momentum = np.sum(mass[:, :, None] * double["link velocities"][:, :, :3], axis=1)

    def close(name: str, formula: str, left: np.ndarray, right: np.ndarray) -> Identity:
        return Identity(name, formula, _residual(left, right), bound)

    slope = double["its gradient (jax.grad)"]
    length = np.linalg.norm(double["link poses"][:, :, 3:], axis=2)
    links = np.array([topology.num_links for topology in fleet.topologies])
    unit = 1.0 * (np.arange(length.shape[1]) < links[:, None])  # padded links have the quaternion zero
    return [
        close("quaternions have length one", "|quaternion| = 1", length, unit),
        close("Jacobian gives the link velocities", "J ν = v", jacobian_nu, velocities),
        close("mass matrix gives the kinetic energy", "½ ν·Mν = T", twice_energy / 2, double["kinetic energy"]),
        close("mass matrix is symmetric", "M = Mᵀ", inertia, np.swapaxes(inertia, 1, 2)),
        Identity("mass matrix is positive definite", "λ(M scaled) > 0", _smallest_eigenvalue(inertia), 0.0, lower=True),
        close("bias force is gravity and Coriolis", "b = g + c", bias, gravity + coriolis),
        close("inverse dynamics adds up", "τ = (M + armature) ν' + c + g", double["inverse dynamics"], force),
        close("gravity is the slope of potential energy", "g = ∂V/∂q", gravity[:, base:], slope),
        close("centroidal matrix gives the momentum", "A ν = h", _times(matrix, nu), momentum),
        close("links sum to the momentum", "Σ m v = h", link_momentum, momentum[:, :3]),
        close(
            "links sum to the change of momentum",
            "Σ m a = A ν' + bias",
            link_force,
            (_times(matrix, nu_rate) + matrix_bias)[:, :3],
        ),
    ]


def _double(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_double(part) for part in value)
    return np.asarray(value, np.float64)


def _velocity(fleet: artix.Fleet, state: artix.State) -> np.ndarray:
    parts = [state.root_velocity] if fleet.articulation.topology.num_base_dofs else []
    return np.concatenate([_double(part) for part in [*parts, state.joint_velocity]], axis=1)


def _times(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return np.matmul(matrix, vector[:, :, None])[:, :, 0]


def _residual(left: np.ndarray, right: np.ndarray) -> float:
    """The worst member's largest difference, relative to that member's largest entry on either side."""
    members = len(left)
    left, right = left.reshape(members, -1), right.reshape(members, -1)
    scale = np.maximum(np.abs(left).max(axis=1), np.abs(right).max(axis=1))
    difference = np.abs(left - right).max(axis=1)
    return float(np.max(difference / np.maximum(scale, 1e-3)))


def _smallest_eigenvalue(matrix: np.ndarray) -> float:
    """The smallest eigenvalue of all matrices scaled to a unit diagonal; padded coordinates count as one."""
    if not np.all(np.isfinite(matrix)):
        return float("nan")
    diagonal = np.diagonal(matrix, axis1=1, axis2=2)
    scale = 1 / np.sqrt(np.where(diagonal == 0, 1, np.abs(diagonal)))
    scaled = matrix * scale[:, :, None] * scale[:, None, :]
    entries = np.arange(matrix.shape[-1])
    scaled[:, entries, entries] += diagonal == 0
    return float(np.linalg.eigvalsh(scaled).min())
