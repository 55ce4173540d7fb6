"""Contact: where shapes of links touch the ground and each other."""

from artix.contact.ground import Ground
from artix.contact.ground_contacts import GroundContacts, geometry_distances, ground_contacts
from artix.contact.height_field import HeightField
from artix.contact.link_contacts import LinkContacts, link_contacts
from artix.contact.pairs import PairDistances, geometry_pair_distances
from artix.contact.plane import Plane
from artix.contact.scene import Scene

__all__ = [
    "Ground",
    "GroundContacts",
    "HeightField",
    "LinkContacts",
    "PairDistances",
    "Plane",
    "Scene",
    "geometry_distances",
    "geometry_pair_distances",
    "ground_contacts",
    "link_contacts",
]
