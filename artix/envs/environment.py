"""The environment: random starts, control steps, rewards and observations of one robot, as pure
functions; and automatic resets, by which a new episode begins when one ends.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

import artix
from artix.envs import random_numbers
from artix.envs.control_step import (
    EnvState,
    Moved,
    Outcome,
    Start,
    Task,
    Transition,
    TransitionParts,
    begun,
    evaluated,
    observed,
    readied,
    renewed,
    stepped,
    transition_of,
)
from artix.envs.randomization import Change, check_changes, check_type_of_changes, draw, with_drawn
from artix.model.checks import check_count

Array = jax.Array

#: What an episode without contacts depends on.
_OF_SCENE = ("articulation", "ground", "solver_options")
#: Entries of ``info`` that belong to the environment; all others are the task's memory.
_RESERVED = ("truncation", "steps", "key", "randomized", "contact_memory", "final_obs")


class Environment:
    """One robot with one task; ``jax.vmap`` makes thousands.

    A task defines four pure functions: :meth:`begin`, :meth:`actuate`, :meth:`outcome` and
    :meth:`observe`. It may also define :meth:`draw`, :meth:`prepare`, :meth:`disturb`,
    :meth:`remember`, :meth:`begin_again` and :attr:`mirror`. Outcome and observation are evaluated
    as one kernel (:func:`artix.quantity`), the physics as another, and so are random starts, and
    draws with what follows from them. What ``jax.random`` has no kernel for (float64 numbers,
    permutations of more than 128 entries, draws that repeat until one fits) leaves its kernel to
    XLA, which compiles it longer. In :meth:`begin`, :meth:`draw`, :meth:`disturb` and
    :meth:`prepare` the numbers of ``self.ground`` are an argument's, so Python cannot read them.

    Its attributes may be set until the first :meth:`reset` or :meth:`step`, which compile them into
    kernels; set those of a ``copy.copy`` afterwards. The first call refuses times, lengths and
    changes that do not fit, as the constructor does.

    Attributes:
      name: name of the task.
      articulation: the nominal robot.
      ground: the ground under it; ``None`` if there is none.
      dt: control period [s].
      physics_dt: physics step [s]; ``dt`` is a multiple of it.
      episode_length: number of control steps after which an episode is truncated.
      action_size: length of an action.
      solver_options: options of the physics steps.
      randomization: which parameters of the robot and the ground are randomised, and how.

    Examples:
      >>> environment = envs.make("cart_pole")
      >>> states = jax.vmap(environment.reset)(jax.random.split(jax.random.key(0), 16))
      >>> states = jax.vmap(environment.step)(states, jnp.zeros((16, environment.action_size)))
      >>> print(states.obs.shape, states.reward.shape)
      (16, 5) (16,)
    """

    def __init__(
        self,
        name: str,
        articulation: artix.Articulation,
        *,
        action_size: int,
        dt: float,
        physics_dt: float,
        episode_length: int,
        ground: artix.Ground | None = None,
        solver_options: artix.SolverOptions | None = None,
        randomization: Sequence[Change] = (),
    ) -> None:
        """Stores the arguments as attributes of the same names.

        Raises:
          ValueError: ``dt`` is not a multiple of ``physics_dt``, a length is not positive, a change
            is one that :func:`artix.envs.randomize` refuses, or there is a ground and the solver is
            not ``"implicit"``.
          TypeError: a length is no whole number, ``solver_options`` are none, or ``randomization``
            is no sequence of changes.
        """
        check_type_of_changes(randomization)
        self.name = name
        self.articulation = articulation
        self.ground = ground
        self.dt = float(dt)
        self.physics_dt = float(physics_dt)
        self.episode_length = episode_length
        self.action_size = action_size
        self.solver_options = artix.SolverOptions() if solver_options is None else solver_options
        self.randomization = tuple(randomization)
        self._check()
        self._no_contacts  # noqa: B018, refuses what the physics refuses

    def _check(self) -> None:
        """Refuses attributes that do not fit each other. They may have been set since they were
        given.
        """
        name, dt, physics_dt, options = self.name, self.dt, self.physics_dt, self.solver_options
        if (
            not 0 < physics_dt <= dt < math.inf
            or abs(dt / physics_dt - round(dt / physics_dt)) > 1e-6
        ):
            raise ValueError(
                f"{name}: dt must be a multiple of physics_dt; found dt={dt}, "
                f"physics_dt={physics_dt}"
            )
        for what in ("episode_length", "action_size"):
            check_count(f"{name}: {what}", getattr(self, what))
        if not isinstance(options, artix.SolverOptions):
            raise TypeError(
                f"{name}: solver_options must be artix.SolverOptions; found {options!r}"
            )
        if self.ground is not None and not options.is_implicit:
            raise ValueError(
                f"{name}: solver_options.solver must be 'implicit' on a ground, because "
                "observations, rewards and the next step's initial guess need contact impulses; "
                f"found {options.solver!r}; artix.step has the other solvers"
            )
        check_type_of_changes(self.randomization)
        of_ground = [_of_tree(each) for each in self.randomization if _is_of_ground(each)]
        if self.ground is None and of_ground:
            raise ValueError(f"{name}: there is no ground whose numbers could be randomised")
        of_robot = [each for each in self.randomization if not _is_of_ground(each)]
        check_changes(self.articulation, of_robot)
        check_changes(self.ground, of_ground, "ground.")

    # What programs are compiled from.

    def __setattr__(self, name: str, value: Any) -> None:
        if "_static" in vars(self) and not name.startswith("_"):
            raise AttributeError(
                f"{self.name}: {name!r} cannot change after the first reset or step, as it is "
                "compiled; set it on a copy, copy.copy(environment), or before"
            )
        super().__setattr__(name, value)
        kind: Any = type(self)
        for each in _cached(kind):
            if each != "_no_contacts" or name in _OF_SCENE:
                vars(self).pop(each, None)

    def __copy__(self) -> Environment:
        """An environment with the same attributes, which may be set."""
        copied = object.__new__(type(self))
        vars(copied).update(self.__getstate__())
        return copied

    def __deepcopy__(self, memo: Any) -> Environment:
        """The same: arrays and terms do not change in place."""
        return copy.copy(self)

    def __getstate__(self) -> dict[str, Any]:
        """What copies and other processes get: all but the program's static argument."""
        return {name: value for name, value in vars(self).items() if name != "_static"}

    @functools.cached_property
    def _static(self) -> Task:
        """The environment as a static argument, once it is used."""
        self._check()
        self._no_contacts  # noqa: B018, not within a program
        return Task(self)

    def _on(self, ground: artix.Ground | None) -> Self:
        """The same environment on a ground that is an argument of a kernel, so that a large terrain
        is not compiled into it.
        """
        copied = copy.copy(self)
        vars(copied)["ground"] = ground
        return copied

    @functools.cached_property
    def _no_contacts(self) -> Any:
        """The contact memory with which episodes begin, which is empty.

        Every robot draws a new start in every control step, whether it needs one or not, so all
        control steps would take two physics steps more. Those of the first control step find the
        impulses.
        """
        if self.ground is None:
            return None
        return _empty_memory(self.articulation, self.ground, self.solver_options)

    # Defined by tasks.

    @property
    def mirror(self) -> dict[str, Any] | None:
        """How a mirror image of the robot acts and observes, or ``None`` if the task has no
        symmetry.

        Functions of arrays by name: ``"action"``, and ``"obs"`` or, of two parts, ``"state"`` and
        ``"privileged_state"``. Learners use them to learn symmetric policies.
        """
        return None

    def begin(self, key: Array) -> tuple[artix.State, dict[str, Any]]:
        """Returns a random initial state and the task's initial memory."""
        raise NotImplementedError

    def draw(self, key: Array) -> Any:
        """Draws the random numbers of one step, as a pytree: noise, new commands. Empty by
        default.
        """
        return ()

    def disturb(self, state: artix.State, drawn: Any) -> artix.State:
        """Applies a disturbance drawn for this step, such as a push. Does nothing by default."""
        return state

    def begin_again(self, key: Array, ended: EnvState) -> tuple[artix.State, dict[str, Any]]:
        """As :meth:`begin`, but for an episode that follows one that ended in this state; for
        curricula.
        """
        return self.begin(key)

    def prepare(self, state: artix.State, memory: dict[str, Any], action: Array) -> dict[str, Any]:
        """Updates the memory at the start of a control step, given the action. Does nothing by
        default.
        """
        return memory

    def actuate(
        self,
        articulation: artix.Articulation,
        state: artix.State,
        memory: dict[str, Any],
        action: Array,
    ) -> tuple[artix.Control, dict[str, Any]]:
        """Returns the control for one physics step, and the memory for the next (for actuators with
        a history).
        """
        raise NotImplementedError

    def outcome(self, transition: Transition) -> Outcome:
        """Computes the reward, termination, memory and metrics of a control step."""
        raise NotImplementedError

    def remember(self, transition: Transition, *, is_first: bool) -> dict[str, Any]:
        """Entries of the memory that follow from what is observed, such as its history. Nothing by
        default.

        It is called before every :meth:`observe`, also at a reset, where ``is_first`` is true.
        """
        return {}

    def observe(self, transition: Transition) -> Any:
        """Computes the observation. After a step, the memory is the one that :meth:`outcome`
        returned.
        """
        raise NotImplementedError

    # Called by users.

    def reset(self, key: Array) -> EnvState:
        """Begins an episode.

        Args:
          key: a JAX random key, which determines everything random in the episode.

        Returns:
          The state at the start, with zero reward, done and metrics.

        Raises:
          TypeError: ``key`` is not a key.
          ValueError: the task's outcome has a reward, termination or metric that is not a scalar,
            or a memory whose names, shapes or dtypes differ from those at the start; or a memory or
            metric has a name that the environment uses itself.
        """
        if not isinstance(key, jax.Array):
            raise TypeError(
                f"{self.name}: reset takes a JAX random key, such as jax.random.key(0); found "
                f"{key!r}"
            )
        start, key = begun(self._static, self.ground, key)
        zero = jnp.zeros((), self.articulation.dtype)
        inputs = start.first_parts(self.ground, jnp.zeros(self.action_size, zero.dtype))
        outcome = jax.eval_shape(lambda: self.outcome(transition_of(self, inputs)))
        self._check_outcome(outcome, jax.eval_shape(lambda: start.memory))
        metrics = dict.fromkeys((*outcome.metrics, "nan"), zero)
        info = {
            "truncation": zero,
            "steps": jnp.zeros((), jnp.int32),
            "key": key,
            "randomized": start.randomized,
        }
        info |= {"contact_memory": start.contact_memory} | start.memory
        obs, kept = observed(self._static, self.ground, start)
        return EnvState(start.state, obs, zero, zero, metrics, info | kept)

    def renew(self, key: Array, state: EnvState) -> EnvState:
        """Starts the next episode if the current one is done; :func:`autoreset` calls this.

        Parameters that are randomised once, at the ``"start"``, keep their values.

        Args:
          key: a JAX random key.
          state: the state after a step.

        Returns:
          The given state, or the start of a new episode. Reward, done, truncation and metrics are
          those of the last step either way.
        """
        chosen, obs, steps, key = renewed(self._static, self.ground, key, state)
        entries = {
            "truncation": state.info["truncation"],
            "steps": steps,
            "key": key,
            "randomized": chosen.randomized,
        }
        entries["contact_memory"] = chosen.contact_memory
        return state.replace(articulation_state=chosen.state, obs=obs, info=entries | chosen.memory)

    def step(self, state: EnvState, action: Array) -> EnvState:
        """Advances by one control period.

        If the action, the state, the observation or the reward is not finite, the episode ends with
        reward 0 and ``metrics["nan"]`` is 1. Everything returned is finite.

        Args:
          state: the current state.
          action: [action_size], clipped to [-1, 1] and converted to the articulation's dtype.

        Returns:
          The state one control period later.

        Raises:
          ValueError: the action has the wrong shape, or it is a concrete array (not traced) and not
            finite.
        """
        action = self._checked(action)
        steps, contacts = state.info["steps"], state.info["contact_memory"]
        is_finite = jnp.all(jnp.isfinite(action))
        action = jnp.clip(jnp.where(is_finite, action, 0), -1, 1)
        before = Start(
            state.articulation_state,
            contacts,
            self._memory(state.info),
            state.info["randomized"],
            (),
        )
        ready = readied(self._static, self.ground, state.info["key"], before, action)
        moved = Moved(ready.state, ready.state, contacts, ready.memory)
        moved = self._advance(moved, ready.randomized, action)
        step = TransitionParts(self.ground, ready.randomized, moved, action, ready.drawn)
        end = evaluated(self._static, step, state.articulation_state, is_finite, steps)
        info = {
            "truncation": end.truncation,
            "steps": end.steps,
            "key": ready.key,
            "randomized": ready.randomized,
        }
        info["contact_memory"] = end.contact_memory
        if (
            "final_obs" in state.info
        ):  # A state of an environment with automatic resets keeps its structure.
            info["final_obs"] = end.obs
        return EnvState(end.state, end.obs, end.reward, end.done, end.metrics, info | end.memory)

    def model(
        self, ground: artix.Ground | None, randomized: Sequence[Array]
    ) -> tuple[artix.Articulation, artix.Ground | None]:
        """The robot and the ground of one environment, given the nominal ground and
        ``info["randomized"]``.

        The ground is an argument, so that a large terrain is not compiled into the kernels.
        """
        if not self.randomization:
            return self.articulation, ground
        parts = list(zip(self.randomization, randomized, strict=True))
        shapes: list[Any] = []
        for tree, is_ground in ((self.articulation, False), (ground, True)):
            mine = [
                (_of_tree(change), numbers)
                for change, numbers in parts
                if _is_of_ground(change) == is_ground
            ]
            shapes.append(with_drawn(tree, *zip(*mine, strict=True)) if mine else tree)
        return shapes[0], shapes[1]

    @functools.cached_property
    def observation_size(self) -> int | dict[str, int]:
        """Length of the observation, or a dictionary with the length of each part."""
        obs = jax.eval_shape(lambda: self.reset(jax.random.key(0)).obs)
        return (
            {name: part.shape[0] for name, part in obs.items()}
            if isinstance(obs, dict)
            else obs.shape[0]
        )

    def _checked(self, action: Array) -> Array:
        if jnp.shape(action) != (self.action_size,):
            raise ValueError(
                f"{self.name}: expected an action of shape ({self.action_size},), found "
                f"{jnp.shape(action)}; an environment is one robot: use jax.vmap over batches"
            )
        action = jnp.asarray(action, self.articulation.dtype)
        if not isinstance(action, jax.core.Tracer) and not np.isfinite(np.asarray(action)).all():
            raise ValueError(f"{self.name}: the action must be finite; found {action}")
        return action

    def _check_outcome(self, outcome: Outcome, memory: dict[str, Any]) -> None:
        """Refuses an outcome that does not fit the environment's state. All leaves are shapes."""
        for part, names, reserved in (
            ("memory", memory, _RESERVED),
            ("metric", outcome.metrics, ("nan",)),
        ):
            if taken := sorted({*names} & {*reserved}):
                raise ValueError(
                    f"{self.name}: the {part} {taken[0]!r} is the environment's own; give it "
                    "another name"
                )
        scalars = [
            ("reward", outcome.reward),
            ("terminated", outcome.terminated),
            *outcome.metrics.items(),
        ]
        for name, value in scalars:
            if value.shape != ():
                raise ValueError(
                    f"{self.name}: {name!r} of the outcome must be a scalar; found shape "
                    f"{value.shape}"
                )
        for name in sorted({*memory, *outcome.memory}):
            before, after = (_described(each.get(name)) for each in (memory, outcome.memory))
            if before != after:
                raise ValueError(
                    f"{self.name}: the memory {name!r} is {before} at the start and {after} after "
                    "a step; outcome must return the names, shapes and dtypes that begin returns"
                )

    def _memory(self, info: dict[str, Any]) -> dict[str, Any]:
        """The task's memory, which is everything in ``info`` that is not the environment's own."""
        return {name: value for name, value in info.items() if name not in _RESERVED}

    def _started(self, key: Array, ended: EnvState | None) -> tuple[Start, Array]:
        """The start of an episode, and the key for its first step."""
        begin_key, draw_key, change_key, key = random_numbers.split(key, 4)
        state, memory = (
            self.begin(begin_key) if ended is None else self.begin_again(begin_key, ended)
        )
        randomized = self._drawn(change_key)
        if ended is not None:
            kept = zip(self.randomization, ended.info["randomized"], randomized, strict=True)
            randomized = tuple(old if change.when == "start" else new for change, old, new in kept)
        memory = jax.tree.map(jnp.asarray, memory)  # of Python numbers, too
        return Start(state, self._no_contacts, memory, randomized, self.draw(draw_key)), key

    def _drawn(self, key: Array) -> tuple[Array, ...]:
        """Draws the numbers for each randomised parameter."""
        keys = random_numbers.split(key, max(len(self.randomization), 1))
        trees = [
            self.ground if _is_of_ground(change) else self.articulation
            for change in self.randomization
        ]
        return tuple(
            draw(tree, part, [_of_tree(change)])[0]
            for change, tree, part in zip(self.randomization, trees, keys, strict=False)
        )

    def _drawn_again(self, key: Array, before: tuple[Array, ...]) -> tuple[Array, ...]:
        """The numbers after a control step: those that change during episodes may have been
        redrawn.
        """
        if all(isinstance(change.when, str) for change in self.randomization):
            return before
        draw_key, *keys = random_numbers.split(key, 1 + len(self.randomization))
        problems = []
        for change, old, new, part in zip(
            self.randomization, before, self._drawn(draw_key), keys, strict=True
        ):
            chance = 0.0 if isinstance(change.when, str) else -math.expm1(-self.dt / change.when)
            problems.append(
                jnp.where(random_numbers.uniform(part, 1, old.dtype)[0] < chance, new, old)
            )
        return tuple(problems)

    def _advance(self, start: Moved, randomized: tuple[Array, ...], action: Array) -> Moved:
        """The physics of a control step."""
        articulation, _ = self.model(self.ground, randomized)

        def step(moved: Moved) -> Moved:
            control, memory = self.actuate(articulation, moved.state, moved.memory, action)
            if self.randomization:
                state, contacts = stepped(
                    self._static, self.ground, randomized, moved.state, moved.contacts, control
                )
            else:
                state, contacts = self._step(
                    self.articulation, self.ground, moved.state, moved.contacts, control
                )
            return Moved(moved.state, state, contacts, memory)

        num_steps = round(self.dt / self.physics_dt)
        return (
            jax.lax.fori_loop(0, num_steps, lambda _, moved: step(moved), start)
            if num_steps > 1
            else step(start)
        )

    def _step(
        self,
        articulation: artix.Articulation,
        ground: artix.Ground | None,
        state: artix.State,
        contacts: Any,
        control: artix.Control,
    ) -> tuple[artix.State, Any]:
        """One physics step."""
        scene = artix.Scene(articulation, ground=ground)
        start = state.replace(contact_memory=contacts)
        end = artix.step(scene, start, control, self.physics_dt, self.solver_options)
        return end.replace(contact_memory=None), end.contact_memory


