"""artix's own lossless format."""

from artix.io.archive.npz import check_archive as check_archive
from artix.io.archive.npz import load_archive as load_archive
from artix.io.archive.npz import save_archive as save_archive
