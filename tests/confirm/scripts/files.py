"""What scripts do with files; the assertions hold wherever it is run."""

import glob
import os
import shutil
import tempfile
from pathlib import Path


def fails(error, action, *arguments, **named):
    try:
        action(*arguments, **named)
    except error:
        return True
    return False


assert sorted(os.listdir("runs/old")) == ["a.pt", "b.pt"]
shutil.rmtree("runs/old")
assert not os.path.exists("runs/old") and not os.path.exists("runs/old/a.pt") and os.listdir("runs") == []
assert fails(FileNotFoundError, open, "runs/old/a.pt") and fails(FileNotFoundError, shutil.rmtree, "runs/old")
shutil.rmtree("nowhere", ignore_errors=True)
os.makedirs("runs/old")
assert os.listdir("runs/old") == [] and fails(FileExistsError, os.mkdir, "runs/old")
Path("runs/old/c.pt").write_text("new")
assert [path.name for path in Path("runs/old").iterdir()] == ["c.pt"] and glob.glob("runs/*/*.pt") == ["runs/old/c.pt"]

os.mkdir("runs/new")
assert not hasattr(os, "statvfs") or os.statvfs("runs/new").f_bsize
os.rmdir("runs/new")

assert fails(FileExistsError, os.mkdir, "data") and fails(FileExistsError, open, "data/keep.txt", "x")
with open("data/keep.txt", "a") as file:
    file.write(" and more")
assert Path("data/keep.txt").read_text() == "text and more"
with open("data/keep.txt", "r+") as file:
    file.write("TEXT")
assert Path("data/keep.txt").read_text() == "TEXT and more"
os.remove("data/keep.txt")
assert not Path("data/keep.txt").exists() and fails(FileNotFoundError, os.remove, "data/keep.txt")
assert sorted(os.listdir("data")) == ["more"]

os.rename("data", "moved")
assert not os.path.isdir("data") and Path("moved/more/deep.txt").read_text() == "deep"
assert [(top, files) for top, _, files in os.walk("moved")] == [("moved", []), ("moved/more", ["deep.txt"])]
assert fails(OSError, os.rmdir, "moved")
os.symlink("old", "runs/latest")
assert os.path.exists("runs/latest/c.pt") and os.readlink("runs/latest") == "old"
os.chmod("single.txt", 0o600)
shutil.move("single.txt", "runs/single.txt")
assert not os.path.exists("single.txt") and Path("runs/single.txt").read_text() == "single"
shutil.copy("runs/single.txt", "copy.txt")
with os.scandir(".") as entries:
    names = sorted(entry.name for entry in entries)
assert names == ["copy.txt", "moved", "runs"], names
with tempfile.TemporaryDirectory() as folder:
    Path(folder, "x").write_text("x")
    assert os.listdir(folder) == ["x"]
with tempfile.NamedTemporaryFile(dir=".") as file:
    file.write(b"x")
print("DONE")