@functools.cache
def _cached(kind: type) -> tuple[str, ...]:
    """Names of what environments of a class compute from their attributes and keep."""
    return tuple(
        name
        for base in kind.__mro__
        for name, value in vars(base).items()
        if isinstance(value, functools.cached_property)
    )


def _empty_memory(
    articulation: artix.Articulation, ground: artix.Ground | None, options: Any
) -> Any:
    """The contact memory at the start of an episode."""
    scene = artix.Scene(articulation, ground=ground)
    return artix.remember_contacts(scene, scene.neutral_state(), options=options).contact_memory


def _described(tree: Any) -> str:
    """Shapes and dtypes of a part of a memory."""
    shapes = [f"{leaf.dtype}{list(leaf.shape)}" for leaf in jax.tree.leaves(tree)]
    return ", ".join(shapes) or "absent"


def _is_of_ground(change: Change) -> bool:
    return change.leaf.startswith("ground.")


def _of_tree(change: Change) -> Change:
    """The change with its leaf named as in the ground."""
    return dataclasses.replace(change, leaf=change.leaf.removeprefix("ground."))


class Wrapper(Environment):
    """An environment with the attributes and methods of another, but for those of its own.

    Attributes:
      unwrapped: the other environment. Attributes that are set are set there.
      overrides: names of the attributes that the wrapper does not take from it; of the class.
    """

    overrides: ClassVar[tuple[str, ...]] = ("unwrapped",)

    def __init__(self, environment: Environment) -> None:
        vars(self)["unwrapped"] = environment

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.unwrapped, name, value)

    def __copy__(self) -> Environment:
        copied = object.__new__(type(self))
        vars(copied).update(vars(self), unwrapped=copy.copy(self.unwrapped))
        return copied

    def __getattribute__(self, name: str) -> Any:
        """All else is the other environment's, which has what the base class only declares."""
        if name in type(self).overrides or name.startswith("__"):
            return super().__getattribute__(name)
        return getattr(self.unwrapped, name)


