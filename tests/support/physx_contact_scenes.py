"""The scenes with contact that were recorded from PhysX (``tests/data/physx/contact``), as plain
data.

Every link's mass frame is its frame, every plane is ``z = 0``, and gravity leans instead of the
ground.
"""

from __future__ import annotations

import math

SPHERE = {"type": "sphere", "radius": 0.1, "position": (0.0, 0.0, 0.0)}
BOX = {"type": "box", "half_extents": (0.1, 0.08, 0.05), "position": (0.0, 0.0, 0.0)}
CAPSULE = {"type": "capsule", "radius": 0.05, "half_length": 0.1, "position": (0.0, 0.0, 0.0)}

#: Solver, position and velocity iterations, length of a step.
RUNS = {
    "pgs": ("pgs", 4, 1, 1 / 240),
    "pgs_coarse": ("pgs", 16, 1, 1 / 60),
    "pgs_60hz": ("pgs", 8, 1, 1 / 60),
    "pgs_fine": ("pgs", 32, 2, 1 / 240),
    "tgs": ("tgs", 4, 1, 1 / 240),
    "tgs_coarse": ("tgs", 16, 1, 1 / 60),
    "tgs_v0": ("tgs", 8, 0, 1 / 120),
}


def _gravity(lean: float) -> tuple[float, float, float]:
    """Standard gravity that leans by an angle [deg] towards x."""
    angle = math.radians(lean)
    return (9.81 * math.sin(angle), 0.0, -9.81 * math.cos(angle))


def _body(
    shape: dict, *, mass: float = 1.0, inertia: tuple[float, float, float] = (0.004, 0.004, 0.004)
) -> dict:
    """A single link with one shape."""
    return {
        "name": "body",
        "parent": -1,
        "mass": mass,
        "inertia": inertia,
        "joint": None,
        "shapes": [shape],
    }


def _scene(links: list[dict], runs: tuple[str, ...], steps: int, **values) -> dict:
    scene = {
        "links": links,
        "runs": runs,
        "steps": steps,
        "gravity": _gravity(0.0),
        "friction": 0.5,
        "restitution": 0.0,
        "contact_offset": 0.02,
        "max_depenetration_velocity": 3.0,
        "bounce_threshold": 0.2,
        "root_pose": (0.0, 0.0, 0.16, 0.0, 0.0, 0.0, 1.0),
        "root_velocity": (0.0,) * 6,
        "joint_position": [0.0] * (len(links) - 1),
    }
    return scene | values


def _leg(side: int, hip: tuple[float, float, float], parent: int, first: int) -> list[dict]:
    """A thigh and a shank with a sphere for a foot; both joints turn about y."""

    def joint(name: str, at: tuple[float, float, float], below: float, stiffness: float) -> dict:
        drive = {"stiffness": stiffness, "damping": 0.05 * stiffness, "max_force": 100.0}
        return {
            "name": name,
            "parent_position": at,
            "child_position": (0.0, 0.0, below),
            "drive": drive,
        }

    return [
        {
            "name": f"thigh_{side}",
            "parent": parent,
            "mass": 0.6,
            "inertia": (0.002, 0.002, 0.0003),
            "joint": joint(f"hip_{side}", hip, 0.1, 60.0),
            "shapes": [],
        },
        {
            "name": f"shank_{side}",
            "parent": first,
            "mass": 0.3,
            "inertia": (0.001, 0.001, 0.0001),
            "joint": joint(f"knee_{side}", (0.0, 0.0, -0.1), 0.1, 60.0),
            "shapes": [{"type": "sphere", "radius": 0.025, "position": (0.0, 0.0, -0.1)}],
        },
    ]


def _base(mass: float, inertia: tuple[float, float, float]) -> dict:
    return {
        "name": "base",
        "parent": -1,
        "mass": mass,
        "inertia": inertia,
        "joint": None,
        "shapes": [],
    }


def _quadruped() -> list[dict]:
    """A trunk on four legs; links breadth first, as PhysX numbers them."""
    hips = [(x, y, 0.0) for x in (0.2, -0.2) for y in (0.12, -0.12)]
    legs = [_leg(k, hip, 0, 1 + k) for k, hip in enumerate(hips)]
    return [_base(6.0, (0.03, 0.08, 0.1)), *(leg[0] for leg in legs), *(leg[1] for leg in legs)]


