"""Workers that hold more batches in shared memory than a container has by default: 64 MB.

Workers hand their batches over in `/dev/shm`. Docker gives a container 64 MB of it, Kubernetes a pod as well; where
that is full, a worker dies: `unable to allocate shared memory(shm)`, or a bus error.

Measured on torch 2.13 (batches of 9.6 MB, a training slower than its workers): `/dev/shm` holds 3, 5 and 9 batches with
1, 2 and 4 workers, `num_workers * prefetch_factor + 1`. With 8 MB of it the first batch ends the run, and
`set_sharing_strategy("file_system")` changes nothing, as its files are there, too.

## Bad
    from torchvision import transforms
    from torchvision.datasets import ImageFolder

    transform = transforms.Compose([
        transforms.RandomResizedCrop(224),
        transforms.ToTensor(),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ])
    train_set = ImageFolder("train", transform)
    loader = DataLoader(train_set, batch_size=64, shuffle=True, num_workers=8)

## Good
    from torchvision import transforms
    from torchvision.datasets import ImageFolder

    transform = transforms.Compose([
        transforms.RandomResizedCrop(224),
        transforms.ToTensor(),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ])
    train_set = ImageFolder("train", transform)
    loader = DataLoader(train_set, batch_size=16, shuffle=True, num_workers=2)

## Not reported
Off by default: code does not say whether it runs in a container, nor with how much memory; select the rule for a
project that does. Samples whose size no transform of torchvision tells, and numbers of workers that only the machine
knows.

## On real code
199 public repositories with workers and normalized images: 52 notes in 24 of them. The sizes of the dozen that were
looked up in the code are as said; whether they run in a container, few projects tell, so the rule is off.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Finding, LoaderCreated, Rule

_OF_CONTAINERS = 64 * 2**20  # bytes
_MEGABYTE = 1e6


class SharedMemoryTooSmall(Rule):
    code = "DL418"
    name = "shared-memory-too-small"
    category = "suspicious"
    severity = "info"
    default = False
    triggers = (("num_workers",), ("Normalize",))
    confirmable = True
    references = ("https://docs.docker.com/reference/cli/docker/container/run/#shm-size",)

    def on_loader_created(self, event: LoaderCreated, ctx: Context) -> Iterator[Finding]:
        workers = ctx.data.workers(event)
        batches, size = ctx.data.most_batches(event), ctx.data.batch_bytes(event)
        if workers is None or batches * size <= _OF_CONTAINERS:
            return
        yield ctx.finding(
            self,
            event,
            f"{batches} batches of {size / _MEGABYTE:.0f} MB are in shared memory at once; a container has 64 MB",
            on=[workers, workers.value, event.options.get("batch_size"), event.loader, event.dataset],
            assuming=ctx.assumed_batches(event.loader),
            effect="a worker is killed in the middle of the run, by a bus error or for want of shared memory",
            help="start the container with a larger `--shm-size` or with `--ipc=host`, or use fewer workers",
        )
