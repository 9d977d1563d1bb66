"""A Dask cluster that works for a run: whose workers see the same files, under the same paths, with the same dllint."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dllint import __version__
from dllint.collector import relax_collector
from dllint.config.settings import Settings
from dllint.errors import UserError
from dllint.outcomes import Outcome
from dllint.worker import Worker, in_deep_thread

if TYPE_CHECKING:
    from distributed import Client, Future

SCHEME = "dask://"
_GLANCE = 0.2  # seconds between two looks at whether the run is interrupted
_PATIENCE = 10  # seconds to wait for the scheduler


class ClusterError(UserError):
    """A cluster cannot be used. The message says why."""


class Cluster:
    """A connection to the cluster that ``--executor`` names.

    Raises:
        ClusterError: there is none, it has no workers, or they have another dllint.
    """

    def __init__(self, executor: str) -> None:
        if not executor.startswith(SCHEME) or executor == SCHEME:
            raise ClusterError(f"--executor: {executor!r} is not of the form {SCHEME}HOST:PORT")
        try:
            from distributed import Client
        except ImportError as error:
            raise ClusterError("--executor needs Dask: `pip install 'dllint[scale]'`") from error
        try:
            self.client = Client(executor.removeprefix(SCHEME), timeout=_PATIENCE)
        except (OSError, ValueError) as error:  # a timeout is an OSError
            raise ClusterError(f"no Dask scheduler answers at {executor}") from error
        self._executor = executor
        try:
            self._check_versions()
        except BaseException:
            self.close()
            raise

    def _check_versions(self) -> None:
        try:
            versions = set(self.client.run(_version).values())
        except ImportError as error:
            raise ClusterError(f"the workers of {self._executor} have no dllint: {error}") from error
        if not versions:
            raise ClusterError(f"{self._executor} has no workers")
        if versions != {__version__}:
            found = ", ".join(sorted(versions))
            raise ClusterError(f"the workers of {self._executor} have dllint {found}, not {__version__}")

    @property
    def processes(self) -> int:
        """How many worker processes there are."""
        return max(1, len(self.client.run(os.getpid)))

    def pool(self, settings: Settings, working_directory: Path, overlay: Mapping[Path, str]) -> ClusterPool:
        """The workers, equipped for a run."""
        return ClusterPool(self.client, settings, working_directory, overlay)

    def close(self) -> None:
        """Leave the cluster as it is."""
        self.client.close()


def _version() -> str:
    return __version__


class ClusterPool:
    """The workers of a cluster, used as those of :class:`dllint.processes.Pool` are.

    Args:
        client: the connection; it is left open.
        equipment: what each worker is made with: settings, working directory, unsaved text.
    """

    def __init__(self, client: Client, *equipment: Any) -> None:
        self._client = client
        self._equipment = equipment
        self._run = os.urandom(8).hex()

    def __enter__(self) -> ClusterPool:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def analyse(
        self, chunks: Iterable[Sequence[Path]], lost: list[Path], interrupted: threading.Event
    ) -> Iterator[Outcome]:
        """The outcomes of all chunks as they come, until the run is interrupted.

        The files of chunks on which workers died go to ``lost``.
        """
        from distributed import wait

        running = {
            self._client.submit(analyse_chunk, self._run, self._equipment, chunk, pure=False): chunk for chunk in chunks
        }
        pending = set(running)
        while pending and not interrupted.is_set():
            try:
                done, pending = wait(pending, _GLANCE, "FIRST_COMPLETED")
            except TimeoutError:
                continue
            for future in done:
                yield from _result(future, running[future], lost)
        self._client.cancel(list(pending))


def _result(future: Future, chunk: Sequence[Path], lost: list[Path]) -> list[Outcome]:
    from distributed import CancelledError, KilledWorker

    try:
        outcomes: list[Outcome] = future.result()
        return outcomes
    except KilledWorker:
        lost.extend(chunk)
        return []
    except CancelledError as error:
        raise ClusterError("the cluster was shut down, or its scheduler is gone") from error


# ---------------------------------------------------------------------------------------- in a process of the cluster

_one_at_a_time = threading.Lock()
_present: tuple[str, Worker] | None = None  # the run that this process works for


def analyse_chunk(
    run: str, equipment: tuple[Settings, Path, Mapping[Path, str]], files: Sequence[Path]
) -> list[Outcome]:
    """Analyze some files. Threads of one process take turns: they would only wait for each other."""
    global _present
    with _one_at_a_time:
        before = os.getcwd()
        os.chdir(equipment[1])  # paths are shown relative to it
        try:
            if _present is None or _present[0] != run:
                relax_collector()
                _present = (run, Worker(*equipment))
            mine = _present[1]
            return [
                in_deep_thread(lambda file=file: mine.analyse_next(file), mine.interrupt_if_overdue)  # type: ignore[misc]
                for file in files
            ]
        finally:
            os.chdir(before)