_STANDING = (0.6, -1.2)
_BOTH = ("pgs", "tgs", "pgs_coarse", "tgs_coarse", "pgs_fine", "tgs_v0")

SCENES = {
    "sphere_roll": _scene(
        [_body(SPHERE)], _BOTH, 60, root_velocity=(0.5, 0.1, -1.0, 0.0, 0.0, 0.0)
    ),
    "sphere_spin": _scene(
        [_body(SPHERE)],
        ("pgs", "tgs"),
        60,
        friction=0.2,
        root_velocity=(0.0, 0.0, -1.0, 3.0, 20.0, 5.0),
    ),
    "sphere_bounce": _scene(
        [_body(SPHERE)],
        ("pgs", "tgs", "pgs_coarse", "tgs_coarse"),
        60,
        restitution=0.6,
        root_velocity=(0.3, 0.0, -1.5, 0.0, 0.0, 0.0),
    ),
    "sphere_deep": _scene(
        [_body(SPHERE)],
        ("pgs", "tgs"),
        30,
        root_pose=(0.0, 0.0, 0.07, 0.0, 0.0, 0.0, 1.0),
        root_velocity=(0.2, 0.0, 0.0, 0.0, 0.0, 0.0),
    ),
    "box_drop": _scene(
        [_body(BOX)],
        _BOTH,
        80,
        root_pose=(0.0, 0.0, 0.17, math.sin(0.15), 0.0, 0.0, math.cos(0.15)),
        root_velocity=(0.5, 0.0, -0.5, 0.0, 1.0, 0.5),
    ),
    "box_slide": _scene(
        [_body(BOX)],
        ("pgs", "tgs"),
        60,
        friction=0.3,
        root_pose=(0.0, 0.0, 0.052, 0.0, 0.0, 0.0, 1.0),
        root_velocity=(1.0, 0.2, 0.0, 0.0, 0.0, 0.0),
    ),
    "box_sticks": _scene(
        [_body(BOX)],
        ("pgs", "tgs"),
        60,
        gravity=_gravity(20.0),
        root_pose=(0.0, 0.0, 0.052, 0.0, 0.0, 0.0, 1.0),
    ),
    "box_slips": _scene(
        [_body(BOX)],
        ("pgs", "tgs"),
        60,
        gravity=_gravity(35.0),
        root_pose=(0.0, 0.0, 0.052, 0.0, 0.0, 0.0, 1.0),
    ),
    "capsule_drop": _scene(
        [_body(CAPSULE)],
        ("pgs", "tgs"),
        60,
        root_pose=(0.0, 0.0, 0.15, 0.0, math.sin(0.7), 0.0, math.cos(0.7)),
        root_velocity=(0.3, 0.2, -0.5, 0.0, 0.0, 0.0),
    ),
    "capsule_spin": _scene(
        [
            _body(
                CAPSULE | {"radius": 0.04, "half_length": 0.09},
                mass=0.4,
                inertia=(0.0015, 0.0015, 0.0003),
            )
        ],
        ("pgs", "pgs_60hz"),
        120,
        root_pose=(0.0, 0.0, 0.2, 0.0, 0.5006435668191909, 0.15019307004575724, 0.8525245220595057),
        root_velocity=(0.2, 0.0, -0.3, 0.0, 3.0, 0.0),
    ),
    "leg": _scene(
        [_base(2.0, (0.01, 0.01, 0.01)), *_leg(0, (0.0, 0.0, 0.0), 0, 1)],
        _BOTH,
        60,
        root_pose=(0.0, 0.0, 0.42, 0.0, 0.0, 0.0, 1.0),
        root_velocity=(0.4, 0.1, -1.0, 0.0, 0.0, 0.0),
        joint_position=list(_STANDING),
    ),
    "quadruped": _scene(
        _quadruped(),
        _BOTH,
        60,
        friction=0.8,
        root_pose=(0.0, 0.0, 0.40, 0.0, 0.0, 0.0, 1.0),
        root_velocity=(0.5, 0.2, -1.0, 0.0, 0.0, 0.0),
        joint_position=[_STANDING[0]] * 4 + [_STANDING[1]] * 4,
    ),
}
