"""Swing-up and balancing of a pole on a cart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

import artix
from artix.envs.control_step import Outcome, Transition
from artix.envs.environment import Environment
from artix.envs.randomization import Change
from artix.math.random_keys import quick
from artix.model.checks import as_number

Array = jax.Array


class CartPole(Environment):
    """A cart swings up a hanging pole and balances it near the middle of its rail.

    The action is the force on the cart, divided by ``force`` [N]. The observation is the cart's
    position [m], the cosine and sine of the pole's angle (1 and 0 upright), and both velocities
    [m/s, rad/s]. The reward is the product of four factors in [0, 1], as in dm_control's
    ``cartpole swingup``: pole upright, cart centred, small force, slow pole. Episodes end only when
    time runs out.

    Args:
      force: force for an action of 1 [N].
      episode_length: number of control steps of 20 ms.
      dtype: floating-point type; JAX's default if ``None``.
      randomization: which parameters of the robot are randomised, see :class:`artix.envs.Change`.

    Raises:
      ValueError: a leaf to randomise does not exist, or the force is not finite.

    Examples:
      >>> from artix import envs
      >>> environment = envs.make("cart_pole")
      >>> state = environment.reset(jax.random.key(0))
      >>> environment.step(state, jnp.array([0.5])).obs.shape
      (5,)
    """

    def __init__(
        self,
        *,
        force: float = 10.0,
        episode_length: int = 500,
        dtype: Any = None,
        randomization: Sequence[Change] = (),
    ) -> None:
        robot = artix.robots.load("cart_pole", dtype=dtype)
        super().__init__(
            "cart_pole",
            robot,
            action_size=1,
            dt=0.02,
            physics_dt=0.01,
            episode_length=episode_length,
            randomization=randomization,
        )
        self.force = as_number("force", force)

    def begin(self, key: Array) -> tuple[artix.State, dict[str, Array]]:
        """Hanging, nearly at rest."""
        small = 0.05 * jax.random.normal(quick(key), (4,), self.articulation.dtype)
        hanging = jnp.array([0.0, jnp.pi], self.articulation.dtype)
        state = artix.neutral_state(self.articulation)
        return state.replace(joint_position=hanging + small[:2], joint_velocity=small[2:]), {}

    def actuate(
        self,
        articulation: artix.Articulation,
        state: artix.State,
        memory: dict[str, Array],
        action: Array,
    ) -> tuple[artix.Control, dict[str, Array]]:
        """The force on the cart."""
        return artix.Control(
            joint_force=jnp.concatenate([self.force * action, jnp.zeros_like(action)])
        ), memory

    def outcome(self, transition: Transition) -> Outcome:
        """The product of the factors."""
        position, speed = transition.state.joint_position, transition.state.joint_velocity
        factors = {
            "upright": 0.5 * (1 + jnp.cos(position[1])),
            "centered": 0.5 * (1 + _bell(position[0], 2.0)),
            "small_force": 0.8 + 0.2 * (1 - transition.action[0] ** 2),
            "slow": 0.5 * (1 + _bell(speed[1], 5.0)),
        }
        reward = jnp.prod(jnp.stack(list(factors.values())))
        metrics = {f"reward/{name}": value for name, value in factors.items()}
        return Outcome(reward, jnp.array(False), transition.memory, metrics)

    def observe(self, transition: Transition) -> Array:
        """Positions and velocities."""
        position, velocity = transition.state.joint_position, transition.state.joint_velocity
        angle = position[1]
        return jnp.concatenate(
            [position[:1], jnp.stack([jnp.cos(angle), jnp.sin(angle)]), velocity]
        )


def _bell(x: Array, width: float) -> Array:
    """1 at zero and 0.1 at ``width``: dm_control's Gaussian tolerance."""
    return 0.1 ** (x / width) ** 2
