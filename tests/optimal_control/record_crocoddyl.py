"""Records the optimum that Crocoddyl finds for a trot, in an environment of its own; ``--measure``
times an iteration.

``pip install crocoddyl==3.2.1 pin==4.0.0``; with later versions of pin its wheel crashes. The root
is a translation and then a spherical joint, so that a step of both libraries moves the base alike;
as one composite joint, derivatives of contact dynamics by its rotation would be wrong by a sixth.
"""

import sys
import time
from pathlib import Path

import crocoddyl
import numpy as np
import pinocchio as pin

TESTS = Path(__file__).parents[1]
URDF = str(TESTS.parent / "artix" / "robots" / "quadruped.urdf")
KNOTS, DT, GAIN = 16, 0.02, 20.0
FEET = [f"{end}_{side}_foot" for end in ("front", "rear") for side in ("left", "right")]
WEIGHTS = {"state": 1.0, "control": 1e-3, "force": 1e-4, "foot": 20.0, "final": 10.0}


def floating_model() -> pin.Model:
    base, still = pin.Model(), pin.SE3.Identity()
    position = base.addJoint(0, pin.JointModelTranslation(), still, "position")
    rotation = base.addJoint(position, pin.JointModelSpherical(), still, "rotation")
    base.addFrame(pin.Frame("base", rotation, 0, still, pin.FrameType.BODY))
    body = pin.buildModelFromUrdf(URDF)
    return pin.appendModel(base, body, base.getFrameId("base"), still)


class Motors(crocoddyl.ActuationModelAbstract):
    """Forces of all joints but the root's two."""

    def __init__(self, state):
        super().__init__(state, state.nv - 6)

    def calc(self, data, x, u):
        data.tau = np.concatenate([np.zeros(6), u])

    def calcDiff(self, data, x, u):
        data.dtau_du = np.eye(self.nu + 6)[:, 6:]


def standing(model: pin.Model) -> np.ndarray:
    q = pin.neutral(model)
    for name, angle in (("hip_pitch", 0.8), ("knee", -1.5)):
        for foot in FEET:
            q[model.joints[model.getJointId(foot.replace("foot", name))].idx_q] = angle
    q[2] = 0.33
    return q


def knot(state, actuation, active, target: np.ndarray, feet: np.ndarray, final: bool):
    contacts = crocoddyl.ContactModelMultiple(state, actuation.nu)
    costs = crocoddyl.CostModelSum(state, actuation.nu)

    def add(name: str, residual, weight: float) -> None:
        costs.addCost(name, crocoddyl.CostModelResidual(state, residual), weight)

    add(
        "state",
        crocoddyl.ResidualModelState(state, target, actuation.nu),
        WEIGHTS["final" if final else "state"],
    )
    if not final:
        add("control", crocoddyl.ResidualModelControl(state, actuation.nu), WEIGHTS["control"])
    for name, stands, place in zip(FEET, active, feet, strict=True):
        frame = state.pinocchio.getFrameId(name)
        if final:
            continue
        if stands:
            held = crocoddyl.ContactModel3D(
                state, frame, np.zeros(3), pin.LOCAL, actuation.nu, np.array([0.0, GAIN])
            )
            contacts.addContact(name, held)
            force = crocoddyl.ResidualModelContactForce(
                state, frame, pin.Force.Zero(), 3, actuation.nu
            )
            add(f"force {name}", force, WEIGHTS["force"])
        else:
            swing = crocoddyl.ResidualModelFrameTranslation(
                state, frame, place + [0.03, 0, 0.05], actuation.nu
            )
            add(f"foot {name}", swing, WEIGHTS["foot"])
    model = crocoddyl.DifferentialActionModelContactFwdDynamics(
        state, actuation, contacts, costs, 0.0, True
    )
    # Costs of knots count times the step; that of the end, whose step is zero, as it is.
    return crocoddyl.IntegratedActionModelEuler(model, 0.0 if final else DT)


def shooting(model: pin.Model, num_knots: int, swap: int):
    """The solver, a guess, the pattern of contacts, and where feet stand."""
    state, data = crocoddyl.StateMultibody(model), model.createData()
    # The class above runs in Python, which a measurement must not.
    actuation = (
        crocoddyl.ActuationModelFloatingBase(state)
        if model.existJointName("root_joint")
        else Motors(state)
    )
    q = standing(model)
    pin.framesForwardKinematics(model, data, q)
    feet = np.stack([data.oMf[model.getFrameId(name)].translation for name in FEET])
    start = np.concatenate([q, np.zeros(model.nv)])
    start[model.nq] = 0.2  # it moves ahead
    target = np.concatenate([q, np.zeros(model.nv)])
    pattern = np.array(
        [[1, 0, 0, 1] if t // swap % 2 == 0 else [0, 1, 1, 0] for t in range(num_knots)]
    )
    knots = [knot(state, actuation, active, target, feet, False) for active in pattern]
    problem = crocoddyl.ShootingProblem(
        start, knots, knot(state, actuation, pattern[-1], target, feet, True)
    )
    gravity = pin.computeGeneralizedGravity(model, data, q)[6:]
    return (
        crocoddyl.SolverFDDP(problem),
        ([start] * (num_knots + 1), [gravity] * num_knots),
        pattern,
        feet,
    )


def main() -> None:
    model = floating_model()
    solver, guess, pattern, feet = shooting(model, KNOTS, KNOTS // 2)
    solver.th_stop = 1e-18
    solver.solve(*guess, 300, False, 1e-9)
    print(solver.cost, solver.iter, solver.stop, solver.isFeasible)
    names = [model.names[k] for k in range(3, model.njoints)]
    order = [model.joints[model.getJointId(name)].idx_v - 6 for name in names]
    np.savez_compressed(
        TESTS / "data" / "crocoddyl_trot.npz",
        joint_names=np.array(names),
        positions=np.array(solver.xs)[:, : model.nq][:, [*range(7), *(7 + k for k in order)]],
        joint_velocities=np.array(solver.xs)[:, model.nq + 6 :][:, order],
        controls=np.array(solver.us)[:, order],
        active=pattern,
        feet=feet,
        cost=solver.cost,
    )


def measure(repetitions: int = 30) -> None:
    """Prints what the first iteration over 50 knots takes, for one robot: least wall time and least
    CPU time [ms]."""
    model = pin.buildModelFromUrdf(URDF, pin.JointModelFreeFlyer())
    solver, guess, _, _ = shooting(model, 50, 10)
    times = []
    for _ in range(repetitions):
        begin = time.perf_counter(), time.process_time()
        solver.solve(*guess, 1, False, 1e-9)
        times.append(
            (1e3 * (time.perf_counter() - begin[0]), 1e3 * (time.process_time() - begin[1]))
        )
    print(*np.min(times, axis=0))


if __name__ == "__main__":
    measure() if "--measure" in sys.argv else main()
