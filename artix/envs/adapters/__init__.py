"""Adapters of environments to other libraries, one module each: gymnasium,
Stable-Baselines3, Brax, skrl, rejax (gymnax) and rsl-rl.

Import an adapter by name, as in ``from artix.envs.adapters import brax``. It needs the library it
adapts to.
"""
