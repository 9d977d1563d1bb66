"""Several processes write to the same new folders, and read the same file, at the same moments."""

import multiprocessing

import torch

PROCESSES, FOLDERS = 4, 40


def write(number, barrier):
    for folder in range(FOLDERS):
        barrier.wait(20)
        with open(f"{folder}/deep/er/{number}.txt", "w") as file:
            file.write("done")
        with open(f"{folder}/shared.txt", "r+") as file:
            assert len(file.read()) == 200_000


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(PROCESSES)
    processes = [context.Process(target=write, args=(number, barrier)) for number in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print("DONE", [process.exitcode for process in processes], torch.zeros(1).item())
