"""The page *PhysX to artix*: it has every name of PhysX's articulation API, and what it names
exists.

The names are copied from PhysX's documentation of the cache, of the articulation, and of the
direct-GPU enumerations.
"""

from __future__ import annotations

import enum
import re
from pathlib import Path

import pytest

import artix

ROOT = Path(__file__).parents[2]

CACHE = """
externalForces denseJacobian massMatrix jointVelocity jointAcceleration jointPosition jointForce jointSolverForces linkVelocity
linkAcceleration rootLinkData sensorForces coefficientMatrix lambda scratchMemory scratchAllocator coriolisForce
gravityCompensationForce centroidalMomentumMatrix centroidalMomentumBias jointTargetPositions jointTargetVelocities
linkIncomingJointForce linkForce linkTorque version release
"""
ARTICULATION = """
getScene setSolverIterationCounts getSolverIterationCounts isSleeping setSleepThreshold getSleepThreshold
setStabilizationThreshold getStabilizationThreshold setWakeCounter getWakeCounter wakeUp putToSleep setMaxCOMLinearVelocity
getMaxCOMLinearVelocity setMaxCOMAngularVelocity getMaxCOMAngularVelocity createLink release getNbLinks getLinks getNbShapes
setName getName getWorldBounds getAggregate setArticulationFlags setArticulationFlag getArticulationFlags getDofs createCache
getCacheDataSize zeroCache applyCache copyInternalStateToCache packJointData unpackJointData commonInit
computeGeneralizedGravityForce computeGravityCompensation computeCoriolisAndCentrifugalForce computeCoriolisCompensation
computeGeneralizedExternalForce computeJointAcceleration computeJointForce computeDenseJacobian computeCoefficientMatrix
computeLambda computeGeneralizedMassMatrix computeMassMatrix computeArticulationCOM computeCentroidalMomentumMatrix addLoopJoint
removeLoopJoint getNbLoopJoints getLoopJoints getCoefficientMatrixSize setRootGlobalPose getRootGlobalPose
setRootLinearVelocity getRootLinearVelocity setRootAngularVelocity getRootAngularVelocity getLinkAcceleration
getGpuArticulationIndex getGPUIndex createSpatialTendon createFixedTendon getSpatialTendons getNbSpatialTendons getFixedTendons
getNbFixedTendons createMimicJoint getMimicJoints getNbMimicJoints updateKinematic getSolverResidual getConcreteTypeName
~PxArticulationReducedCoordinate is getConcreteType setBaseFlag setBaseFlags getBaseFlags isReleasable userData isKindOf
typeMatch PxArticulationReducedCoordinate mConcreteType mBaseFlags mBuiltInRefCount
"""
GPU = """
getArticulationData setArticulationData computeArticulationData getArticulationGPUAPIMaxCounts PxArticulationGPUAPIMaxCounts
eUPDATE_KINEMATIC eDENSE_JACOBIANS eGENERALIZED_MASS_MATRICES eGENERALIZED_GRAVITY_FORCES eCORIOLIS_AND_CENTRIFUGAL_FORCES
eMASS_MATRICES eCORIOLIS_AND_CENTRIFUGAL_COMPENSATION eGRAVITY_COMPENSATION eARTICULATION_COMS_WORLD_FRAME
eARTICULATION_COMS_ROOT_FRAME eCENTROIDAL_MOMENTUM_MATRICES eJOINT_POSITION eJOINT_VELOCITY eJOINT_ACCELERATION eJOINT_FORCE
eJOINT_TARGET_VELOCITY eJOINT_TARGET_POSITION eROOT_GLOBAL_POSE eROOT_LINEAR_VELOCITY eROOT_ANGULAR_VELOCITY eLINK_GLOBAL_POSE
eLINK_LINEAR_VELOCITY eLINK_ANGULAR_VELOCITY eLINK_LINEAR_ACCELERATION eLINK_ANGULAR_ACCELERATION eLINK_INCOMING_JOINT_FORCE
eFIXED_TENDON eFIXED_TENDON_JOINT eSPATIAL_TENDON eSPATIAL_TENDON_ATTACHMENT eLINK_FORCE eLINK_TORQUE
"""
#: PhysX's enumerations with their values, in PhysX's own words.
ENUMERATIONS = {
    "PxArticulationAxis": "eTWIST=0 eSWING1=1 eSWING2=2 eX=3 eY=4 eZ=5",
    "PxArticulationMotion": "eLOCKED=0 eLIMITED=1 eFREE=2",
    "PxArticulationJointType": "eFIX=0 ePRISMATIC=1 eREVOLUTE=2 eREVOLUTE_UNWRAPPED=3 eSPHERICAL=4",
    "PxArticulationFlag": "eFIX_BASE=1 eDRIVE_LIMITS_ARE_FORCES=2 eDISABLE_SELF_COLLISION=4",
    "PxArticulationDriveType": "eFORCE=0 eACCELERATION=1 eNONE=2",
    "PxArticulationKinematicFlag": "ePOSITION=1 eVELOCITY=2",
    "PxArticulationCacheFlag": "eVELOCITY=1 eACCELERATION=2 ePOSITION=4 eFORCE=8 eLINK_VELOCITY=16 eLINK_ACCELERATION=32 "
    "eROOT_TRANSFORM=64 eROOT_VELOCITIES=128 eJOINT_SOLVER_FORCES=256 eSENSOR_FORCES=512 "
    "eLINK_INCOMING_JOINT_FORCE=1024 eJOINT_TARGET_POSITIONS=2048 "
    "eJOINT_TARGET_VELOCITIES=4096 eLINK_FORCE=8192 eLINK_TORQUE=16384 eALL=247",
    "PxArticulationGPUAPIReadType": "eJOINT_POSITION=0 eJOINT_VELOCITY=1 eJOINT_ACCELERATION=2 eJOINT_FORCE=3 "
    "eJOINT_TARGET_VELOCITY=4 eJOINT_TARGET_POSITION=5 eROOT_GLOBAL_POSE=6 "
    "eROOT_LINEAR_VELOCITY=7 eROOT_ANGULAR_VELOCITY=8 eLINK_GLOBAL_POSE=9 "
    "eLINK_LINEAR_VELOCITY=10 eLINK_ANGULAR_VELOCITY=11 eLINK_LINEAR_ACCELERATION=12 "
    "eLINK_ANGULAR_ACCELERATION=13 eLINK_INCOMING_JOINT_FORCE=14 eFIXED_TENDON=15 "
    "eFIXED_TENDON_JOINT=16 eSPATIAL_TENDON=17 eSPATIAL_TENDON_ATTACHMENT=18",
    "PxArticulationGPUAPIWriteType": "eJOINT_POSITION=0 eJOINT_VELOCITY=1 eJOINT_FORCE=2 eJOINT_TARGET_VELOCITY=3 "
    "eJOINT_TARGET_POSITION=4 eROOT_GLOBAL_POSE=5 eROOT_LINEAR_VELOCITY=6 "
    "eROOT_ANGULAR_VELOCITY=7 eLINK_FORCE=8 eLINK_TORQUE=9 eFIXED_TENDON=10 "
    "eFIXED_TENDON_JOINT=11 eSPATIAL_TENDON=12 eSPATIAL_TENDON_ATTACHMENT=13",
    "PxArticulationGPUAPIComputeType": "eUPDATE_KINEMATIC=0 eDENSE_JACOBIANS=1 eGENERALIZED_MASS_MATRICES=2 "
    "eGENERALIZED_GRAVITY_FORCES=3 eCORIOLIS_AND_CENTRIFUGAL_FORCES=4 eMASS_MATRICES=5 "
    "eCORIOLIS_AND_CENTRIFUGAL_COMPENSATION=6 eGRAVITY_COMPENSATION=7 "
    "eARTICULATION_COMS_WORLD_FRAME=8 eARTICULATION_COMS_ROOT_FRAME=9 "
    "eCENTROIDAL_MOMENTUM_MATRICES=10",
}
SECTIONS = {
    "PxArticulationCache": CACHE.split(),
    "PxArticulationReducedCoordinate": ARTICULATION.split(),
    "Enumerations": list(ENUMERATIONS),
    "Direct-GPU API": GPU.split(),
}


