"""Training that starts from a policy for another task, as walking starts from standing."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.envs import Environment, EnvState, autoreset
from artix.examples import ppo
from artix.examples.actor_critic import mirror_of, symmetric_moments
from artix.examples.policies import Observed, Policy

Array = jax.Array

#: Number of environments and control steps that show what observations in the new task look like.
_NUM_ENVS, _NUM_STEPS = 64, 200

#: Observations with a smaller variance are taken to be constant: the policy has learned nothing
#: about them.
_CONSTANT = 1e-4


def start_from(
    policy: Policy, environment: Environment, config: ppo.Config, num_devices: int = 1
) -> ppo.Training:
    """Starts a training run from a policy that was trained on another task. The critic is new.

    The first advantages of a critic that knows nothing spoil a policy that already earns much: a
    G1 that walked fell in every episode after 0.4 million steps, with a ``desired_kl`` of 0.006,
    too. Where there is a checkpoint, ``artix train --from`` takes over the critic as well.

    The policy plays for a while to see the means and variances of the observations in its new task.
    They replace those of the old task, and the first layer changes so that the actions stay the
    same. Observations that were constant in the old task, such as a command that was always zero,
    get weights of zero.

    Args:
      policy: a policy with the observations and actions of the environment.
      environment: one environment, without automatic resets.
      config: settings for :func:`artix.examples.ppo.train`, with the policy's layers.
      num_devices: the number of devices to train on.

    Returns:
      The ``training`` argument of :func:`artix.examples.ppo.train`.

    Raises:
      ValueError: the policy has different layers, observations or actions.

    Example::

        standing = policies.load("humanoid_stand")
        slow = commands.VelocityCommands(largest=(0.5, 0.2, 0.4))
        environment = envs.make("humanoid_stand", velocity_commands=slow)
        config = ppo.Config(
            policy_layers=standing.layers, mirror=False
        )  # The policy is not symmetric.
        training = start_from(standing, environment, config)
        for training, report in ppo.train(environment, config, steps=10_000_000, training=training):
            print(report["steps"], report["return"])
    """
    training = ppo.started(environment, config, num_devices)
    new = ppo.policy_of(training, config)
    shapes, expected = (jax.tree.map(jnp.shape, each.parameters) for each in (policy, new))
    if shapes != expected:
        raise ValueError(
            f"the policy does not fit {environment.name}: expected arrays {expected}, found "
            f"{shapes}"
        )
    fleet, mirror = autoreset(environment), mirror_of(environment, config)

    def advance(state: EnvState, _: None) -> tuple[EnvState, None]:
        return jax.vmap(fleet.step)(state, policy(state.obs).astype(state.reward.dtype)), state.obs

    @jax.jit
    def watched() -> Observed:
        state = jax.vmap(fleet.reset)(jax.random.split(jax.random.key(config.seed), _NUM_ENVS))
        seen = jax.lax.scan(advance, state, length=_NUM_STEPS)[1]
        seen = jax.tree.map(lambda x: x.reshape(-1, x.shape[-1]), seen)
        nothing = Observed.nothing(jax.tree.map(lambda x: x[0], seen))
        moments = nothing.moments(seen)
        moments = symmetric_moments(mirror, moments)  # A symmetric policy stays symmetric.
        return nothing.after(moments, _NUM_ENVS * _NUM_STEPS)

    observed = watched()
    parameters = _without_constants(policy).renormalized(observed.of_policy()).parameters
    learner = training.learner
    learner = learner.replace(
        parameters={**learner.parameters, "policy": parameters}, observed=observed
    )
    return training._replace(learner=learner)


def _without_constants(policy: Policy) -> Policy:
    """The policy with weights of zero for observations that were constant."""
    layers = policy.parameters["params"]
    kernel = jnp.where(
        policy.observed.variance[:, None] < _CONSTANT, 0, layers["Dense_0"]["kernel"]
    )
    first = {**layers["Dense_0"], "kernel": kernel}
    parameters = {**policy.parameters, "params": {**layers, "Dense_0": first}}
    return policy.replace(parameters=parameters)
