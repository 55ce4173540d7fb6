"""Solvers of rooms above are found by name, also where nothing has imported them yet."""

import subprocess
import sys

import jax
import numpy as np

import artix
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
