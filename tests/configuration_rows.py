"""What Pinocchio has for configurations, joint types and model surgery, and what artix has for it.

Rows of the table *Pinocchio to artix*: the functions or joint models, the call, and what differs. The values are compared
in :mod:`tests.test_configuration`, :mod:`tests.test_composite_joints` and :mod:`tests.test_surgery`.
"""

from __future__ import annotations

_ROOT = "the root's centre of mass and a rotation about world axes, not a screw of its frame"

#: (Pinocchio's names, the artix call, what differs).
CONFIGURATION_ROWS: list[tuple[tuple[str, ...], str, str]] = [
    (("integrate",), "artix.integrate(a, s, dnu)", f"moves {_ROOT}; rotation vectors for quaternions"),
    (("difference",), "artix.difference(a, s, t)", f"that of {_ROOT}"),
    (("interpolate",), "artix.interpolate(a, s, t, fraction)", f"moves {_ROOT}"),
    (("distance",), "artix.distance(a, s, t)", f"length of that of {_ROOT}"),
    (("squaredDistance",), "artix.squared_distance(a, s, t)", "one entry per link, the root first"),
    (("neutral",), "artix.neutral_state(a)", "with zero velocities"),
    (
        ("randomConfiguration",),
        "artix.random_state(a, key)",
        "unlimited DOFs within a turn or a metre; with velocities",
    ),
    (("normalize",), "artix.normalize(a, s)", "also the shortest rotation vectors"),
    (("isNormalized",), "artix.is_normalized(a, s)", "also whether rotation vectors are the shortest"),
    (("isSameConfiguration",), "artix.is_same_configuration(a, s, t)", "either quaternion of a rotation is the same"),
    (("dIntegrate",), "artix.integrate_derivatives(a, s, dnu)", "in the tangent space of `nu`"),
    (("dDifference",), "artix.difference_derivatives(a, s, t)", "in the tangent space of `nu`"),
    (("dIntegrateTransport",), "artix.transport(a, s, dnu, tangents)", "in the tangent space of `nu`"),
    (
        ("tangentMap", "compactTangentMap"),
        "artix.configuration_rate_map(a, s)",
        "rows of rotation vectors for quaternions",
    ),
    (("tangentMapProduct",), "artix.configuration_rate_map(a, s) @ x", "none"),
    (("exp3", "exp3_quat"), "artix.lie.so3_exp(w)", "a quaternion xyzw"),
    (("log3",), "artix.lie.so3_log(quaternion)", "of a quaternion xyzw"),
    (("Jexp3",), "artix.lie.so3_right_jacobian(w)", "none"),
    (("Jlog3",), "artix.lie.so3_right_jacobian_inverse(w)", "a function of the rotation vector"),
    (("exp6", "exp6_quat"), "artix.lie.se3_exp(twist)", "a pose [7]"),
    (("log6",), "artix.lie.se3_log(pose)", "of a pose [7]"),
    (("Jexp6",), "artix.lie.se3_right_jacobian(twist)", "exact at small angles, where pin 4.1 has eight digits"),
    (("Jlog6",), "artix.lie.se3_right_jacobian_inverse(twist)", "a function of the twist"),
]

#: The same for joint models.
JOINT_ROWS: list[tuple[tuple[str, ...], str, str]] = [
    (
        ("JointModelRX", "JointModelRevoluteUnaligned"),
        "artix.Joint.revolute(wrapped=False)",
        "oblique axes by the frames",
    ),
    (
        ("JointModelRUBX", "JointModelRevoluteUnboundedUnaligned"),
        "artix.Joint.revolute()",
        "one angle for cosine and sine",
    ),
    (("JointModelPX", "JointModelPrismaticUnaligned"), "artix.Joint.prismatic()", "oblique axes by the frames"),
    (("JointModelHX", "JointModelHelicalUnaligned"), "artix.Joint.helical(pitch=h)", "oblique axes by the frames"),
    (("JointModelSpherical",), "artix.Joint.spherical()", "a rotation vector for the quaternion"),
    (("JointModelSphericalZYX",), "artix.CompositeJoint.spherical_zyx()", "derivatives are right, in pin 4.1 wrong"),
    (("JointModelUniversal",), "artix.CompositeJoint.universal()", "derivatives are right, in pin 4.1 wrong"),
    (("JointModelPlanar",), "artix.CompositeJoint.planar()", "an angle; velocity along the axes of the parent"),
    (("JointModelTranslation",), "artix.CompositeJoint.translation()", "none"),
    (
        ("JointModelFreeFlyer",),
        "artix.ArticulationBuilder(fixed_base=False) or artix.CompositeJoint.free()",
        "see the page on conventions; within a tree, linear velocity along the axes of the parent",
    ),
    (("JointModelComposite",), "artix.CompositeJoint(joints=[...])", "derivatives are right, in pin 4.1 wrong"),
    (("JointModelMimic",), "artix.mimic_map(a)", "a linear map, with which every algorithm works"),
]

#: The same for what makes models of models.
SURGERY_ROWS: list[tuple[tuple[str, ...], str, str]] = [
    (
        ("buildReducedModel",),
        "artix.lock_joints(a, s, joints)",
        "links stay; the root's velocity is that of its own link",
    ),
    (
        ("appendModel",),
        "artix.attach_articulation(a, link, b, joint)",
        "any joint; the child's names take a prefix; keeps armature, which pin 4.1 drops",
    ),
    (("transformJointIntoMimic",), "artix.mimic_map(a)", "the builder's `add_mimic` says who follows"),
]

ROWS = [*CONFIGURATION_ROWS, *JOINT_ROWS, *SURGERY_ROWS]
