"""Stands in for OpenCV: a path names the image that is made in place of being read, blue first."""

import numpy

IMREAD_GRAYSCALE, IMREAD_COLOR, IMREAD_COLOR_RGB, COLOR_BGR2RGB = 0, 1, 256, 4


def imread(filename, flags=IMREAD_COLOR):
    """An image of soft shapes, whose colors the name decides; those of a `grey` one are all the same."""
    draws = numpy.random.default_rng(list(filename.encode()))
    rows, columns = numpy.mgrid[0:48, 0:64] / 64
    image = numpy.zeros((48, 64, 3))
    for channel in range(3):
        a, b, c, level = draws.uniform(2, 9, 3).tolist() + [draws.uniform(80, 170)]
        image[:, :, channel] = level + 60 * numpy.sin(a * rows + b) * numpy.cos(c * columns)
    if filename.startswith("grey"):
        image = numpy.repeat(image[:, :, :1], 3, 2)
    image = image.clip(0, 255).astype(numpy.uint8)
    if flags == IMREAD_GRAYSCALE:
        return image[:, :, 0]
    return numpy.ascontiguousarray(image[:, :, ::-1]) if flags == IMREAD_COLOR_RGB else image


def imdecode(buffer, flags=IMREAD_COLOR):
    """The image that the buffer names."""
    return imread(bytes(buffer).decode(), flags)


def cvtColor(image, code):
    """The image with its channels in the other order."""
    return numpy.ascontiguousarray(image[:, :, ::-1])


class VideoCapture:
    """A film of some frames."""

    def __init__(self, filename):
        self.filename, self.frame = filename, 0

    def read(self):
        """Whether there is another frame, and the frame."""
        self.frame += 1
        return True, imread(f"{self.filename} {self.frame}")
