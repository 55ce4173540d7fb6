"""Reads and writes USD with the UsdPhysics and PhysX schemas; provides the tendon attachment schemas for stock USD."""

from artix.io.usd.reader import check_usd as check_usd
from artix.io.usd.reader import load_usd as load_usd
from artix.io.usd.reader import load_usd_with_state as load_usd_with_state
from artix.io.usd.tendon_schema import PhysxTendonAttachmentAPI as PhysxTendonAttachmentAPI
from artix.io.usd.tendon_schema import PhysxTendonAttachmentLeafAPI as PhysxTendonAttachmentLeafAPI
from artix.io.usd.tendon_schema import PhysxTendonAttachmentRootAPI as PhysxTendonAttachmentRootAPI
from artix.io.usd.writer import save_usd as save_usd
