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
    "step at rest",
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
#: Stiffness and damping of the joints' drives, or of their springs.
GAINS = 30.0, 1.0
#: After a second, robots that were put on the ground stand or lie there, and steps begin from the
#: contacts before.
STEPS_TO_REST = 120


class Case(NamedTuple):
    """A function of batches, and a function that makes its arguments from a key."""

    function: Callable[..., Any]
    make: Callable[[jax.Array], tuple[Any, ...]]
    repeats: int = 0
    """How often its result replaces its first argument before it is timed."""

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
    stiffness, damping = (jnp.full(count, gain, jnp.float32) for gain in GAINS)
    gains = {"stiffness": stiffness, "damping": damping}
    driven = body.replace(drive=body.drive.replace(**gains))

    def make(key: jax.Array) -> tuple[Any, ...]:
        first, second = jax.random.split(key)
        state = jax.vmap(lambda k: artix.random_state(body, k))(jax.random.split(first, batch))
        return state, jax.random.normal(second, (batch, body.topology.nv), jnp.float32)

    height = _standing_height(robot)

    def stand(key: jax.Array) -> tuple[Any, ...]:
        still = artix.neutral_state(body)
        pose = still.root_pose.astype(jnp.float32).at[2].set(height)
        batched = lambda x: jnp.broadcast_to(x.astype(jnp.float32), (batch, *x.shape))  # noqa: E731
        states = jax.tree.map(batched, still.replace(root_pose=pose))
        noise = 0.1 * jax.random.normal(key, (batch, count), jnp.float32)
        return states.replace(joint_position=noise), noise

    def accelerations(q: jax.Array, state: artix.State, force: jax.Array) -> jax.Array:
        return artix.forward_dynamics(body, state.replace(joint_position=q), force).sum()

    def distance(velocity: jax.Array, state: artix.State) -> jax.Array:
        start = state.replace(joint_velocity=velocity)
        return jnp.sum(
            artix.rollout(driven, start, None, STEP, num_steps=10).joint_position[-1] ** 2
        )

    functions: dict[str, Callable[..., Any]] = {
        "step": lambda s, x: artix.step(driven, s, None, STEP),
        "step on the ground": lambda s, x: artix.step(
            artix.Scene(driven, ground=artix.Ground.flat()), s, None, STEP
        ),
        "step of 8 substeps": lambda s, x: artix.step(
            driven, s, None, STEP, artix.SolverOptions(substeps=8)
        ),
        "forward dynamics": lambda s, x: artix.forward_dynamics(body, s, x),
        "inverse dynamics": lambda s, x: artix.inverse_dynamics(body, s, x),
        "mass matrix": lambda s, x: artix.mass_matrix(body, s),
        "link poses": lambda s, x: artix.frame_pose(body, s),
        "gradient of forward dynamics": lambda s, x: jax.grad(accelerations)(
            s.joint_position, s, x
        ),
        "gradient of ten steps": lambda s, x: jax.grad(distance)(s.joint_velocity, s),
        "forward dynamics derivatives": lambda s, x: artix.forward_dynamics_derivatives(body, s, x),
    }
    result = {name: Case(jax.vmap(function), make) for name, function in functions.items()}
    landing = result["step on the ground"]._replace(make=stand)
    return result | {
        "step on the ground": landing,
        "step at rest": landing._replace(repeats=STEPS_TO_REST),
    }


@functools.cache
def _standing_height(robot: str) -> float:
    """The height of the root at which the robot, all joints at zero, touches the ground [m]."""
    body = artix.robots.load(robot)
    if body.topology.fixed_base:
        return 0.0
    distances = artix.geometry_distances(
        artix.Scene(body, ground=artix.Ground.flat()), artix.neutral_state(body)
    )
    return -float(jnp.min(distances))


def _configurations(
    robot: str, batch: int, stands: bool = False
) -> Callable[[jax.Array], tuple[Any, ...]]:
    """Arrays q, v and a in MuJoCo's coordinates, random or standing still on the ground."""
    tree = artix.robots.load(robot).topology
    floating = not tree.fixed_base
    height = _standing_height(robot) if stands else 0.0

    def make(key: jax.Array) -> tuple[Any, ...]:
        keys = jax.random.split(key, 3)
        q = (0.1 if stands else 0.3) * jax.random.normal(
            keys[0], (batch, tree.nv + floating), jnp.float32
        )
        if floating:
            q = q.at[:, 3:7].set(jnp.array([1.0, 0.0, 0.0, 0.0]))
        if floating and stands:
            q = q.at[:, :3].set(jnp.array([0.0, 0.0, height]))
        v, a = (jax.random.normal(k, (batch, tree.nv), jnp.float32) for k in keys[1:])
        return q, 0.0 * v if stands else v, a

    return make


