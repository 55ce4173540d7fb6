"""Identities between quantities that come from different algorithms, checked in float64 on the numbers of a fleet."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

import artix


@dataclasses.dataclass(frozen=True)
class Identity:
    """One identity and how well it held.

    Attributes:
      name: the identity in words.
      formula: the identity in symbols.
      value: the worst residual over all members, relative to the largest entries (or another number, see
        ``lower``).
      bound: upper bound of ``value``.
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
    double = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), values)
    nu, nu_rate = _velocity(fleet, state), _double(acceleration)
    base = fleet.nv - fleet.num_dofs
    bound = 256 * float(np.finfo(fleet.dtype).eps)
    mass, inertia = _parameters(fleet, "link_mass", fleet.num_links), double["mass matrix"]
    links = double["link poses, velocities"]
    moving = links.velocity if base else links.velocity[:, 1:]  # a fixed base has no rows in the dense Jacobian
    kinetic = double["kinetic, potential energy"][0]
    matrix, matrix_bias = double["centroidal matrix, bias"]
    gravity, coriolis, bias = (double[k] for k in ("gravity compensation", "Coriolis compensation", "bias force"))
    armature = np.pad(_parameters(fleet, "armature", fleet.num_dofs), ((0, 0), (base, 0)))
    jacobian_nu = _times(double["dense Jacobian"], nu).reshape(moving.shape)
    momentum = double["centroidal momentum"]
    twice_energy = np.sum(nu * _times(inertia, nu), axis=1)
    force = _times(inertia, nu_rate) + armature * nu_rate + coriolis + gravity
    link_momentum = np.sum(mass[:, :, None] * links.velocity[:, :, :3], axis=1)
    floating = np.array([not topology.fixed_base for topology in fleet.topologies])
    root_force = (double["inverse dynamics"] - gravity)[floating, :3]
    momentum_rate = (_times(matrix, nu_rate) + matrix_bias)[floating, :3]

    order = list(dict.fromkeys(fleet.topologies))
    kinds = np.array([order.index(topology) for topology in fleet.topologies])

    def close(name: str, formula: str, left: np.ndarray, right: np.ndarray, rows: Any = slice(None)) -> Identity:
        return Identity(name, formula, _residual(left, right, kinds[rows]), bound)

    slope = double["gradient of the potential"]
    length = np.linalg.norm(links.pose[:, :, 3:], axis=2)
    sizes = np.array([topology.num_links for topology in fleet.topologies])
    unit = 1.0 * (np.arange(length.shape[1]) < sizes[:, None])  # padded links have the quaternion zero
    return [
        close("quaternions have length one", "|quaternion| = 1", length, unit),
        close("Jacobian gives the link velocities", "J ν = v", jacobian_nu, moving),
        close("mass matrix gives the kinetic energy", "½ ν·Mν = T", twice_energy / 2, kinetic),
        close("mass matrix is symmetric", "M = Mᵀ", inertia, np.swapaxes(inertia, 1, 2)),
        Identity("mass matrix is positive definite", "λ(M scaled) > 0", _smallest_eigenvalue(inertia), 0.0, lower=True),
        close("bias force is gravity and Coriolis", "b = g + c", bias, gravity + coriolis),
        close("inverse dynamics adds up", "τ = (M + armature) ν' + c + g", double["inverse dynamics"], force),
        close("gravity is the slope of potential energy", "g = ∂V/∂q", gravity[:, base:], slope),
        close("centroidal matrix gives the momentum", "A ν = h", _times(matrix, nu), momentum),
        close("links sum to the momentum", "Σ m v = h", link_momentum, momentum[:, :3]),
        close("force on a floating root moves all", "Σ F = A ν' + bias", root_force, momentum_rate, floating),
    ]


def _parameters(fleet: artix.Fleet, name: str, width: int) -> np.ndarray:
    """A parameter of every member, with zeros for what it lacks, [N, width]."""
    rows = [_double(getattr(fleet.member(k), name)) for k in range(len(fleet))]
    return np.stack([np.pad(row, (0, width - len(row))) for row in rows])


def _double(value: Any) -> np.ndarray:
    return np.asarray(value, np.float64)


def _velocity(fleet: artix.Fleet, state: artix.State) -> np.ndarray:
    parts = [state.root_velocity] if fleet.nv > fleet.num_dofs else []
    return np.concatenate([_double(part) for part in [*parts, state.joint_velocity]], axis=1)


def _times(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return np.matmul(matrix, vector[:, :, None])[:, :, 0]


def _residual(left: np.ndarray, right: np.ndarray, kinds: np.ndarray) -> float:
    """The largest relative difference of all members, relative to the member's largest entry or to its kind's mean.

    The mean of the kind serves where a member's own entries happen to cancel.
    """
    members = len(left)
    if not members:
        return 0.0
    left, right = left.reshape(members, -1), right.reshape(members, -1)
    scale = np.maximum(np.abs(left).max(axis=1), np.abs(right).max(axis=1))
    typical = np.bincount(kinds, weights=scale) / np.maximum(np.bincount(kinds), 1)
    scale = np.maximum(scale, typical[kinds])
    difference = np.abs(left - right).max(axis=1)
    return float(np.max(difference / np.where(scale == 0, 1.0, scale)))


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
