"""Inverse kinematics: configurations and velocities that satisfy tasks."""

from artix.inverse_kinematics.configurations import Solution as Solution
from artix.inverse_kinematics.configurations import follow as follow
from artix.inverse_kinematics.configurations import solve as solve
from artix.inverse_kinematics.goals import Distances as Distances
from artix.inverse_kinematics.tasks import ComTask as ComTask
from artix.inverse_kinematics.tasks import FrameTask as FrameTask
from artix.inverse_kinematics.tasks import LookAtTask as LookAtTask
from artix.inverse_kinematics.tasks import PostureTask as PostureTask
from artix.inverse_kinematics.tasks import Task as Task
from artix.inverse_kinematics.velocities import VelocityStep as VelocityStep
from artix.inverse_kinematics.velocities import solve_velocity as solve_velocity
