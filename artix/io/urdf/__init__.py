"""URDF and xacro: ``parser`` reads elements, ``reader`` checks them and builds the robot,
``writer`` writes it, ``xacro`` expands macros.
"""

from artix.io.urdf.reader import check_urdf as check_urdf
from artix.io.urdf.reader import load_urdf as load_urdf
from artix.io.urdf.writer import save_urdf as save_urdf
