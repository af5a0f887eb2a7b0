"""From the bytes of an image to what a model takes. Known by content, decoded safely, the pixels that Pillow gives.

Imported by workers only: numpy and Pillow come with it.
"""

from shoal.work.images.pillow import open_image
from shoal.work.images.preparation import ImagePrepare, image_preparation

__all__ = ["ImagePrepare", "image_preparation", "open_image"]
