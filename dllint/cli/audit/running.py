"""Who does the work of an audit: processes of this machine, several at a time, or a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dllint.cli.audit.one import Order, Result, audit_apart
from dllint.cli.audit.repositories import Repository

Task = tuple[Repository, Order]


def run_here(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[Repository, Result]]:
    """The results as they come, of so many processes at a time."""
    from concurrent.futures import ThreadPoolExecutor, as_completed

    with ThreadPoolExecutor(jobs) as threads:
        running = {threads.submit(audit_apart, order): repository for repository, order in tasks}
        try:
            for future in as_completed(running):
                yield running.pop(future), future.result()
        finally:  # on Ctrl-C, which ends the processes as well
            threads.shutdown(wait=False, cancel_futures=True)


def run_on_cluster(tasks: Sequence[Task], executor: str) -> Iterator[tuple[Repository, Result]]:
    """The results as they come from a Dask cluster, whose workers see the same folders.

    Raises:
        ClusterError: the cluster cannot be used.
    """
    from dllint.cluster import Cluster

    cluster = Cluster(executor)
    try:
        from distributed import as_completed

        running = {cluster.client.submit(audit_apart, order, pure=False): repository for repository, order in tasks}
        for future in as_completed(running):
            repository = running.pop(future)
            try:
                yield repository, future.result()
            except Exception as error:  # a worker died, or cannot do it
                yield repository, {"status": "failed", "message": f"{type(error).__name__}: {error}"}
    finally:
        cluster.close()
