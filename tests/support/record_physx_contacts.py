"""Records the scenes of :mod:`tests.support.physx_contact_scenes` from PhysX by ``ovphysx`` (PyPI).

In an environment with ``ovphysx``, ``physx-usd-schemas`` and ``newton-usd-schemas`` (artix is not
needed)::

    python -m tests.support.record_physx_contacts tests/data/physx/contact
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

from tests.support.physx_contact_scenes import RUNS, SCENES

CAPACITY = 32
DEGREE = math.pi / 180


def _tuple(values) -> str:
    return "(" + ", ".join(repr(float(value)) for value in values) + ")"


def _quaternion(xyzw) -> str:
    return _tuple((xyzw[3], *xyzw[:3]))


_COLLIDER = (
    'prepend apiSchemas = ["PhysicsCollisionAPI", "PhysxCollisionAPI", "MaterialBindingAPI"]'
)


def _contact_attributes(scene: dict) -> str:
    return f"""rel material:binding:physics = </World/material>
        float physxCollision:contactOffset = {scene["contact_offset"]}
        float physxCollision:restOffset = 0"""


def _shape(scene: dict, shape: dict, name: str) -> str:
    scale = (1.0, 1.0, 1.0)
    if shape["type"] == "sphere":
        kind, size = "Sphere", f"double radius = {shape['radius']}"
    elif shape["type"] == "capsule":
        kind = "Capsule"
        size = f'uniform token axis = "Z"\n        double radius = {shape["radius"]}\n        double height = {2 * shape["half_length"]}'
    else:
        kind, size, scale = "Cube", "double size = 2", shape["half_extents"]
    return f"""
        def {kind} "{name}" ({_COLLIDER})
        {{
        {size}
        double3 xformOp:translate = {_tuple(shape["position"])}
        float3 xformOp:scale = {_tuple(scale)}
        uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:scale"]
        {_contact_attributes(scene)}
        }}"""


def _link(scene: dict, link: dict, pose, iterations: tuple[int, int]) -> str:
    root = link["parent"] < 0
    schemas = [
        "PhysicsRigidBodyAPI",
        "PhysxRigidBodyAPI",
        "PhysicsMassAPI",
        "PhysxContactReportAPI",
    ]
    schemas += ["PhysicsArticulationRootAPI", "PhysxArticulationAPI"] if root else []
    counts = f"""int physxArticulation:solverPositionIterationCount = {iterations[0]}
        int physxArticulation:solverVelocityIterationCount = {iterations[1]}
        float physxArticulation:sleepThreshold = 0
        bool physxArticulation:enabledSelfCollisions = 0"""
    velocity = scene["root_velocity"]
    moves = f"""vector3f physics:velocity = {_tuple(velocity[:3])}
        vector3f physics:angularVelocity = {_tuple(np.array(velocity[3:]) / DEGREE)}"""
    shapes = "".join(_shape(scene, shape, f"shape_{k}") for k, shape in enumerate(link["shapes"]))
    return f"""
    def Xform "{link["name"]}" (prepend apiSchemas = {json.dumps(schemas)})
    {{
        float physics:mass = {link["mass"]}
        float3 physics:diagonalInertia = {_tuple(link["inertia"])}
        quatf physics:principalAxes = (1, 0, 0, 0)
        point3f physics:centerOfMass = (0, 0, 0)
        double3 xformOp:translate = {_tuple(pose[:3])}
        quatd xformOp:orient = {_quaternion(pose[3:])}
        uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:orient"]
        float physxRigidBody:linearDamping = 0
        float physxRigidBody:angularDamping = 0
        float physxRigidBody:maxDepenetrationVelocity = {scene["max_depenetration_velocity"]}
        float physxContactReport:threshold = 0
        {counts if root else ""}
        {moves if root else ""}
        {shapes}
    }}"""


def _joint(link: dict, parent: str) -> str:
    joint, drive = link["joint"], link["joint"]["drive"]
    return f"""
    def PhysicsRevoluteJoint "{joint["name"]}" (prepend apiSchemas = ["PhysicsDriveAPI:angular", "PhysxJointAPI"])
    {{
        rel physics:body0 = </World/{parent}>
        rel physics:body1 = </World/{link["name"]}>
        uniform token physics:axis = "Y"
        point3f physics:localPos0 = {_tuple(joint["parent_position"])}
        point3f physics:localPos1 = {_tuple(joint["child_position"])}
        quatf physics:localRot0 = (1, 0, 0, 0)
        quatf physics:localRot1 = (1, 0, 0, 0)
        uniform token drive:angular:physics:type = "force"
        float drive:angular:physics:stiffness = {drive["stiffness"] * DEGREE!r}
        float drive:angular:physics:damping = {drive["damping"] * DEGREE!r}
        float drive:angular:physics:maxForce = {drive["max_force"]}
        float drive:angular:physics:targetPosition = {link["target"] / DEGREE!r}
        float physxJoint:jointFriction = 0
        float physxJoint:armature = 0
        float physxJoint:maxJointVelocity = 1e8
    }}"""


def _turned(angle: float, vector) -> np.ndarray:
    c, s = math.cos(angle), math.sin(angle)
    return np.array([c * vector[0] + s * vector[2], vector[1], -s * vector[0] + c * vector[2]])


def _poses(scene: dict) -> list[np.ndarray]:
    """Where the links start; joints turn about y, and so does every link of an articulation that
    has joints."""
    poses, angles = [np.array(scene["root_pose"])], [0.0]
    for link, q in zip(scene["links"][1:], scene["joint_position"], strict=True):
        parent, joint = link["parent"], link["joint"]
        angle = angles[parent] + q
        at = (
            poses[parent][:3]
            + _turned(angles[parent], joint["parent_position"])
            - _turned(angle, joint["child_position"])
        )
        poses.append(np.array([*at, 0.0, math.sin(angle / 2), 0.0, math.cos(angle / 2)]))
        angles.append(angle)
    return poses


def stage_text(scene: dict, run: str) -> str:
    """The scene as a USD stage."""
    solver, position, velocity, dt = RUNS[run]
    gravity = np.array(scene["gravity"])
    size = float(np.linalg.norm(gravity))
    for link, q in zip(scene["links"][1:], scene["joint_position"], strict=True):
        link["target"] = q
    links = [
        _link(scene, link, pose, (position, velocity))
        for link, pose in zip(scene["links"], _poses(scene), strict=True)
    ]
    joints = [_joint(link, scene["links"][link["parent"]]["name"]) for link in scene["links"][1:]]
    return f"""#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = 1
    kilogramsPerUnit = 1
    upAxis = "Z"
)
def Xform "World"
{{
    def PhysicsScene "scene" (prepend apiSchemas = ["PhysxSceneAPI"])
    {{
        vector3f physics:gravityDirection = {_tuple(gravity / size)}
        float physics:gravityMagnitude = {size!r}
        uniform token physxScene:solverType = "{solver.upper()}"
        bool physxScene:enableGPUDynamics = 0
        uniform token physxScene:broadphaseType = "MBP"
        bool physxScene:enableExternalForcesEveryIteration = 0
        bool physxScene:enableStabilization = 0
        bool physxScene:solveArticulationContactLast = 0
        float physxScene:bounceThreshold = {scene["bounce_threshold"]}
        uint physxScene:timeStepsPerSecond = {round(1 / dt)}
    }}
    def Material "material" (prepend apiSchemas = ["PhysicsMaterialAPI", "PhysxMaterialAPI"])
    {{
        float physics:staticFriction = {scene["friction"]}
        float physics:dynamicFriction = {scene["friction"]}
        float physics:restitution = {scene["restitution"]}
    }}
    def Plane "ground" ({_COLLIDER})
    {{
        uniform token axis = "Z"
        {_contact_attributes(scene)}
    }}
{"".join(links)}
{"".join(joints)}
}}
"""


class _Reader:
    """What is read after every step."""

    def __init__(self, physx, scene: dict) -> None:
        from ovphysx.types import TensorType

        names = [link["name"] for link in scene["links"]]
        root = f"/World/{names[0]}"
        kinds = {
            "pose": TensorType.ARTICULATION_LINK_POSE,
            "velocity": TensorType.ARTICULATION_LINK_VELOCITY,
        }
        if len(names) > 1:
            kinds |= {
                "q": TensorType.ARTICULATION_DOF_POSITION,
                "qd": TensorType.ARTICULATION_DOF_VELOCITY,
            }
        self.bindings = {
            key: physx.create_tensor_binding(pattern=root, tensor_type=kind, raise_if_empty=True)
            for key, kind in kinds.items()
        }
        found = self.bindings["pose"]
        self.order = [list(found.body_names).index(name) for name in names]
        self.dof_order = []
        if len(names) > 1:
            dofs = list(found.dof_names)
            self.dof_order = [dofs.index(link["joint"]["name"]) for link in scene["links"][1:]]
        self.sensors = [k for k, link in enumerate(scene["links"]) if link["shapes"]]
        self.contacts = [
            physx.create_contact_binding(
                sensor_patterns=[f"/World/{names[k]}"],
                filter_patterns=["/World/ground"],
                filters_per_sensor=1,
                max_contact_data_count=CAPACITY,
            )
            for k in self.sensors
        ]

    def states(self) -> dict[str, np.ndarray]:
        values = {}
        for key, binding in self.bindings.items():
            values[key] = np.zeros(binding.shape, np.float32)
            binding.read(values[key])
            values[key] = values[key][0][
                self.order if key in ("pose", "velocity") else self.dof_order
            ]
        return values

    def contact_rows(self, step: int, dt: float) -> tuple[list[list[float]], list[list[float]]]:
        """Normal contacts (step, link, impulse, separation, point, normal), and friction (step,
        link, impulse, point)."""
        normals, frictions = [], []
        for link, binding in zip(self.sensors, self.contacts, strict=True):
            one, three = np.zeros((CAPACITY, 1), np.float32), np.zeros((CAPACITY, 3), np.float32)
            force, gap, point, normal = one, one.copy(), three, three.copy()
            count, start = np.zeros((1, 1), np.uint32), np.zeros((1, 1), np.uint32)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                binding.read_normal_contact_data(force, point, normal, gap, count, start)
                rows = [
                    [step, link, force[k, 0] * dt, gap[k, 0], *point[k], *normal[k]]
                    for k in range(count[0, 0])
                ]
                normals += rows
                pull, anchor = three.copy(), three.copy()
                binding.read_friction_contact_data(pull, anchor, count, start)
                frictions += [[step, link, *(pull[k] * dt), *anchor[k]] for k in range(count[0, 0])]
        return normals, frictions


def record(physx, ovstage, scene: dict, run: str, ordinal: int) -> dict[str, np.ndarray]:
    """What PhysX computes for one run of a scene."""
    dt = RUNS[run][3]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scene.usda"
        path.write_text(stage_text(scene, run))
        stage = ovstage.Stage(f"scene{ordinal}")
        ovstage.population.open_usd(
            stage, str(path), ordinal=1, domains=ovstage.PopulationDomain.ALL
        )
        stage.advance_write_floor(ordinal=1).wait()
        physx.wait_task(physx.attach_ovstage(stage, read_ordinal=1))
        reader = _Reader(physx, scene)
        if "q" in reader.bindings:
            start = np.zeros(reader.bindings["q"].shape, np.float32)
            start[0, reader.dof_order] = scene["joint_position"]
            reader.bindings["q"].write(start)
        kept, normals, frictions = [reader.states()], [], []
        for step in range(scene["steps"]):
            physx.step_sync(dt)
            kept.append(reader.states())
            found = reader.contact_rows(step, dt)
            normals += found[0]
            frictions += found[1]
        physx.wait_task(physx.detach_ovstage())
        stage.destroy()
    arrays = {key: np.stack([one[key] for one in kept]) for key in kept[0]}
    arrays["normal_contacts"] = np.array(normals, np.float32).reshape(-1, 10)
    arrays["friction"] = np.array(frictions, np.float32).reshape(-1, 8)
    return arrays


def main(folder: str) -> None:
    import ovphysx
    import ovstage
    from ovphysx.samples.python_samples.schema_support import physx_schema_paths

    ovphysx.PhysX.set_cpu_mode(True)
    physx = ovphysx.PhysX()
    schemas = [*map(str, physx_schema_paths()), str(ovphysx.newton_schema_root())]
    ovstage.population.register_usd_schemas(schemas)
    ordinal = 0
    for name, scene in SCENES.items():
        arrays = {}
        for run in scene["runs"]:
            ordinal += 1
            found = record(physx, ovstage, scene, run, ordinal)
            arrays |= {f"{run}/{key}": value for key, value in found.items()}
            print(name, run, len(found["normal_contacts"]), found["pose"][-1, 0], flush=True)
        np.savez_compressed(Path(folder) / f"{name}.npz", **arrays)
    physx.destroy()


if __name__ == "__main__":
    main(sys.argv[1])