def _page() -> str:
    return (ROOT / "docs/physx.md").read_text(encoding="utf-8")


def rows_of(section: str) -> dict[str, tuple[str, str]]:
    """PhysX's name -> the artix call and the difference, of one section's table."""
    text = re.search(
        rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", _page(), re.DOTALL | re.MULTILINE
    ).group(1)
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \| ([^|]*)\|$", text, re.MULTILINE)
    assert len(rows) == len({name for name, *_ in rows}), section
    return {name: (call.strip(), difference.strip()) for name, call, difference in rows}


def _resolve(call: str):
    """What a dotted name stands for; fields of pytrees count as attributes of their classes."""
    value = artix
    for part in call.removeprefix("artix.").split("."):
        fields = getattr(value, "__dataclass_fields__", {})
        value = (
            fields[part] if part in fields and not hasattr(value, part) else getattr(value, part)
        )
    return value


@pytest.mark.parametrize("section", SECTIONS)
def test_the_page_has_every_name(section: str) -> None:
    """No name is missing, none is invented, and what is not provided says why."""
    rows = rows_of(section)
    assert set(rows) == set(SECTIONS[section])
    for name, (call, difference) in rows.items():
        assert call == "none" or call.startswith("`"), name
        assert call != "none" or len(difference) > 3, name


