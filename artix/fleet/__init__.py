"""Many articulations in one program."""

from artix.fleet.fleet import Fleet as Fleet