class _Autoreset(Wrapper):
    overrides = ("unwrapped", "reset", "step")

    def reset(self, key: Array) -> EnvState:
        state = self.unwrapped.reset(key)
        return state.replace(info=state.info | {"final_obs": state.obs})

    def step(self, state: EnvState, action: Array) -> EnvState:
        end = self.unwrapped.step(state, action)
        key, fresh_key = random_numbers.split(end.info["key"])
        chosen = self.unwrapped.renew(fresh_key, end.replace(info=end.info | {"key": key}))
        return chosen.replace(info=chosen.info | {"final_obs": end.obs})


def check_environment(environment: Any) -> None:
    """Raises ``TypeError`` for what is no environment, such as the name of a task, and says how to
    make one.
    """
    if not all(
        hasattr(environment, name) for name in ("reset", "step", "action_size", "episode_length")
    ):
        raise TypeError(
            f"environment: expected artix.envs.Environment, found {type(environment).__name__}; "
            "artix.envs.make(name) makes that of a task"
        )


def autoreset(environment: Environment) -> Environment:
    """The environment with automatic resets.

    A step that ends an episode returns that step's reward, ``done``, ``metrics`` and
    ``info["truncation"]``, but the state and observation of a new episode. These are drawn from the
    key in the state, so no two episodes begin alike. The last observation of the old episode is
    ``info["final_obs"]``; if the episode was truncated, a learner bootstraps from its value.

    Args:
      environment: one environment; one that resets automatically already is returned as it is.

    Returns:
      An environment whose attributes and methods, :meth:`Environment.begin` among them, are those
      of the given one, except ``reset`` and ``step``. The given one is its ``unwrapped``.

    Raises:
      TypeError: it lacks what an :class:`Environment` has, for instance the name of a task.

    Examples:
      >>> from artix import envs
      >>> environment = envs.autoreset(envs.make("cart_pole", episode_length=1))
      >>> state = environment.reset(jax.random.key(0))
      >>> end = environment.step(state, jnp.zeros(environment.action_size))
      >>> float(end.done), float(end.info["truncation"]), int(end.info["steps"])
      (1.0, 1.0, 0)
    """
    check_environment(environment)
    return environment if isinstance(environment, _Autoreset) else _Autoreset(environment)


def without_autoreset(environment: Environment) -> Environment:
    """The environment that :func:`autoreset` was given, for those who reset it themselves: with
    automatic resets, the last observation of an episode would be the first of the next.
    """
    check_environment(environment)
    return environment.unwrapped if isinstance(environment, _Autoreset) else environment
