"""Environments to train policies in: tasks of one robot, as pure functions, in Brax's shape."""

from artix.envs.control_step import EnvState as EnvState
from artix.envs.control_step import Outcome as Outcome
from artix.envs.control_step import Transition as Transition
from artix.envs.environment import Environment as Environment
from artix.envs.environment import autoreset as autoreset
from artix.envs.legged_robot import LeggedRobot as LeggedRobot
from artix.envs.motion import Motion as Motion
from artix.envs.randomization import Change as Change
from artix.envs.randomization import randomize as randomize
from artix.envs.tasks import NAMES as NAMES
from artix.envs.tasks import full_name as full_name
from artix.envs.tasks import make as make
from artix.envs.tasks.imitation import Imitation as Imitation
from artix.math.deprecated import old_modules as _old_modules

_old_modules(__name__)
