"""Fast motion: Coriolis forces at the middle of the step, and a bound on the energy at its end.

A step takes Coriolis and gyroscopic forces at its start. That is an explicit Euler step: where
links turn by an angle a within it, the energy grows by a share of up to the order of a^2 in every
step. From a thousandth of a radian on, steps therefore take two measures, and slower steps are as
without them:

* Coriolis forces are those of the velocity at the middle of the step, as in the implicit midpoint
  rule, from one predictor and one corrector. Both are kept as small as rotations of the velocity
  would be, so that nothing explodes where links turn by several radians. A floating base is moved
  with the angular velocity of the midpoint rule of its rigid whole, which conserves energy and
  angular momentum exactly.
* At the end, velocities are scaled so that the kinetic energy is what it was at the start plus the
  work of all forces. The work of each is summed by itself: a difference of energies of large
  velocities would be rounded by more than chains of light links can bear. With a floating base, the
  motion of the joints is scaled and both momenta stay. Angular momentum is lost only where links
  turn by tenths of a radian and the rotation of the whole alone would have too much energy at the
  new poses.

Where the damping of every joint takes more than Coriolis forces can add, a floating base may turn
by a hundredth of a radian, and other links by a tenth, before that counts as fast.

Simo and Wong, *Unconditionally stable algorithms for rigid body dynamics that exactly preserve
energy and momentum*, 1991; Sanz-Serna, *An unconventional symplectic integrator of W. Kahan*, 1994;
Hairer, Lubich and Wanner, *Geometric numerical integration*, 2006, section IV.4 on projections.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from artix.dynamics.inertia import gravity_moments
from artix.dynamics.inverse import gravity_compensation, rigid_body_forces
from artix.dynamics.momentum import kinetic_energy
from artix.kinematics.configuration import generalized_velocity
from artix.kinematics.forward import kinematics
from artix.math import spatial
from artix.math.arrays import identity, matmul, smallest, square_root
from artix.math.tangents import directional_derivative, is_zero, without_derivatives
from artix.math.traces import if_needed, shared
from artix.model.articulation import Articulation, State
from artix.simulation.common.couplings import LoopClosures
from artix.simulation.common.momentum_end import mass_and_momentum
from artix.simulation.common.step_start import evaluate_step_start, link_motion
from artix.simulation.implicit.rows import RowImpulses
from artix.simulation.implicit.system import (
    Acting,
    ImplicitSystem,
    SlowStep,
    drive_impulses,
    implicit_system,
    is_unlimited,
    joint_gains,
    joint_impulse,
    spring_impulse,
)

Array = jax.Array

#: Angle [rad] by which a floating base may turn in a slow step. Measures are no better in every
#: case: an arm that a motor's envelope drives at 1/240 s is 0.056 rad off its small steps after 100
#: steps, and 0.018 rad without them.
_SLOW = 0.01

#: The same for all links if a joint is not damped. Up to 1.5 times this nothing bounds the energy,
#: of which a step adds a few times the square: at a hundredth of a radian, one of 16 double
#: pendulums gained more than 0.1 % in 100 steps, at this none of 10,000.
_SLOW_UNDAMPED = 0.001

#: The same if damping takes a larger share of the velocity of every joint than the square of this.
_SLOW_DAMPED = 0.1

#: Motion is fast as a whole from this multiple of these angles on. Between, the measures grow.
_FAST_RATIO = 1.5

#: From the first to the second angle [rad], the bound on the energy becomes strict.
_BOUNDED, _STRICT = 0.1, 0.2

#: From the first to the second share of the internal motion in the energy of a floating
#: articulation, it may be slowed as much as the bound needs.
_STIFF, _LOOSE = 0.1, 0.3

#: The same for what a step would add, as a share of the energy. Where joints hardly move, a whole
#: that turns by less than a tenth of a radian errs by less.
_TINY_GAIN, _GAIN = 1e-6, 1e-5

#: A joint is at its limit, not beyond, up to this distance in units of the rounding error.
_AT_LIMIT = 64

#: Newton steps for the midpoint rule of a rigid body.
_NEWTON_STEPS = 4


class CoriolisChange(NamedTuple):
    """What Coriolis forces at the middle of the step change in its linear system."""

    impulse: Array
    """Added to the missing impulse, [nv]."""
    start: Array
    """Added to the coordinates of the velocity at the start, [nv]."""
    velocity: Array
    """Added to the velocity without bounds, [nv]."""


class EndVelocity(NamedTuple):
    """The velocity at the end of a step. A change of it would not do: where velocities have to
    become hundreds of times smaller, it would be rounded as they are.
    """

    root: Array | None
    """Of the root, [6]; ``None`` if it is fixed."""
    joints: Array
    """Of the joints, [n]."""
    energy: Array
    """What was added to the kinetic energy [J], []."""


def slow_step(
    articulation: Articulation, state: State, acting: Acting, loops: LoopClosures | None
) -> SlowStep:
    """The linear system of a step before measures for fast motion."""
    before = acting.replace(fast_impulse=jnp.zeros_like(acting.fast_impulse))
    # The rules of both measures differentiate it. Indices of loop joints have to stay known.
    evaluate = _slow_step if loops is None else _slow_step_of
    return evaluate(articulation, state, before, loops)


def _slow_step_of(
    articulation: Articulation, state: State, acting: Acting, loops: LoopClosures | None
) -> SlowStep:
    at_start = evaluate_step_start(articulation, state, with_all=False)
    motion = link_motion(at_start, generalized_velocity(articulation, state))
    system = implicit_system(articulation, state, at_start, acting, loops)
    share = _share(articulation, state, motion, acting, system)
    return SlowStep(motion, at_start.mass_matrix, system, share)


_slow_step = shared(_slow_step_of)


def _share(
    articulation: Articulation, state: State, motion: Array, acting: Acting, system: ImplicitSystem
) -> Array:
    base = articulation.topology.num_base_dofs
    response = system.response.diagonal[base:]
    damped = joint_gains(articulation, state, acting) * response
    # A drive at its limit does not damp: without all that have limits.
    drives = acting.in_matrix * drive_impulses(articulation, state, acting).gain * response
    limited = jnp.where(is_unlimited(articulation), 0, drives)
    damped = (damped - limited) / (1 - limited)
    slow = smallest(_SLOW_UNDAMPED**2 + damped, _SLOW_DAMPED**2)
    ratio = _angle(motion, acting.dt) ** 2 / slow
    if base:
        ratio = jnp.maximum(ratio, jnp.sum((acting.dt * state.root_velocity[3:]) ** 2) / _SLOW**2)
    return _ramp(ratio, 1, _FAST_RATIO**2)


def _angle(motion: Array, dt: Array) -> Array:
    """The largest angle [rad] by which a link turns in a step."""
    return dt * square_root(jnp.max(jnp.sum(motion[:, 3:] ** 2, axis=1)))


def with_centered_forces(
    articulation: Articulation, state: State, acting: Acting, loops: LoopClosures | None
) -> tuple[Acting, SlowStep, ImplicitSystem]:
    """The linear system of a step with the Coriolis forces at its middle, if the motion is fast;
    and the step without them.
    """
    inputs = articulation, state, acting, loops
    # The rule of the solution and that of measures have all derivatives of the system.
    slow = slow_step(*without_derivatives(inputs))
    system = slow.system
    nothing = CoriolisChange(*(jnp.zeros_like(system.velocity) for _ in CoriolisChange._fields))
    change = _if_fast(_coriolis_change, slow, inputs, (), nothing)
    start, velocity = system.start + change.start, system.velocity + change.velocity
    acting = acting.replace(fast_impulse=change.impulse)
    return acting, slow, system._replace(start=start, velocity=velocity)


def with_bounded_energy(
    articulation: Articulation,
    state: State,
    acting: Acting,
    loops: LoopClosures | None,
    slow: SlowStep,
    velocity: Array,
    end: State,
    rows: RowImpulses,
) -> tuple[State, Array]:
    """The end of a step whose kinetic energy is bounded if the motion is fast, and the change of
    the energy [J].

    Args:
      articulation: the articulation.
      state: the state at the start of the step.
      acting: what acted during the step.
      loops: the closures of its loop joints.
      slow: the step before measures for fast motion.
      velocity: the generalised velocity that solves the step, at the poses at its start, [nv].
      end: the end of the step.
      rows: the impulses of all rows during the step.
    """
    inputs = articulation, state, acting, loops
    root = end.root_velocity if articulation.topology.num_base_dofs else None
    unbounded = EndVelocity(root, end.joint_velocity, jnp.zeros_like(acting.dt))
    bounded = _if_fast(_bounded_end, slow, inputs, (velocity, end, rows), unbounded)
    root = end.root_velocity if bounded.root is None else bounded.root
    return end.replace(root_velocity=root, joint_velocity=bounded.joints), bounded.energy


# --- evaluation only where it is needed ---------------------------------------------------------


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _if_fast(
    function: Callable[..., Any], slow: SlowStep, inputs: Any, rest: Any, otherwise: Any
) -> Any:
    """``function(1, slow, articulation, state, acting, *rest)`` if motion is fast, and what is
    ``otherwise`` if it is slow; a mean of both between. ``slow`` is the slow step of the inputs.

    Functions multiply by the number one what a kernel should not compute before the loop.
    """
    articulation, state, acting, _ = inputs
    arguments = slow, articulation, state, acting, *rest
    share = slow.share

    def blended(one: Array) -> Any:
        fast = function(one, *arguments)
        return jax.tree.map(lambda new, old: (1 - share) * old + share * new, fast, otherwise)

    return if_needed(share > 0, blended, jnp.ones_like(share), otherwise)


@functools.partial(_if_fast.defjvp, symbolic_zeros=True)
def _if_fast_jvp(function: Callable[..., Any], primals, tangents):
    """Tangents of the slow step are not used: its derivatives are needed only where motion is fast,
    so they follow from the inputs, within what is masked.
    """
    slow, inputs, rest, otherwise = primals

    def added(moving: tuple[Any, Any, Any]) -> Any:
        (articulation, state, acting, loops), rest, otherwise = moving
        slow = slow_step(articulation, state, acting, loops)
        fast = function(jnp.ones_like(slow.share), slow, articulation, state, acting, *rest)
        return jax.tree.map(lambda new, old: slow.share * (new - old), fast, otherwise)

    is_fast = slow.share > 0

    def where_fast(change: Any) -> Any:
        return change if is_zero(change) else jnp.where(is_fast, change, 0)

    # Quotients of tiny velocities have infinite derivatives. Forward mode drops them where the
    # result is masked, and reverse mode, which multiplies them by zero, where the tangents are.
    moving = jax.tree.map(where_fast, tangents[1:], is_leaf=is_zero)
    value = _if_fast(function, slow, inputs, rest, otherwise)
    slowly = jax.tree.map(
        lambda x, dx: jnp.zeros_like(x) if is_zero(dx) else dx, value, tangents[3]
    )
    change = directional_derivative(added, (inputs, rest, otherwise), tuple(moving))
    if change is None:
        return value, slowly
    return value, jax.tree.map(lambda slow, more: slow + where_fast(more), slowly, change)


# --- Coriolis forces at the middle of the step --------------------------------------------------


@shared
def _coriolis_change(
    one: Array,
    slow: SlowStep,
    articulation: Articulation,
    state: State,
    acting: Acting,
) -> CoriolisChange:
    system, mass_matrix = slow.system, slow.mass_matrix
    dt, base = acting.dt, articulation.topology.num_base_dofs
    response, before = system.response, one * generalized_velocity(articulation, state)
    motion, twice = _relative_motion(articulation, mass_matrix, before)
    at_rest = gravity_compensation(articulation, state)

    def coriolis(velocity: Array) -> Array:
        there = _with_velocity(state, velocity, base)
        return dt * (rigid_body_forces(articulation, there, None, gravity=True) - at_rest)

    at_start = one * coriolis(generalized_velocity(articulation, state))
    effect_at_start = response.effect(at_start[None])[0]
    # What a rotation of the velocity by these forces would be according to the midpoint rule.
    energy = response.energy(at_start, effect_at_start)
    ratio = jnp.where(twice > 0, energy / jnp.where(twice > 0, twice, 1), 0)
    share = 1 / (1 + 0.25 * ratio)
    fall = (
        response.velocity(system.start - (1 - share) * effect_at_start)
        + 0.5 * ratio * share * motion
    )
    middle = before - 0.5 * fall
    at_middle = coriolis(middle)
    effect = response.effect(at_middle[None])[0]

    def limit(impulse: Array, effect: Array) -> Array:
        """The factor that makes a change of the velocity as large as rotations can be: twice the
        velocity.
        """
        return _at_most(response.energy(impulse, effect), 4 * twice)

    factor = limit(at_middle, effect)
    impulse, effect = factor * at_middle, factor * effect
    if base:
        shift = matmul(
            mass_matrix[:, :6], _rigid_shift(mass_matrix, before, middle, at_middle, factor, dt)
        )
        impulse, effect = impulse - shift, effect - response.effect(shift[None])[0]
        # Contacts act on this velocity: where links turn by radians, the shift must not add energy,
        # either.
        factor = limit(impulse, effect)
        impulse, effect = factor * impulse, factor * effect
    impulse, start = impulse - at_start, effect - effect_at_start
    return CoriolisChange(impulse, start, -response.velocity(start))


@shared
def _rigid_shift(
    mass_matrix: Array, before: Array, middle: Array, impulse: Array, limit: Array, dt: Array
) -> Array:
    """The twist [6] that the root must move with in addition, for its rigid whole to follow the
    midpoint rule.

    Args:
      mass_matrix: the mass matrix, [nv, nv].
      before: the velocity at the start of the step, [nv].
      middle: the velocity of which the Coriolis forces are, [nv].
      impulse: their impulse, [nv].
      limit: the factor by which it is limited.
      dt: length of the step [s].
    """
    mass, m = mass_matrix[0, 0], mass_matrix
    center = jnp.stack([m[1, 5], m[2, 3], m[0, 4]])[:, None] / mass
    spread = jnp.sum(center**2) * identity(3, m.dtype) - center * center.T
    inertia = (m[3:6, 3:6] - mass * spread)[:, :, None]
    inverse = spatial.inverse_of_inertia(inertia)

    def about_center(momentum: Array) -> Array:
        return momentum[3:6, None] - spatial.cross(center, momentum[:3, None])

    momentum = about_center(matmul(m[:6], before))
    start = spatial.apply(inverse, momentum)
    omega = start
    for _ in range(_NEWTON_STEPS):
        # The rule in axes at the start: I w + dt / 2 w x I w = L. It turns the body by a Cayley
        # transform. With a longer dt that is the turn by w dt, and energy is conserved with any.
        half = 0.5 * dt * _tangent_ratio(0.25 * dt**2 * jnp.sum(omega**2))
        spin = spatial.apply(inertia, omega)
        error = spin + half * spatial.cross(omega, spin) - momentum
        slope = spatial.multiply(spatial.skew(omega), inertia) - spatial.skew(spin)
        omega = omega - spatial.apply(spatial.inverse_of_inertia(inertia + half * slope), error)
    # The solution has at most the energy of the start. Newton's method need not have arrived if the
    # whole turns far.
    omega = omega * _at_most(
        jnp.sum(omega * spatial.apply(inertia, omega)), jnp.sum(start * momentum)
    )
    # Coriolis forces change the angular velocity of the whole by the first of these, until the
    # middle of the step by half of it. The second is the part of gyroscopic forces, in whose place
    # the rule is.
    change = -spatial.apply(inverse, about_center(impulse))
    at_middle = spatial.apply(inverse, about_center(matmul(m[:6], middle)))
    torque = spatial.cross(spatial.apply(inertia, at_middle), at_middle)
    gyroscopic = dt * spatial.apply(inverse, torque)
    shift = omega - start - 0.5 * limit * (change + gyroscopic)
    return jnp.concatenate([spatial.cross(center, shift), shift])[:, 0]


def _at_most(energy: Array, most: Array) -> Array:
    """The factor of a velocity with this energy that leaves it at most another one."""
    is_large = energy > most
    return jnp.where(is_large, square_root(most) / jnp.sqrt(jnp.where(is_large, energy, 1)), 1)


def _tangent_ratio(square: Array) -> Array:
    """tan(x) / x as a function of x squared, with a tangent of at most 3."""
    tiny = square < 1e-4
    x = jnp.sqrt(jnp.where(tiny, 1, square))
    return jnp.where(tiny, 1 + square / 3, jnp.clip(jnp.tan(x), -3, 3) / x)


def _relative_motion(
    articulation: Articulation, mass_matrix: Array, velocity: Array
) -> tuple[Array, Array]:
    """The velocity [nv] relative to the centre of mass of a floating articulation, and twice its
    kinetic energy.
    """
    base = articulation.topology.num_base_dofs
    if base:
        velocity = velocity.at[:3].set(0)
        velocity = velocity.at[:3].set(-matmul(mass_matrix[:3], velocity) / mass_matrix[0, 0])
    armature = jnp.sum(articulation.armature * velocity[base:] ** 2)
    return velocity, jnp.sum(velocity * matmul(mass_matrix, velocity)) + armature


def _with_velocity(state: State, velocity: Array, base: int) -> State:
    root = velocity[:6] if base else state.root_velocity
    return state.replace(root_velocity=root, joint_velocity=velocity[base:])


# --- the bound on the energy --------------------------------------------------------------------


@shared
def _bounded_end(
    one: Array,
    slow: SlowStep,
    articulation: Articulation,
    state: State,
    acting: Acting,
    velocity: Array,
    end: State,
    rows: RowImpulses,
) -> EndVelocity:
    dt, base, velocity = acting.dt, articulation.topology.num_base_dofs, one * velocity
    mean, allowed = _allowed_energy(one, slow, articulation, state, acting, velocity, rows)
    weight = gravity_compensation(articulation, state)
    angle = one * _angle(slow.motion, dt)
    strict = _ramp(angle, _BOUNDED, _STRICT)
    joints = one * end.joint_velocity
    # Nothing is added where that would exceed a speed limit.
    is_limited = jnp.any((1 + angle) * joints**2 > articulation.max_joint_velocity**2)
    # A joint beyond its limits returns at the speed that the step has found, unless links turn far.
    # One that rests at a limit is beyond it by rounding, in every other step.
    lower, upper = articulation.joint_lower_limit, articulation.joint_upper_limit
    rounding = _AT_LIMIT * jnp.finfo(lower.dtype).eps
    is_low = state.joint_position < lower - rounding * (1 + jnp.abs(lower))
    is_high = state.joint_position > upper + rounding * (1 + jnp.abs(upper))
    returns = jnp.any(is_low | is_high)
    most = jnp.where(is_limited | returns, 1, 1 + angle)
    end = end.replace(joint_velocity=joints)
    if not base:  # Nothing else needs the poses at the end.
        end = end.replace(joint_position=one * end.joint_position)
        # The work of gravity along the mean velocity errs by an oscillation that slow motion keeps.
        # Energy is added only for what is curved: positions move with the velocity at the end,
        # which costs energy on a straight way, too.
        work = _height_energy(articulation, state) - _height_energy(articulation, end)
        curved = jnp.maximum(work + dt * jnp.sum(weight * velocity), 0)
        allowed = allowed + strict * jnp.minimum(work + dt * jnp.sum(weight * mean), curved)
        energy = kinetic_energy(articulation, end, armature=True)
        scale = square_root(_ratio(allowed, energy, jnp.where(returns, 1 - strict, 0), most))
        return EndVelocity(None, scale * joints, (scale**2 - 1) * energy)
    still = end.replace(root_velocity=end.root_velocity.at[:3].set(0))
    moments, momentum = mass_and_momentum(articulation, still)
    center, mass = moments.first / moments.mass, moments.mass[0]
    linear, second = momentum[:3], moments.second - moments.first[:, None] * center[None]
    locked = spatial.trace(second)[None, None] * spatial.identity_like(center) - second
    angular = momentum[3:] - spatial.cross(center, linear)
    omega = spatial.apply(spatial.inverse_of_inertia(locked), angular)
    rigid = 0.5 * jnp.sum(omega * angular)
    total = kinetic_energy(articulation, still, armature=True) - 0.5 * jnp.sum(linear**2) / mass
    inner = jnp.maximum(total - rigid, 0)
    # Where the whole turns and joints hardly move, what it errs by must not change their motion
    # much, unless it is much itself.
    unit = jnp.where(total > 0, total, 1)
    loose = _ramp(jnp.where(total > 0, inner / unit, 0), _STIFF, _LOOSE)
    loose = jnp.maximum(loose, _ramp((total - allowed) / unit, _TINY_GAIN, _GAIN))
    least = 1 - jnp.maximum(jnp.minimum(angle, 1), jnp.maximum(strict, loose))
    least = jnp.where(returns, 1 - strict, least)
    scale = square_root(_ratio(allowed - rigid, inner, least, most))
    slower = square_root(_ratio(allowed, rigid, 1 - strict, 1))
    # Velocities of the centre of mass, and relative to it: of the rigid whole, and what the joints
    # add.
    drift = linear / mass
    moves = jnp.concatenate([end.root_velocity[:3, None] + drift, jnp.zeros_like(omega)])
    turns = jnp.concatenate([spatial.cross(center, omega), omega])
    rest = jnp.concatenate([-drift, still.root_velocity[3:, None]]) - turns
    root = (moves + slower * turns + scale * rest)[:, 0]
    energy = (scale**2 - 1) * inner + (slower**2 - 1) * rigid
    return EndVelocity(root, scale * joints, energy)


def _allowed_energy(
    one: Array,
    slow: SlowStep,
    articulation: Articulation,
    state: State,
    acting: Acting,
    velocity: Array,
    rows: RowImpulses,
) -> tuple[Array, Array]:
    """The mean velocity [nv] relative to the centre of mass, and the kinetic energy [J] of the
    motion relative to it that a step may end with: that at its start plus the work of all forces.
    """
    mass_matrix, dt, base = slow.mass_matrix, acting.dt, articulation.topology.num_base_dofs
    before = one * generalized_velocity(articulation, state)
    moving, _ = _relative_motion(articulation, mass_matrix, before)
    ending, twice = _relative_motion(articulation, mass_matrix, velocity)
    mean = 0.5 * (moving + ending)
    start = kinetic_energy(articulation, _with_velocity(state, moving, base), armature=True)
    weight = gravity_compensation(articulation, state)
    at_rest = _with_velocity(state, jnp.zeros_like(velocity), base)
    loads = rigid_body_forces(articulation, at_rest, None, one * acting.wrench, gravity=False)
    joints = joint_impulse(articulation, state, acting, velocity)
    taken = dt * jnp.sum((weight + loads) * mean) + jnp.sum(joints * mean[base:])
    springs = spring_impulse(acting, velocity)
    if springs is not None:
        taken = taken + jnp.sum(springs * mean)
    by_forces = start + rows.work(mean) - taken
    # The same, but for rounding, without impulses of rows, whose derivatives would cost more.
    inertial = rigid_body_forces(articulation, state, None, gravity=True) - weight
    by_inertia = 0.5 * twice + jnp.sum((dt * inertial + acting.fast_impulse) * mean)
    return mean, _with_derivative_of(by_inertia, by_forces)


@jax.custom_jvp
def _with_derivative_of(other: Array, value: Array) -> Array:
    """A value, with the derivative of another number that is the same but for rounding."""
    return value


@_with_derivative_of.defjvp
def _with_derivative_of_jvp(primals, tangents):
    return primals[1], tangents[0]


def _ramp(x: Array, low: float, high: float) -> Array:
    """0 up to a first number, 1 from a second one on."""
    return jnp.clip((x - low) / (high - low), 0, 1)


def _ratio(wanted: Array, energy: Array, least: Array | float, most: Array | float) -> Array:
    """The factor between two bounds that an energy needs; 1 where there is none."""
    positive = energy > 0
    share = jnp.where(positive, wanted / jnp.where(positive, energy, 1) - 1, 0)
    # Two evaluations of the same energy differ by rounding, by which a wheel would become slower
    # and slower. The derivatives are those of what this rounds.
    rounding = jnp.abs(share) <= 16 * jnp.finfo(share.dtype).eps
    return 1 + jnp.clip(
        share - jax.lax.stop_gradient(jnp.where(rounding, share, 0)), least - 1, most - 1
    )


def _height_energy(articulation: Articulation, state: State) -> Array:
    """Potential energy relative to the centre of mass of the root [J]."""
    _, moment = gravity_moments(articulation, kinematics(articulation, state))
    return -jnp.sum(jnp.sum(moment, axis=1) * articulation.gravity)
