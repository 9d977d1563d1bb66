"""Writing a file so that it is either the old one or the new one, whatever happens in between."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path


def write_atomic(path: Path, data: bytes) -> None:
    """Put ``data`` in the place of a file, or make it.

    The bytes go to a new file in the same folder, which then takes the place of the old one with its permissions and
    its owner. A symbolic link stays, and the file that it leads to is written.

    Raises:
        OSError: the file cannot be written. It is as it was, and nothing is left beside it.
    """
    target = os.path.realpath(path)
    status = os.stat(target) if os.path.exists(target) else None
    if status is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    temporary = os.path.join(os.path.dirname(target), f".dllint-{os.urandom(8).hex()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        if status is not None:
            if hasattr(os, "chown"):
                with suppress(PermissionError):  # the file of another user stays readable and writable as it was
                    os.chown(temporary, status.st_uid, status.st_gid)
            os.chmod(temporary, stat.S_IMODE(status.st_mode))
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
