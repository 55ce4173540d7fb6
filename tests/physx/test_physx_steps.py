"""Steps against those recorded from the PhysX SDK 5.6.1 (``tests/data/physx/README.md``).

The tolerance is a few times PhysX's own float32 rounding, which the recorder measured run by run.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import Control, SolverOptions, State
from tests.support import physx_mechanisms as physx

#: Solver, position and velocity iterations, external forces every iteration.
RUNS = {
    "pgs": ("pgs", 32, 1, False),
    "tgs": ("tgs", 32, 1, False),
    "tgsx": ("tgs", 32, 1, True),
    "tgs_v0": ("tgs", 32, 0, False),
    "pgs_i4": ("pgs", 4, 1, False),
    "tgs_i4": ("tgs", 4, 1, False),
}
EVERY_RUN = [(name, run) for name in physx.NAMES for run in physx.specification(name)["runs"]]
EVERYDAY = {("a_pendulum2", "tgsx"), ("h_spatial_tendon_limits", "pgs")}
#: Beside one run of every mechanism by PGS.
SLOW = {("e_combo", "tgs_i4"), ("f_mimic_mixed", "pgs_i4"), ("g_fixed_tendon_branch", "tgs")}


def mark_of(name: str, run: str) -> tuple:
    """A few runs every day, one of every mechanism with the slow tests, all others with the
    exhaustive ones."""
    if (name, run) in EVERYDAY:
        return ()
    return (pytest.mark.slow if run == "pgs" or (name, run) in SLOW else pytest.mark.exhaustive,)


#: A spherical joint with two free axes, and one with one free axis on a turning parent: they drift,
#: and PhysX remembers it.
DRIFTS = ("d_universal", "d_mixed_floating")
#: Their first state violates a hard relation by 0.02, and the correction of that dwarfs everything
#: else.
STARTS_OFF_A_CONSTRAINT = ("f_mimic_hard", "f_mimic_mixed")


def options_of(name: str, run: str) -> SolverOptions:
    solver, position, velocity, every = RUNS[run]
    return SolverOptions(
        solver=solver,
        position_iterations=position,
        velocity_iterations=velocity,
        external_forces_every_iteration=every,
        drive_limits_are_forces=physx.specification(name)["drive_limits_are_forces"],
    )


@functools.partial(jax.jit, static_argnames="options")
def _steps(articulation, states, drifts, controls, dt, options):
    """States, drifts (``None`` if there are none to keep), reports and poses of the links a step
    later."""

    def one(state, drift, control):
        if drift is None:
            end, report = artix.step_and_report(articulation, state, control, dt, options)
            return end, None, report, artix.frame_pose(articulation, end)
        end, drift, report = artix.step_with_joint_drift(
            articulation, state, drift, control, dt, options
        )
        return (
            end,
            drift,
            report,
            artix.frame_pose(artix.with_joint_drift(articulation, drift), end),
        )

    return jax.vmap(one)(states, drifts, controls)


def _controls(name: str, force, wrench) -> Control:
    """Joint forces [4, n] and wrenches [4, 6] on the last link."""
    links = len(physx.specification(name)["links"])
    external = jnp.zeros((4, links, 6)).at[:, -1].set(jnp.asarray(wrench))
    return Control(joint_force=jnp.asarray(force), external_force=external)


def _no_drifts(name: str) -> jax.Array | None:
    """Drifts [4, L, 3] to begin with, of the mechanisms that have any."""
    return jnp.zeros((4, len(physx.specification(name)["links"]), 3)) if name in DRIFTS else None


def _check_one_step(name: str, run: str) -> None:
    """Every array of ``s1_*`` from the four recorded states."""
    solver, data = physx.specification(name)["s1_runs"].index(run), physx.recorded_steps(name)
    forces = physx.recorded(name)["in_tau"]
    controls = _controls(name, forces, np.zeros((4, 6)))
    dt = jnp.asarray(1e-3)
    articulation, options = physx.build(name), options_of(name, run)
    end, _, report, poses = _steps(
        articulation, physx.states(name), _no_drifts(name), controls, dt, options
    )
    first = 1 if name in STARTS_OFF_A_CONSTRAINT else 0
    found = {
        "q": end.joint_position,
        "qd": end.joint_velocity,
        "qdd": report.joint_acceleration,
        "link_velocity": report.link_velocity,
        "link_acceleration": report.link_acceleration,
        "incoming_joint_force": report.incoming_joint_force,
    }
    bounds = physx.law_errors(name)["s1"][run]
    assert set(bounds) == set(found)
    assert {key for key in data if key.startswith("s1_")} == {
        f"s1_{key}" for key in (*found, "link_pose")
    }
    errors = {
        key: physx.error(value[first:], data[f"s1_{key}"][solver, first:])
        for key, value in found.items()
    }
    assert {
        key: value for key, value in errors.items() if not value <= 3 * bounds[key] + 1e-6
    } == {}
    wanted = data["s1_link_pose"][solver]
    same = np.sign(np.sum(wanted[..., 3:] * poses[..., 3:], axis=-1, keepdims=True))
    wanted = np.concatenate([wanted[..., :3], wanted[..., 3:] * same], axis=-1)
    assert physx.error(poses, wanted) < 2e-6


def _check_trajectory(name: str, run: str) -> None:
    """Positions after 1, 10 and the last steps of a run and, of a PGS run, of the loaded ones as
    well."""
    spec, data = physx.specification(name), physx.recorded_steps(name)
    loaded = spec["loaded_runs"] if run == "pgs" else []
    lanes = [("tr", spec["runs"].index(run), 0), *(("ld", k, 1 + k) for k in range(len(loaded)))]
    state, drift = physx.states(name), _no_drifts(name)
    n = len(spec["dof_names"])
    force, wrench = np.zeros((4, n)), np.zeros((4, 6))
    if loaded:
        assert loaded == ["pgs_tau", "pgs_wrench"]
        force[1], wrench[2] = data["ld_tau"], data["ld_wrench"]
    articulation = physx.build(name)
    controls, dt, options = (
        _controls(name, force, wrench),
        jnp.asarray(1 / 240),
        options_of(name, run),
    )
    found: dict[int, State] = {}
    for number in range(1, 101):
        state, drift, *_ = _steps(articulation, state, drift, controls, dt, options)
        if number in (1, 10, 40, 100):
            found[number] = jax.tree.map(np.asarray, state)
    for kind, index, lane in lanes:
        law = physx.law_errors(name)["steps"][run if kind == "tr" else loaded[index]]
        bounds = 3 * np.array(law) + 2e-7
        for place, number in enumerate((1, 10, 100 if kind == "tr" else 40), start=1):
            at = found[number]
            error = np.max(np.abs(at.joint_position[lane] - data[f"{kind}_q"][index, place]))
            if not spec["fixed_base"]:
                root = data[f"{kind}_root_pose"][index, place]
                error = max(error, np.max(np.abs(at.root_pose[lane, :3] - root[:3])))
            assert error <= bounds[place - 1], (kind, number, error)


@pytest.mark.parametrize(
    ("name", "run"),
    [
        pytest.param(name, run, marks=mark_of(name, run), id=f"{name}-{run}")
        for name, run in EVERY_RUN
    ],
)
def test_recorded_steps(name: str, run: str) -> None:
    if run in physx.specification(name)["s1_runs"]:
        _check_one_step(name, run)
    _check_trajectory(name, run)


#: Differences between the implicit solver and PhysX's PGS after 100 steps that are no rounding, and
#: why.
IMPLICIT_DIFFERS = {
    "d_disable_gravity": 3e-2,  # It tumbles; the error of a step itself is 2e-2 there.
    "e_combo": 3e-4,  # PhysX softens acceleration drives by the constraint-force mixing.
    # Coriolis forces act at the middle of steps in which links turn further than 0.001 rad if a
    # joint is not damped, and not at their start. Small steps are as far from either.
    "e_drive_envelope": 4e-2,
    "f_mimic_hard": 7e-3,
    "e_drive_spherical": 3e-4,  # PhysX's rows contain velocity products.
    "e_floating_pd": 1e-3,  # PhysX keeps the magnitude of the angular momentum, the implicit solver its direction too.
    "e_limits_spherical": 1e-4,  # PhysX softens limits by the constraint-force mixing.
    "e_prismatic": 3e-3,  # PhysX's rows contain velocity products, and positions are clipped.
    "g_fixed_tendon_limits": 1e-2,  # PhysX's limit springs are explicit.
}
#: PhysX's compliant mimic joints are nearly hard, and its explicit limit springs excite a chaotic
#: tendon.
NOT_COMPARED = ("f_mimic_compliant", "f_mimic_mixed", "h_spatial_tendon_limits")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=pytest.mark.slow
            if name in ("e_drive_envelope", "f_mimic_hard")
            else pytest.mark.exhaustive,
        )
        for name in physx.NAMES
        if name not in NOT_COMPARED
    ],
)
def test_the_implicit_solver_is_textbook_mechanics(name: str) -> None:
    """It is as far from PhysX as the recorder's own textbook integration, or as near as rounding
    where that has none."""
    spec, data = physx.specification(name), physx.recorded_steps(name)
    options = SolverOptions(
        position_iterations=16, drive_limits_are_forces=spec["drive_limits_are_forces"]
    )
    controls = _controls(name, np.zeros((4, len(spec["dof_names"]))), np.zeros((4, 6)))
    state, articulation = physx.states(name), physx.build(name)
    errors, law = [], physx.law_errors(name)
    for number in range(1, 101):
        state, *_ = _steps(articulation, state, None, controls, jnp.asarray(1 / 240), options)
        if number in (1, 10, 100):
            place, run = len(errors) + 1, spec["runs"].index("pgs")
            error = np.max(np.abs(state.joint_position[0] - data["tr_q"][run, place]))
            if not spec["fixed_base"]:
                error = max(
                    error,
                    np.max(np.abs(state.root_pose[0, :3] - data["tr_root_pose"][run, place, :3])),
                )
            errors.append(error)
    bounds = (
        1.05 * np.array(law["ideal"]) + 2e-7
        if "ideal" in law
        else 3 * np.array(law["steps"]["pgs"]) + 2e-7
    )
    if not spec["fixed_base"]:
        # The implicit solver keeps the angular momentum itself, PhysX its magnitude, textbook
        # integration neither.
        bounds = np.maximum(bounds, (2e-6, 2e-5, 1e-3))
    # The recorder's deviations are the largest up to a step, these those at the step.
    bounds = np.maximum(bounds, IMPLICIT_DIFFERS.get(name, 0.0))
    assert np.all(np.array(errors) <= bounds), (errors, bounds)
