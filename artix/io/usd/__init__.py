"""USD with UsdPhysics and the PhysX schema: reading, writing, and the tendon attachment schemas over stock ``pxr``."""

from artix.io.usd.reader import check_usd as check_usd
from artix.io.usd.reader import load_usd as load_usd
from artix.io.usd.reader import load_usd_with_state as load_usd_with_state
from artix.io.usd.tendon_schema import PhysxTendonAttachmentAPI as PhysxTendonAttachmentAPI
from artix.io.usd.tendon_schema import PhysxTendonAttachmentLeafAPI as PhysxTendonAttachmentLeafAPI
from artix.io.usd.tendon_schema import PhysxTendonAttachmentRootAPI as PhysxTendonAttachmentRootAPI
from artix.io.usd.writer import save_usd as save_usd
