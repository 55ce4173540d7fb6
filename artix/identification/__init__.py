"""From a log to a model: recordings by joint names, and the parameters that explain them."""

from artix.identification.estimation import Identification as Identification
from artix.identification.estimation import cross_validate as cross_validate
from artix.identification.estimation import excitation as excitation
from artix.identification.estimation import identify as identify
from artix.identification.log import Log as Log
from artix.identification.log import read_log as read_log
from artix.identification.trajectories import exciting_trajectory as exciting_trajectory
