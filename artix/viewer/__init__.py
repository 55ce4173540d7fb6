"""Looking at robots: in a browser, in a notebook, in one file to pass on, and in pictures.

``from artix import viewer``. The extra ``viewer`` (``pip install 'artix[viewer]'``) brings viser,
which shows scenes in a browser, and trimesh, which opens meshes; pictures of robots without meshes
need neither.
"""

from artix.viewer.meshes import TriangleMesh as TriangleMesh
from artix.viewer.meshes import geometry_mesh as geometry_mesh
from artix.viewer.pictures import draw_scene as draw_scene
from artix.viewer.pictures import render_png as render_png
from artix.viewer.pictures import save_video as save_video
from artix.viewer.player import Viewer as Viewer
from artix.viewer.player import save_html as save_html
from artix.viewer.player import scene_html as scene_html
from artix.viewer.player import view as view
from artix.viewer.rasterizer import Camera as Camera
from artix.viewer.scene import Crowd as Crowd
from artix.viewer.scene import Scene as Scene
from artix.viewer.scene import colored as colored
from artix.viewer.scene import make_scene as make_scene
from artix.viewer.scene import scene_of as scene_of
from artix.viewer.sliders import Poser as Poser
from artix.viewer.sliders import joint_range as joint_range
from artix.viewer.sliders import pose as pose
from artix.viewer.visuals import Visual as Visual
from artix.viewer.visuals import collision_visuals as collision_visuals
from artix.viewer.visuals import link_visuals as link_visuals
from artix.viewer.visuals import load_visuals as load_visuals
from artix.viewer.visuals import visuals_of as visuals_of
