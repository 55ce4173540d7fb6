"""Grasps and stacks beside MuJoCo and Drake: ``python -m benchmarks.held_bodies``.

Each scene is described once and built for artix, MuJoCo and, if it is installed, Drake's SAP. After
two seconds in steps of 5 ms the table says how far anything has moved, how fast it still creeps,
and what a step takes. MuJoCo steps a batch by its ``rollout`` on all cores, artix by ``vmap``;
Drake steps one world. Times are processor times of all threads, the best of several turns.

MuJoCo runs with its defaults, and "stiff": elliptic cones, ``impratio`` 100, contacts with a time
constant of twice the step, and ten iterations without slip. Drake's boxes are compliant
hydroelastic bodies of 1e9 Pa.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import os
import time
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

import artix

GRAVITY, DT, STEPS = 9.81, 0.005, 400


@dataclasses.dataclass(frozen=True)
class Body:
    """A box (or a sphere, of one size): free, or on a slide along an axis and pushed by a force
    along it."""

    name: str
    size: tuple[float, ...]
    mass: float
    place: tuple[float, float, float]
    turn: float = 0.0
    """Rotation about y [rad]."""
    axis: tuple[float, float, float] | None = None
    force: float = 0.0

    @property
    def inertia(self) -> tuple[float, float, float]:
        """Principal moments."""
        if len(self.size) == 1:
            return (0.4 * self.mass * self.size[0] ** 2,) * 3
        x, y, z = (self.mass / 3 * half**2 for half in self.size)
        return y + z, x + z, x + y

    @property
    def quaternion(self) -> tuple[float, float, float, float]:
        """Of the start, xyzw."""
        return 0.0, float(np.sin(self.turn / 2)), 0.0, float(np.cos(self.turn / 2))


@dataclasses.dataclass(frozen=True)
class World:
    """Bodies, the pairs that may touch, and the names of those that may touch the ground."""

    bodies: tuple[Body, ...]
    pairs: tuple[tuple[str, str], ...]
    friction: float
    grounded: tuple[str, ...] = ()


def _grasp(factor: float, offset: float = 0.0) -> World:
    force = factor * 0.3 * GRAVITY / (2 * 0.8)
    pads = (
        Body("left", (0.02, 0.01, 0.02), 0.1, (0, -0.04, 0), axis=(0, 1, 0), force=force),
        Body("right", (0.02, 0.01, 0.02), 0.1, (0, 0.04, 0), axis=(0, 1, 0), force=-force),
    )
    cube = Body("cube", (0.03,) * 3, 0.3, (offset, 0, 0))
    return World((*pads, cube), (("left", "cube"), ("right", "cube")), 0.8)


def _fingers(factor: float) -> World:
    force, fingers = factor * 0.3 * GRAVITY / (3 * 0.8), []
    for k in range(3):
        x, y = float(np.cos(2 * np.pi * k / 3)), float(np.sin(2 * np.pi * k / 3))
        tip = (0.05 * x, 0.05 * y, 0.0)
        fingers.append(Body(f"finger{k}", (0.02,), 0.1, tip, axis=(x, y, 0.0), force=-force))
    ball = Body("ball", (0.03,), 0.3, (0, 0, 0))
    return World((*fingers, ball), tuple((one.name, "ball") for one in fingers), 0.8)


def _stack(masses: tuple[float, ...], half: float = 0.05) -> World:
    names = [f"box{k}" for k in range(len(masses))]
    places = [(0.003 * (-1) ** k, 0.001 * k, half * (2 * k + 1)) for k in range(len(masses))]
    boxes = tuple(
        Body(name, (half,) * 3, mass, place)
        for name, mass, place in zip(names, masses, places, strict=True)
    )
    return World(boxes, tuple(zip(names[1:], names, strict=False)), 0.6, ("box0",))


def _cards(angle: float = 0.35, friction: float = 0.3) -> World:
    thick, high, sine, cosine = 0.002, 0.1, float(np.sin(angle)), float(np.cos(angle))
    reach, above = thick * (1 + cosine) + high * sine, thick * sine + high * cosine
    size = (thick, 0.05, high)
    cards = (
        Body("left", size, 0.1, (-reach, 0, above), angle),
        Body("middle", size, 0.1, (0, 0, high)),
        Body("right", size, 0.1, (reach, 0, above), -angle),
    )
    return World(
        cards, (("left", "middle"), ("right", "middle")), friction, ("left", "middle", "right")
    )


def worlds() -> dict[str, World]:
    """All scenes, which statics say stay."""
    return {
        "cube between pads, 1.05 times the force": _grasp(1.05),
        "the same, 1.5 times": _grasp(1.5),
        "the same, 1.5 times, 5 mm off centre": _grasp(1.5, 0.005),
        "ball between three balls, 1.5 times": _fingers(1.5),
        "ten boxes": _stack((1.0,) * 10),
        "1,000 kg on 1 kg": _stack((1.0, 1000.0)),
        "10,000 on 100 on 1 kg": _stack((1.0, 100.0, 10000.0)),
        "house of three cards": _cards(),
    }


@dataclasses.dataclass(frozen=True)
class Result:
    """How far the bodies moved [m], their greatest speed at the end [m/s], and functions that take
    all steps."""

    moved: float
    creep: float
    single: Callable[[], object]
    batch: Callable[[], object] | None = None


def in_artix(world: World, dtype: str, batch: int) -> Result:
    """The world in artix, with default options."""
    members, states, controls = {}, {}, {}
    for body in world.bodies:
        builder = artix.ArticulationBuilder(
            fixed_base=body.axis is not None, gravity=(0, 0, -GRAVITY), name=body.name
        )
        joint = ()
        if body.axis is not None:
            builder.add_link(name="rail")
            angle = np.arctan2(body.axis[1], body.axis[0]) / 2
            pose = (*body.place, 0, 0, np.sin(angle), np.cos(angle))
            joint = ("rail", artix.Joint.prismatic(artix.Axis.X, parent_pose=pose))
        builder.add_link(
            *joint, mass=body.mass, inertia=body.inertia, name=body.name, angular_damping=0.0
        )
        turned = (0, 0, 0, 1)
        if body.axis is not None and len(body.size) == 3:
            turned = (0, 0, -np.sin(angle), np.cos(angle))
        options = {"friction": world.friction, "sensor": body.name not in world.grounded}
        round_one = len(body.size) == 1
        shape = artix.Geometry.sphere if round_one else artix.Geometry.box
        size = body.size[0] if round_one else body.size
        where = {} if round_one else {"pose": (0, 0, 0, *turned)}
        builder.add_geometry(body.name, shape(size, **where, **options), name="shape")
        member = members[body.name] = builder.build(dtype)
        states[body.name] = artix.neutral_state(member)
        if body.axis is None:
            pose = jnp.array([*body.place, *body.quaternion], dtype)
            states[body.name] = states[body.name].replace(root_pose=pose)
        else:
            controls[body.name] = artix.Control(joint_force=jnp.array([body.force], dtype))
    pairs = [(f"{a}/shape", f"{b}/shape") for a, b in world.pairs]
    ground = artix.Ground.flat(friction=world.friction).astype(dtype) if world.grounded else None
    scene = artix.Scene(members, pairs=pairs, ground=ground)
    free = [body.name for body in world.bodies if body.axis is None]

    def run(states: dict[str, artix.State]) -> tuple[jax.Array, jax.Array]:
        start = artix.remember_contacts(scene, states, controls, DT)
        end = jax.lax.fori_loop(
            0, STEPS, lambda _, state: artix.step(scene, state, controls, DT), start
        )
        moved = jnp.stack([end[name].root_pose[:3] - states[name].root_pose[:3] for name in free])
        return moved, jnp.stack([end[name].root_velocity[:3] for name in free])

    one, many = jax.jit(run), jax.jit(jax.vmap(run))
    moved, speed = one(states)
    repeated = jax.tree.map(lambda x: jnp.broadcast_to(x, (batch, *x.shape)), states)
    return Result(
        _largest(moved),
        _largest(speed),
        lambda: jax.block_until_ready(one(states)),
        lambda: jax.block_until_ready(many(repeated)),
    )


def in_mujoco(world: World, stiff: bool, batch: int) -> Result:
    """The world in MuJoCo."""
    import mujoco
    from mujoco import rollout

    bodies = []
    for body in world.bodies:
        joint = "<freejoint/>"
        if body.axis is not None:
            joint = f'<joint type="slide" axis="{_words(body.axis)}"/>'
        kind = "sphere" if len(body.size) == 1 else "box"
        x, y, z, w = body.quaternion
        inertia = f'<inertial pos="0 0 0" mass="{body.mass}" diaginertia="{_words(body.inertia)}"/>'
        form = f'type="{kind}" size="{_words(body.size)}" contype="0" conaffinity="0"'
        shape = f'<geom name="{body.name}" {form}/>'
        place = f'pos="{_words(body.place)}" quat="{_words((w, x, y, z))}"'
        bodies.append(f'<body name="{body.name}" {place}>{joint}{inertia}{shape}</body>')
    solref = f'solref="{2 * DT} 1"' if stiff else ""
    friction = f"{world.friction} {world.friction} 0.005 0.0001 0.0001"
    touching = [*world.pairs, *((name, "floor") for name in world.grounded)]
    pairs = "".join(
        f'<pair geom1="{a}" geom2="{b}" condim="3" friction="{friction}" {solref}/>'
        for a, b in touching
    )
    option = 'cone="elliptic" impratio="100" noslip_iterations="10"' if stiff else ""
    floor = '<geom name="floor" type="plane" size="0 0 1" contype="0" conaffinity="0"/>'
    text = f"""<mujoco><option timestep="{DT}" gravity="0 0 -{GRAVITY}" {option}/>
      <worldbody>{floor}{"".join(bodies)}</worldbody><contact>{pairs}</contact></mujoco>"""
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    for body in world.bodies:
        if body.axis is not None:
            data.qfrc_applied[model.joint(model.body(body.name).jntadr[0]).dofadr[0]] = body.force
    mujoco.mj_forward(model, data)
    free = [model.body(body.name).id for body in world.bodies if body.axis is None]
    begin = data.xpos[free].copy()
    full = int(mujoco.mjtState.mjSTATE_FULLPHYSICS)
    start = np.zeros(mujoco.mj_stateSize(model, full))
    mujoco.mj_getState(model, data, start, full)
    pushes = np.tile(data.qfrc_applied, (STEPS, 1))

    def once() -> None:
        mujoco.mj_setState(model, data, start, full)
        for _ in range(STEPS):
            mujoco.mj_step(model, data)

    once()
    moved = data.xpos[free] - begin
    velocities = np.stack([data.body(int(k)).cvel[3:] for k in free])
    threads = os.cpu_count() or 1
    datas = [mujoco.MjData(model) for _ in range(threads)]

    def many() -> None:
        controls = np.broadcast_to(pushes, (batch, *pushes.shape))
        rollout.rollout(
            [model] * batch,
            datas,
            np.tile(start, (batch, 1)),
            controls,
            control_spec=int(mujoco.mjtState.mjSTATE_QFRC_APPLIED),
        )

    return Result(_largest(moved), _largest(velocities), once, many)


def in_drake(world: World) -> Result:
    """The world in Drake, by SAP with hydroelastic contact."""
    from pydrake import geometry, math
    from pydrake.multibody import plant as plants
    from pydrake.multibody import tree
    from pydrake.systems import analysis, framework, primitives

    builder = framework.DiagramBuilder()
    config = plants.MultibodyPlantConfig(
        time_step=DT,
        discrete_contact_approximation="sap",
        contact_model="hydroelastic_with_fallback",
    )
    plant, scene_graph = plants.AddMultibodyPlant(config, builder)
    plant.mutable_gravity_field().set_gravity_vector([0, 0, -GRAVITY])

    def properties() -> geometry.ProximityProperties:
        made = geometry.ProximityProperties()
        geometry.AddContactMaterial(
            dissipation=10.0,
            point_stiffness=1e6,
            friction=plants.CoulombFriction(world.friction, world.friction),
            properties=made,
        )
        geometry.AddCompliantHydroelasticProperties(0.01, 1e9, made)
        return made

    shapes = {}
    for body in world.bodies:
        unit = tree.RotationalInertia(*body.inertia)
        inertia = tree.SpatialInertia.MakeFromCentralInertia(body.mass, [0, 0, 0], unit)
        rigid = plant.AddRigidBody(body.name, inertia)
        shape = (
            geometry.Sphere(*body.size)
            if len(body.size) == 1
            else geometry.Box(*(2 * half for half in body.size))
        )
        shapes[body.name] = plant.RegisterCollisionGeometry(
            rigid, math.RigidTransform(), shape, body.name, properties()
        )
        if body.axis is not None:
            frame = tree.FixedOffsetFrame(
                f"{body.name}_rail", plant.world_frame(), math.RigidTransform(list(body.place))
            )
            frame = plant.AddFrame(frame)
            plant.AddJoint(
                tree.PrismaticJoint(f"{body.name}_slide", frame, rigid.body_frame(), body.axis)
            )
    if world.grounded:
        floor = geometry.Box(4, 4, 1)
        pose = math.RigidTransform([0, 0, -0.5])
        shapes["floor"] = plant.RegisterCollisionGeometry(
            plant.world_body(), pose, floor, "floor", properties()
        )
    touching = {
        frozenset(pair) for pair in (*world.pairs, *((name, "floor") for name in world.grounded))
    }
    manager = scene_graph.collision_filter_manager()
    for a in shapes:
        for b in shapes:
            if a < b and frozenset((a, b)) not in touching:
                sets = geometry.GeometrySet(shapes[a]), geometry.GeometrySet(shapes[b])
                manager.Apply(geometry.CollisionFilterDeclaration().ExcludeBetween(*sets))
    plant.Finalize()
    forces = np.zeros(plant.num_velocities())
    for body in world.bodies:
        if body.axis is not None:
            forces[plant.GetJointByName(f"{body.name}_slide").velocity_start()] = body.force
    source = builder.AddSystem(primitives.ConstantVectorSource(forces))
    builder.Connect(source.get_output_port(), plant.get_applied_generalized_force_input_port())
    diagram = builder.Build()
    free = [body for body in world.bodies if body.axis is None]
    context = diagram.CreateDefaultContext()
    simulator = analysis.Simulator(diagram, context)
    inner = plant.GetMyMutableContextFromRoot(context)

    def once() -> None:
        context.SetTime(0.0)
        for body in world.bodies:
            if body.axis is None:
                turn = math.RotationMatrix.MakeYRotation(body.turn)
                plant.SetFreeBodyPose(
                    inner,
                    plant.GetBodyByName(body.name),
                    math.RigidTransform(turn, list(body.place)),
                )
            else:
                plant.GetJointByName(f"{body.name}_slide").set_translation(inner, 0.0)
        plant.SetVelocities(inner, np.zeros(plant.num_velocities()))
        simulator.Initialize()
        simulator.AdvanceTo(STEPS * DT)

    once()
    poses = [
        plant.EvalBodyPoseInWorld(inner, plant.GetBodyByName(body.name)).translation()
        for body in free
    ]
    moved = np.array(poses) - [body.place for body in free]
    speeds = [
        plant.EvalBodySpatialVelocityInWorld(inner, plant.GetBodyByName(body.name)).translational()
        for body in free
    ]
    return Result(_largest(moved), _largest(np.array(speeds)), once)


def _largest(values) -> float:
    return float(np.max(np.linalg.norm(np.asarray(values, float), axis=-1)))


def _words(numbers) -> str:
    return " ".join(map(str, numbers))


def peers(world: World, batch: int) -> Iterator[tuple[str, Callable[[], Result]]]:
    """Names of the libraries, and functions that build and run the world."""
    for dtype in ("float32", "float64"):
        yield f"artix, {dtype}", lambda dtype=dtype: in_artix(world, dtype, batch)
    yield "MuJoCo", lambda: in_mujoco(world, False, batch)
    yield "MuJoCo, stiff", lambda: in_mujoco(world, True, batch)
    if importlib.util.find_spec("pydrake"):
        yield "Drake", lambda: in_drake(world)


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--worlds", type=int, nargs="+", help="numbers of scenes; all by default")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    print(
        "| | | moved in 2 s [m] | speed at the end [m/s] | us a step | us in a batch "
        "|\n|---|---|---|---|---|---|"
    )
    for number, (name, world) in enumerate(worlds().items()):
        if options.worlds and number not in options.worlds:
            continue
        results = {peer: build() for peer, build in peers(world, options.batch)}
        times = {peer: [np.inf, np.inf] for peer in results}
        for _ in range(options.repetitions):
            for peer, result in results.items():
                for place, (run, worth) in enumerate(
                    ((result.single, 1), (result.batch, options.batch))
                ):
                    if run is not None:
                        begin = time.process_time()
                        run()
                        took = (time.process_time() - begin) / STEPS / worth
                        times[peer][place] = min(times[peer][place], took)
        for peer, result in results.items():
            single, batch = (f"{1e6 * one:.1f}" if np.isfinite(one) else "" for one in times[peer])
            print(
                f"| {name} | {peer} | {result.moved:.1e} | {result.creep:.1e} | {single} | "
                f"{batch} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
