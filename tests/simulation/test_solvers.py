"""Solvers of rooms above are found by name, also where nothing has imported them yet."""

import subprocess
import sys
import warnings

import jax
import numpy as np
import pytest

import artix
from artix import physx
from artix.physx.solver.friction_anchors import FrictionAnchors
from artix.simulation.common import options as module

ALONE = """
import sys
from artix.model import ArticulationBuilder, neutral_state
from artix.simulation import SolverOptions, step

builder = ArticulationBuilder()
builder.add_link(mass=1.0, inertia=(0.1, 0.1, 0.1))
ball = builder.build()
assert "artix.physx" not in sys.modules
print(*step(ball, neutral_state(ball), None, 0.01, SolverOptions(solver="tgs")).root_velocity.tolist())
"""


@pytest.mark.slow
def test_the_room_of_steps_alone_finds_them():
    ran = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True)
    velocity = np.array(ran.stdout.split(), float)
    np.testing.assert_allclose(velocity, [0, 0, -0.0981, 0, 0, 0], rtol=1e-6)


def test_a_step_with_a_registered_solver_calls_it(monkeypatch):
    """Its check sees the ground before the step is traced, and its memory is carried along."""
    # Its name keeps other tests from the programs that are cached here.
    builder = artix.ArticulationBuilder(name="stepped by a solver that stays")
    builder.add_link(mass=1.0, inertia=(0.1, 0.1, 0.1), name="ball")
    builder.add_geometry("ball", artix.Geometry.sphere(0.1))
    ball, ground, calls = builder.build(), artix.Ground.flat(), []

    class Still:
        memory = FrictionAnchors

        def check(self, articulation, ground, options):
            calls.append(("check", options.solver))

        def step(self, articulation, state, memory, control, dt, options, ground):
            calls.append(("step", ground is not None))
            return state, memory, None

    monkeypatch.setitem(module._solvers, "pgs", Still())
    state = artix.neutral_state(ball)
    scene, options = artix.Scene(ball, ground=ground), artix.SolverOptions(solver="pgs")
    state = artix.remember_contacts(scene, state, options=options)
    with artix.use_kernels(False), jax.disable_jit():
        end = artix.step(scene, state, None, 0.01, options)
    assert calls[0] == ("check", "pgs")
    assert ("step", True) in calls[1:]
    jax.tree.map(np.testing.assert_array_equal, end, state)


def test_options_that_a_solver_does_not_use_are_warned_of():
    """Else more sweeps of a solver without sweeps, or a tolerance of one without any, seem to
    help."""
    for solver, options in (
        ("implicit", {"position_iterations": 50}),
        ("implicit", {"velocity_iterations": 0, "contact_distance": 0.1}),
        ("pgs", {"tolerance": 1e-9}),
        ("tgs", {"max_ground_contacts": 4, "max_newton_steps": 8}),
        ("rk4", {"drive_limits_are_forces": False}),
    ):
        with pytest.warns(UserWarning, match=rf"ha(s|ve) no effect with solver='{solver}'") as seen:
            artix.SolverOptions(solver=solver, **options)
        assert all(name in str(seen[0].message) for name in options)
        assert seen[0].filename == __file__
    simulation = physx.create_simulation(
        artix.robots.load("cart_pole"), options=artix.SolverOptions()
    )
    with pytest.warns(UserWarning, match="position_iterations has no effect"):
        physx.set_solver_iteration_counts(simulation, 8)


def test_options_that_a_solver_uses_are_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for solver in ("implicit", "pgs", "tgs", "rk4"):
            artix.SolverOptions(solver=solver)
        artix.SolverOptions(solver="tgs", position_iterations=16, contact_distance=0.1)
        artix.SolverOptions(max_ground_contacts=4, tolerance=1e-9, max_separation_speed=1.0)
