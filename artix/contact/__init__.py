"""Contact: where shapes of links touch the ground and each other."""

from typing import TYPE_CHECKING

from artix.contact.ground import Ground as Ground
from artix.contact.ground import Plane as Plane
from artix.contact.ground_contacts import GroundContacts as GroundContacts
from artix.contact.ground_contacts import geometry_distances as geometry_distances
from artix.contact.ground_contacts import ground_contacts as ground_contacts
from artix.contact.height_field import HeightField as HeightField
from artix.contact.link_contacts import LinkContacts as LinkContacts
from artix.contact.link_contacts import link_contacts as link_contacts
from artix.contact.pairs import PairDistances as PairDistances
from artix.contact.pairs import geometry_pair_distances as geometry_pair_distances
from artix.contact.scene import Scene as Scene
from artix.math.deprecated import exports as _exports

if not TYPE_CHECKING:
    __all__, __getattr__ = _exports(__name__)
