"""What code tells about the releases that it was written for."""

from pathlib import Path

import pytest

from dllint.interp.source.clues import clues_in
from dllint.interp.source.project import Project


@pytest.mark.parametrize(
    ("code", "clues"),
    [
        ("print 'reading'", {"python 2"}),
        ("try:\n    x = 1\nexcept IOError, error:\n    pass", {"python 2"}),
        ("if not there:\n    raise IOError, 'no such file'", {"python 2"}),
        ("raise (IOError, 'no such file')", set()),
        ("name = raw_input('name: ')", {"python 2"}),
        ("def move(x):\n    return x.cuda(device, async=True)", {"python 3.6"}),
        ("total += self.loss_G.data[0]", {"item"}),
        ("for i in xrange(3):\n    print(cost.data[0])", {"python 2", "item"}),
        ("print('print x')  # loss.data[0]", set()),
        ('"""\nprint the loss\n"""\nx = weights.data[0]\nloss.data[0] = 1', set()),
        ("xrange = range\nxrange(3)", set()),
        ("import tensorflow as tf\nx = tf.placeholder(tf.float32)", {"python 3.7"}),
        ("import tensorflow.compat.v1 as tf\nx = tf.placeholder(tf.float32)", set()),
        ("import tensorflow as tf\nwriter = tf.summary.create_file_writer(folder)", set()),
        ("import sys\nsys.path.append('/opt/conda/lib/python3.7/site-packages')", {"python 3.7"}),
        ("from scipy.misc import imresize", {"python 3.7"}),
        ("import scipy.misc\ndef read(path):\n    return scipy.misc.imread(path)", set()),
        ("from scipy.misc import face\nfrom imageio import imread", set()),
        ("try:\n    from scipy.misc import imread\nexcept ImportError:\n    from imageio import imread", set()),
        ("# scipy.misc.imread is gone", set()),
        ("#!/usr/bin/env python3.5\nprint(1)", {"python 3.6"}),
        ("# python3.8 or a later one\nsys.path.append('/usr/lib/python3.10/dist-packages')", set()),
        ("import torchtext\nclass Text(torchtext.data.Field):\n    pass", {"fields"}),
        ("from torchtext import data\ntrain = data.BucketIterator(rows)", {"fields"}),
        ("import torchtext\nclass Text(torchtext.data.Dataset):\n    pass", {"fields"}),
        ("import torchtext\nrows = torchtext.datasets.IMDB()\nclass Field:\n    pass", set()),
        ("class Net(pl.LightningModule):\n    def __init__(self, h):\n        self.hparams = h", {"hparams"}),
        ("class Net(nn.Module):\n    def __init__(self, h):\n        self.hparams = h", set()),
        ("print('the task is async = True')\nif x = 1:\n    pass", set()),
    ],
)
def test_clues(tmp_path: Path, code: str, clues: set[str]) -> None:
    (tmp_path / "main.py").write_text(code)
    assert clues_in(Project(tmp_path).load(tmp_path / "main.py")) == clues