def test_every_call_on_the_page_exists() -> None:
    calls = set(re.findall(r"`((?:artix|physx)\.[A-Za-z_.0-9]+)`", _page()))
    assert len(calls) > 150
    for call in calls - {"artix.physx"}:
        assert _resolve(call) is not None, call


def test_every_function_is_on_the_page() -> None:
    """What the rows name is called row by row in ``test_physx_checklist.py``."""
    public = [name for name in vars(artix.physx) if name.islower() and not name.startswith("_")]
    exported = {name for name in public if callable(getattr(artix.physx, name))}
    assert len(exported) > 50
    assert {
        name
        for name in exported
        if f"physx.{name}`" not in _page() and f"physx.{name}(" not in _page()
    } == set()


def test_properties_of_a_simulation_have_rows_of_getters() -> None:
    rows = rows_of("PxArticulationReducedCoordinate")
    properties = {
        name: kind
        for name, kind in vars(artix.physx.ArticulationSimulation).items()
        if isinstance(kind, property) and name not in ("topology", "dtype", "control")
    }
    named = {
        found[1]: name
        for name, (call, _) in rows.items()
        if (found := re.match(r"`physx\.ArticulationSimulation\.(\w+)`", call))
    }
    assert set(named) == {*properties, "sleep_threshold"}
    words = {
        attribute: re.sub("^com_|_limit$|^is_", "", attribute).replace("_", "")
        for attribute in named
    }
    for attribute, name in named.items():
        # PhysX's getMaxCOMLinearVelocity is com_linear_velocity_limit.
        assert words[attribute] in name.lower(), name


@pytest.mark.parametrize("name", ENUMERATIONS)
def test_enumerations_have_the_values_of_physx(name: str) -> None:
    wanted = {
        entry.split("=")[0][1:]: int(entry.split("=")[1]) for entry in ENUMERATIONS[name].split()
    }
    found: type[enum.IntEnum] = getattr(artix.physx, name.removeprefix("Px"))
    members = {key: int(value) for key, value in found.__members__.items()}
    own = {"HELICAL"} if name == "PxArticulationJointType" else set()
    assert {key: value for key, value in members.items() if key not in own} == wanted
    assert not {members[key] for key in own} & {*wanted.values(), 5}  # 5 is PhysX's eUNDEFINED.


@pytest.mark.slow
def test_the_examples_on_the_page_run(capsys) -> None:
    namespace: dict = {}
    blocks = re.findall(r"```python\n(.*?)```", _page(), re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "physx.md", "exec"), namespace)
    assert "(18, 18)" in capsys.readouterr().out
    assert namespace["poses"].shape == (8, 18, 7)
