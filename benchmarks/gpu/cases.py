"""Functions of robots, batched, in artix and its peers, and the shapes of their arguments."""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import artix

ROBOTS = ("arm7", "quadruped", "humanoid")
#: The most important first.
FUNCTIONS = (
    "step",
    "step on the ground",
    "step of 8 substeps",
    "forward dynamics",
    "inverse dynamics",
    "mass matrix",
    "link poses",
    "gradient of forward dynamics",
    "gradient of ten steps",
    "forward dynamics derivatives",
)
STEP = 1 / 120


class Case(NamedTuple):
    """A function of batches, and a function that makes its arguments from a key."""

    function: Callable[..., Any]
    make: Callable[[jax.Array], tuple[Any, ...]]

    @property
    def types(self) -> Any:
        """Shapes and dtypes of the arguments."""
        return jax.eval_shape(self.make, jax.random.key(0))


def cases(library: str, robot: str, batch: int) -> dict[str, Case]:
    """The functions that a library offers, for one of artix's robots.

    Raises:
      ImportError: the library is not installed.
    """
    return _LIBRARIES[library](robot, batch)


def _artix(robot: str, batch: int) -> dict[str, Case]:
    body = artix.robots.load(robot)
    count = body.topology.num_dofs
    gains = {"stiffness": jnp.full(count, 30.0, jnp.float32), "damping": jnp.full(count, 1.0, jnp.float32)}
    driven = body.replace(drive=body.drive.replace(**gains))

    def make(key: jax.Array) -> tuple[Any, ...]:
        first, second = jax.random.split(key)
        state = jax.vmap(lambda k: artix.random_state(body, k))(jax.random.split(first, batch))
        return state, jax.random.normal(second, (batch, body.topology.nv), jnp.float32)

    def accelerations(q: jax.Array, state: artix.State, force: jax.Array) -> jax.Array:
        return artix.forward_dynamics(body, state.replace(joint_position=q), force).sum()

    def distance(velocity: jax.Array, state: artix.State) -> jax.Array:
        start = state.replace(joint_velocity=velocity)
        return jnp.sum(artix.rollout(driven, start, None, STEP, num_steps=10).joint_position[-1] ** 2)

    functions: dict[str, Callable[..., Any]] = {
        "step": lambda s, x: artix.step(driven, s, None, STEP),
        "step on the ground": lambda s, x: artix.step(artix.Scene(driven, ground=artix.Ground.flat()), s, None, STEP),
        "step of 8 substeps": lambda s, x: artix.step(driven, s, None, STEP, artix.SolverOptions(substeps=8)),
        "forward dynamics": lambda s, x: artix.forward_dynamics(body, s, x),
        "inverse dynamics": lambda s, x: artix.inverse_dynamics(body, s, x),
        "mass matrix": lambda s, x: artix.mass_matrix(body, s),
        "link poses": lambda s, x: artix.frame_pose(body, s),
        "gradient of forward dynamics": lambda s, x: jax.grad(accelerations)(s.joint_position, s, x),
        "gradient of ten steps": lambda s, x: jax.grad(distance)(s.joint_velocity, s),
        "forward dynamics derivatives": lambda s, x: artix.forward_dynamics_derivatives(body, s, x),
    }
    return {name: Case(jax.vmap(function), make) for name, function in functions.items()}


def _configurations(robot: str, batch: int) -> Callable[[jax.Array], tuple[Any, ...]]:
    """Arrays q, v and a in MuJoCo's coordinates."""
    tree = artix.robots.load(robot).topology
    floating = not tree.fixed_base

    def make(key: jax.Array) -> tuple[Any, ...]:
        keys = jax.random.split(key, 3)
        q = 0.3 * jax.random.normal(keys[0], (batch, tree.nv + floating), jnp.float32)
        if floating:
            q = q.at[:, 3:7].set(jnp.array([1.0, 0.0, 0.0, 0.0]))
        return q, *(jax.random.normal(k, (batch, tree.nv), jnp.float32) for k in keys[1:])

    return make