def _with_gradient(
    functions: dict[str, Callable[..., Any]], forward: Any, robot: str, batch: int
) -> dict[str, Case]:
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


def _mujoco(robot: str, has_ground: bool = False) -> Any:
    """MuJoCo's model of the robot: without contacts and constraints, or with springs in its joints,
    on the ground."""
    import mujoco

    spec = mujoco.MjSpec.from_file(str(artix.robots.path(robot)))
    spec.compiler.discardvisual = True
    if not artix.robots.load(robot).topology.fixed_base:
        spec.compiler.fusestatic = False
        spec.worldbody.first_body().add_freejoint()
    if has_ground:
        for geometry in spec.geoms:
            geometry.contype, geometry.conaffinity = 0, 1
        spec.worldbody.add_geom(
            type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], contype=1, conaffinity=0
        )
    model = spec.compile()
    if not has_ground:
        off = mujoco.mjtDisableBit
        model.opt.disableflags = int(off.mjDSBL_CONTACT) | int(off.mjDSBL_CONSTRAINT)
    else:
        is_driven = model.jnt_type != mujoco.mjtJoint.mjJNT_FREE
        model.jnt_stiffness[is_driven], model.dof_damping[model.jnt_dofadr[is_driven]] = GAINS
    model.opt.timestep = STEP
    return model


def _mjx(robot: str, batch: int, implementation: str = "jax") -> dict[str, Case]:
    from mujoco import mjx

    if implementation == "warp":
        importlib.import_module("warp")  # MJX itself raises no ImportError

    def put(has_ground: bool = False) -> tuple[Any, Any]:
        described = _mujoco(robot, has_ground)
        # Warp allocates contacts of all robots together, and rows of each.
        room = {"naconmax": 16 * batch, "njmax": 128} if implementation == "warp" else {}
        return mjx.put_model(described, impl=implementation), mjx.make_data(
            described, impl=implementation, **room
        )

    model, data = put()

    def on_the_ground(q: jax.Array, v: jax.Array, a: jax.Array) -> tuple[jax.Array, jax.Array]:
        with jax.ensure_compile_time_eval():
            scene, start = put(True)
        end = mjx.step(scene, start.replace(qpos=q, qvel=v))
        return end.qpos, end.qvel

    def stepped(q: jax.Array, v: jax.Array, a: jax.Array) -> tuple[jax.Array, jax.Array]:
        end = mjx.step(model, data.replace(qpos=q, qvel=v))
        return end.qpos, end.qvel

    def forward(q: jax.Array, v: jax.Array, a: jax.Array) -> jax.Array:
        return mjx.forward(model, data.replace(qpos=q, qvel=v, qfrc_applied=a)).qacc

    def resting(data: Any) -> Any:
        with jax.ensure_compile_time_eval():
            scene, _ = put(True)
        return mjx.step(scene, data)

    def start_resting(key: jax.Array) -> tuple[Any]:
        q, v, _ = stand(key)
        _, start = put(True)
        return (jax.vmap(lambda q, v: start.replace(qpos=q, qvel=v))(q, v),)

    stand = _configurations(robot, batch, stands=True)
    ground = {
        "step on the ground": Case(jax.vmap(on_the_ground), stand),
        "step at rest": Case(jax.vmap(resting), start_resting, STEPS_TO_REST),
    }
    if implementation != "jax":  # it has these alone, and no derivatives
        make = _configurations(robot, batch)
        return ground | {
            "step": Case(jax.vmap(stepped), make),
            "forward dynamics": Case(jax.vmap(forward), make),
        }

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
    return ground | _with_gradient(functions, forward, robot, batch)


_LIBRARIES: dict[str, Callable[[str, int], dict[str, Case]]] = {
    "artix": _artix,
    "frax": _frax,
    "mjx": _mjx,
    "mjx-warp": functools.partial(_mjx, implementation="warp"),
}
LIBRARIES = tuple(_LIBRARIES)
