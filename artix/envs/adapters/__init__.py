"""Environments in the shapes of other libraries, a module each: gymnasium, Brax, skrl, rejax (gymnax) and rsl-rl.

Each is imported by its name, ``from artix.envs.adapters import brax``, and needs the library that it is for.
"""