def _with_gradient(functions: dict[str, Callable[..., Any]], forward: Any, robot: str, batch: int) -> dict[str, Case]:
    total: Any = jax.grad(lambda q, v, a: forward(q, v, a).sum())
    functions = functions | {"gradient of forward dynamics": total}
    make = _configurations(robot, batch)
    return {name: Case(jax.vmap(function), make) for name, function in functions.items()}


def _frax(robot: str, batch: int) -> dict[str, Case]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends another JAX
        from frax.core.robot import Robot
    floating = not artix.robots.load(robot).topology.fixed_base
    body = Robot(str(artix.robots.path(robot)), floating_base="quaternion" if floating else None)
    gravity = np.array([0, 0, 9.81, 0, 0, 0], np.float32)
    functions: dict[str, Callable[..., Any]] = {
        "forward dynamics": lambda q, v, a: body.forward_dynamics(q, v, a, None),
        "inverse dynamics": lambda q, v, a: body.rnea(q, v, a, jnp.asarray(gravity), None),
        "mass matrix": lambda q, v, a: body.mass_matrix(q),
        "link poses": lambda q, v, a: body.joint_to_world_transforms(q),
    }
    return _with_gradient(functions, functions["forward dynamics"], robot, batch)


def _mujoco(robot: str) -> Any:
    """MuJoCo's model of the robot without contacts and constraints."""
    import mujoco

    spec = mujoco.MjSpec.from_file(str(artix.robots.path(robot)))
    spec.compiler.discardvisual = True
    if not artix.robots.load(robot).topology.fixed_base:
        spec.compiler.fusestatic = False
        spec.worldbody.first_body().add_freejoint()
    model = spec.compile()
    model.opt.disableflags = int(mujoco.mjtDisableBit.mjDSBL_CONTACT) | int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    model.opt.timestep = STEP
    return model


def _mjx(robot: str, batch: int, implementation: str = "jax") -> dict[str, Case]:
    from mujoco import mjx

    if implementation == "warp":
        importlib.import_module("warp")  # MJX itself raises no ImportError
    described = _mujoco(robot)
    model, data = mjx.put_model(described, impl=implementation), mjx.make_data(described, impl=implementation)

    def stepped(q: jax.Array, v: jax.Array, a: jax.Array) -> tuple[jax.Array, jax.Array]:
        end = mjx.step(model, data.replace(qpos=q, qvel=v))
        return end.qpos, end.qvel

    def forward(q: jax.Array, v: jax.Array, a: jax.Array) -> jax.Array:
        return mjx.forward(model, data.replace(qpos=q, qvel=v, qfrc_applied=a)).qacc

    if implementation != "jax":  # it has these alone, and no derivatives
        make = _configurations(robot, batch)
        return {"step": Case(jax.vmap(stepped), make), "forward dynamics": Case(jax.vmap(forward), make)}

    def placed(q: jax.Array, **fields: jax.Array) -> Any:
        return mjx.com_pos(model, mjx.kinematics(model, data.replace(qpos=q, **fields)))

    def inverse(q: jax.Array, v: jax.Array, a: jax.Array) -> jax.Array:
        return mjx.rne(model, mjx.com_vel(model, placed(q, qvel=v, qacc=a)), flg_acc=True).qfrc_bias

    def poses(q: jax.Array, v: jax.Array, a: jax.Array) -> tuple[jax.Array, jax.Array]:
        found = mjx.kinematics(model, data.replace(qpos=q))
        return found.xpos, found.xquat

    functions: dict[str, Callable[..., Any]] = {
        "step": stepped,
        "forward dynamics": forward,
        "inverse dynamics": inverse,
        "mass matrix": lambda q, v, a: mjx.full_m(model, mjx.crb(model, placed(q))),
        "link poses": poses,
    }
    return _with_gradient(functions, forward, robot, batch)


_LIBRARIES: dict[str, Callable[[str, int], dict[str, Case]]] = {
    "artix": _artix,
    "frax": _frax,
    "mjx": _mjx,
    "mjx-warp": functools.partial(_mjx, implementation="warp"),
}
LIBRARIES = tuple(_LIBRARIES)
