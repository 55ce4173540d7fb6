"""Random MJCF models of one tree, whose elements have random attributes, defaults and classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

#: Scalar joints of the tree in the order of their DOFs, and the ball joint.
SCALARS = ("hip", "knee", "rail", "tail")
BALL = "wrist"


class RandomMjcf:
    """Writes one random model; equal seeds give equal models.

    Args:
      seed: the seed.
      floating: whether the base has a free joint, which changes the number of DOFs.
    """

    def __init__(self, seed: int, *, floating: bool) -> None:
        self.rng = np.random.default_rng([seed, floating])
        self.floating = floating
        self.geoms = 0

    def text(self) -> str:
        """The model."""
        base = "<freejoint/>" if self.floating else ""
        base += self.geom() + self.mass()
        knee = self.body(
            "shin",
            self.joint("knee") + self.joint("rail", slide=True),
            self.body("hand", self.ball()),
        )
        hip = self.body("thigh", self.joint("hip"), knee + self.body("plate", ""))
        bodies = f'<body name="base" pos="{self.numbers(3)}">{base}{hip}{self.body("fin", self.joint("tail"))}</body>'
        option = "" if self.chance(0.5) else f'<option gravity="{self.numbers(3, 9)}"/>'
        compiler = self.pick(
            ('angle="radian"', 'eulerseq="ZYx"', 'balanceinertia="true" boundmass="0.3"')
        )
        return f"""<mujoco><compiler {compiler} autolimits="true"/>{option}{self.defaults()}
        <worldbody>{self.ground()}{bodies}</worldbody>
        {self.contact()}{self.actuators()}{self.equality()}{self.tendon()}</mujoco>"""

    def chance(self, probability: float) -> bool:
        return bool(self.rng.uniform() < probability)

    def pick(self, choices: Sequence[str]) -> str:
        return choices[int(self.rng.integers(len(choices)))]

    def numbers(self, count: int, size: float = 0.3) -> str:
        return " ".join(f"{x:.4g}" for x in self.rng.uniform(-size, size, count))

    def positive(self, low: float, high: float) -> str:
        return f"{self.rng.uniform(low, high):.4g}"

    def some(self, attributes: dict[str, str], probability: float = 0.4) -> str:
        return " ".join(
            f'{name}="{value}"' for name, value in attributes.items() if self.chance(probability)
        )

    def joint_attributes(self) -> str:
        return self.some(
            {
                "damping": self.positive(0, 2),
                "armature": self.positive(0, 0.5),
                "frictionloss": self.positive(0, 1),
                "stiffness": self.positive(0, 20),
            }
        )

    def geom_attributes(self) -> str:
        return self.some(
            {
                "friction": self.positive(0, 1.5),
                "condim": self.pick(("1", "3", "3", "4", "6")),
                "priority": self.pick(("0", "1", "2")),
                "density": self.positive(300, 2000),
                "contype": self.pick(("0", "1", "1", "3")),
                "conaffinity": self.pick(("0", "1", "2")),
            },
            0.3,
        )

    def defaults(self) -> str:
        inner = f"<joint {self.joint_attributes()}/><geom {self.geom_attributes()}/>"
        return f"""<default><joint {self.joint_attributes()}/><geom margin="50" {self.geom_attributes()}/>
        <pair margin="50"/><default class="special">{inner}</default></default>"""

    def kind(self) -> str:
        return 'class="special" ' if self.chance(0.4) else ""

    def turn(self) -> str:
        angles = self.numbers(3, 1.5)
        turns = (
            f'euler="{angles}"',
            f'axisangle="{angles} 0.7"',
            f'quat="1 {angles}"',
            f'xyaxes="1 {angles} 1 0"',
        )
        return (
            self.some({"pos": self.numbers(3)}, 0.7)
            + " "
            + (self.pick(turns) if self.chance(0.6) else "")
        )

    def joint(self, name: str, *, slide: bool = False) -> str:
        own = self.some(
            {"ref": self.numbers(1, 0.4), "springref": self.numbers(1, 0.4), "pos": self.numbers(3)}
        )
        own += " " + self.some({"range": f"-{self.positive(0.1, 1)} {self.positive(0.2, 1)}"})
        # Joints along y and z have another topology.
        axis = self.pick(("1 0 0", self.numbers(3, 1)))
        kind = 'type="slide"' if slide else ""
        return f'<joint name="{name}" {kind} {self.kind()}axis="{axis}" {own} {self.joint_attributes()}/>'

    def ball(self) -> str:
        attributes = self.some({"pos": self.numbers(3), "damping": self.positive(0, 1)})
        return f'<joint name="{BALL}" type="ball" stiffness="0" {attributes}/>'

    def geom(self) -> str:
        self.geoms += 1
        sizes = {"sphere": 1, "capsule": 2, "box": 3, "cylinder": 2}
        kind = self.pick(list(sizes))
        size = " ".join(self.positive(0.02, 0.2) for _ in range(sizes[kind]))
        mass = self.some({"mass": self.positive(0.1, 3)}, 0.3)
        shape = f'name="g{self.geoms}" type="{kind}" size="{size}"'
        return f"<geom {shape} {self.kind()}{self.turn()} {mass} {self.geom_attributes()}/>"

    def mass(self) -> str:
        if self.chance(0.6):
            return ""
        moments = [f"{x:.4g}" for x in self.rng.uniform(0.02, 0.035, 3)]
        full = f'fullinertia="{" ".join(moments)} {self.numbers(3, 0.001)}"'
        inertia = (
            full
            if self.chance(0.3)
            else f'diaginertia="{" ".join(moments)}" euler="{self.numbers(3, 1)}"'
        )
        return f'<inertial pos="{self.numbers(3)}" mass="{self.positive(0.5, 3)}" {inertia}/>'

    def body(self, name: str, joints: str, inside: str = "") -> str:
        extra = self.some({"gravcomp": self.positive(0, 1.2)}, 0.3)
        parts = self.geom() + (self.geom() if self.chance(0.4) else "") + self.mass()
        body = f'<body name="{name}" {self.turn()} {extra}>{joints}{parts}{inside}</body>'
        return f"<frame {self.turn()}>{body}</frame>" if self.chance(0.3) else body

    def ground(self) -> str:
        floor = (
            f'<geom name="floor" type="plane" size="0 0 1" {self.kind()}{self.geom_attributes()}/>'
        )
        if self.chance(0.7):
            return floor
        return (
            floor
            + f'<geom name="wall" type="plane" size="0 0 1" zaxis="1 0 0.2" {self.geom_attributes()}/>'
        )

    def contact(self) -> str:
        parts = (
            f'<exclude body1="{self.pick(("thigh", "hand", "base"))}" body2="world"/>'
            if self.chance(0.3)
            else ""
        )
        for _ in range(int(self.rng.integers(3)) if self.chance(0.3) else 0):
            condim = self.some(
                {"condim": self.pick(("1", "3")), "friction": self.positive(0, 1)}, 0.6
            )
            parts += f'<pair geom1="g{self.rng.integers(self.geoms) + 1}" geom2="floor" {condim}/>'
        return f"<contact>{parts}</contact>"

    def actuators(self) -> str:
        parts = []
        for joint in SCALARS:
            limits = self.some({"forcerange": f"-{(limit := self.positive(0.5, 9))} {limit}"}, 0.3)
            gear = self.some({"gear": self.positive(-2, 2)})
            if self.chance(0.5):
                bias = f"{self.numbers(1)} -{self.positive(0, 30)} -{self.positive(0, 2)}"
                laws = (
                    f'<position joint="{joint}" kp="{self.positive(1, 30)}" kv="{self.positive(0, 3)}" {gear} {limits}/>',
                    f'<velocity joint="{joint}" kv="{self.positive(0, 5)}" {limits}/>',
                    f'<general joint="{joint}" biastype="affine" gainprm="3" biasprm="{bias}" {gear}/>',
                )
                parts.append(self.pick(laws))
            if self.chance(0.3):
                parts.append(f'<motor joint="{joint}" {gear} ctrlrange="-2 2"/>')
        return f"<actuator>{''.join(parts)}</actuator>"

    def equality(self) -> str:
        polynomial = f'polycoef="{self.numbers(2, 1)} 0 0 0"'
        relation = f'<joint joint1="knee" joint2="tail" {polynomial}/>' if self.chance(0.3) else ""
        held = f'<joint joint1="rail" {polynomial}/>' if self.chance(0.3) else ""
        return f"<equality>{relation}{held}</equality>"

    def tendon(self) -> str:
        if self.chance(0.5):
            return ""
        law = self.some({"stiffness": self.positive(0, 30), "damping": self.positive(0, 3)}, 0.7)
        law += " " + self.some(
            {"springlength": self.positive(-1, 1), "range": f"-{self.positive(0, 2)} 2"}, 0.4
        )
        ends = "".join(
            f'<joint joint="{name}" coef="{self.numbers(1, 2)}"/>' for name in ("hip", "tail")
        )
        return f'<tendon><fixed name="belt" {law}>{ends}</fixed></tendon>'
