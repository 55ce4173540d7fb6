"""Cameras."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt


@dataclasses.dataclass(frozen=True)
class Camera:
    """A camera that looks at a point, with z up in its pictures.

    Attributes:
      position: its position in world axes [m], shape [3].
      look_at: the point at the centre of the picture, in world axes [m], shape [3].
      fov: the angle that the picture's height spans [rad].

    Examples:
      >>> from artix import viewer
      >>> camera = viewer.Camera(position=(3.0, 0.0, 1.0), look_at=(0.0, 0.0, 1.0))
      >>> camera.project(jnp.array([0.0, 0.0, 1.0]), (800, 600)).tolist()
      [400.0, 300.0, 3.0]
    """

    position: npt.ArrayLike
    look_at: npt.ArrayLike
    fov: float = 0.6

    @classmethod
    def around(
        cls,
        points: npt.ArrayLike,
        *,
        azimuth: float = -0.9,
        elevation: float = 0.35,
        aspect: float = 4 / 3,
        fov: float = 0.6,
        margin: float = 1.12,
    ) -> Camera:
        """Places a camera so that all given points are in the picture.

        Args:
          points: points in world axes [m], shape [..., 3].
          azimuth: direction from the points to the camera: angle from x about z [rad].
          elevation: angle of the camera above the horizon [rad].
          aspect: the picture's width over its height.
          fov: the angle that the picture's height spans [rad].
          margin: factor on the smallest distance that suffices.
        """
        cloud = np.asarray(points, float).reshape(-1, 3)
        middle = 0.5 * (cloud.min(axis=0) + cloud.max(axis=0))
        out = np.array([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)])
        right, up, _ = _axes(out)
        half = np.tan(0.5 * fov)
        far = cloud - middle
        needed = [far @ out + np.abs(far @ right) / (half * aspect), far @ out + np.abs(far @ up) / half]
        distance = margin * max(float(np.max(needed)), 1e-3)
        return cls(tuple((middle + distance * out).tolist()), tuple(middle.tolist()), fov)

    def project(self, points: np.ndarray, size: tuple[int, int]) -> np.ndarray:
        """Projects points [..., 3] onto a picture of this width and height: x right, y down [pixels], depth [m]."""
        position = np.asarray(self.position, float)
        right, up, back = _axes(position - np.asarray(self.look_at, float))
        seen = points - position
        depth = -(seen @ back)
        scale = 0.5 * size[1] / np.tan(0.5 * self.fov) / np.where(np.abs(depth) > 1e-9, depth, 1e-9)
        return np.stack([0.5 * size[0] + seen @ right * scale, 0.5 * size[1] - seen @ up * scale, depth], axis=-1)


def _axes(back: np.ndarray) -> np.ndarray:
    """Right, up and back of a camera that looks against ``back``, as rows."""
    back = back / np.linalg.norm(back)
    right = np.cross([0.0, 0.0, 1.0], back)
    if np.linalg.norm(right) < 1e-6:  # It looks straight down or up.
        right = np.array([1.0, 0.0, 0.0])
    right = right / np.linalg.norm(right)
    return np.stack([right, np.cross(back, right), back])
