"""Whatever the script does, it does as without dllint, and its record is written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confirm_support import SCRIPTS, observed

import dllint
from dllint.cli import main
from dllint.confirm.evidence import Record, Settings
from dllint.confirm.launch import run
from dllint.confirm.listing import NAMES
from dllint.confirm.verdicts import settle

pytestmark = pytest.mark.slow

SABOTAGE = """
import sys
from importlib.abc import MetaPathFinder
from importlib.util import find_spec

class Finder(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "dllint.confirm.probes":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        execute = spec.loader.exec_module
        def execute_and_break(module):
            execute(module)
            for probe in module.PROBES:
                for name in (*vars(probe), "judge"):
                    if name.startswith(("on_", "before_", "judge")):
                        setattr(probe, name, fail)
        spec.loader.exec_module = execute_and_break
        return spec

def fail(*arguments, **named):
    raise RuntimeError("a probe that fails")

sys.meta_path.insert(0, Finder())
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "last.pt").write_text("of the user")
    (tmp_path / "log.txt").write_text("of the user\n")
    return tmp_path


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.rglob("*")}


def digest(output: str) -> str:
    (line,) = (line for line in output.splitlines() if line.startswith("DIGEST"))
    return line


def plain(tmp_path: Path, *arguments: str) -> str:
    work = tmp_path / "plain"
    work.mkdir()
    words = [sys.executable, str(SCRIPTS / "weights.py"), *arguments]
    return digest(subprocess.run(words, cwd=work, capture_output=True, text=True, check=True).stdout)


def test_weights_and_random_numbers_are_those_of_a_plain_run(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, capfd: pytest.CaptureFixture[str]
) -> None:
    expected = plain(tmp_path_factory.mktemp("weights"), "3")
    before = files(folder)
    (record,) = observed(SCRIPTS / "weights.py", "3").records
    assert digest(capfd.readouterr().err) == expected
    assert (record.errors, record.stop, record.steps, record.epochs) == ([], "end", 18, 3)
    assert files(folder) == before
    assert [judgement.verdict for judgement in record.judgements if judgement.rule == "DL402"] == ["REFUTED"] * 2


def test_probes_that_fail_change_nothing(
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    expected = plain(tmp_path_factory.mktemp("weights"), "2")
    sabotage = tmp_path_factory.mktemp("sabotage")
    (sabotage / "sitecustomize.py").write_text(SABOTAGE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(sabotage), os.environ.get("PYTHONPATH", ""))))
    outcome = observed(SCRIPTS / "weights.py", "2")
    (record,) = outcome.records
    assert outcome.exit_code == 0
    assert digest(capfd.readouterr().err) == expected
    assert record.judgements == []
    assert {error.probe for error in record.errors} == set(NAMES)
    assert all("a probe that fails" in error.traceback for error in record.errors)


def test_models_that_are_called_again_at_the_end_stay_as_they_are(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """DL832 and DL833 leave buffers, parameters, gradients, modes and random states, whatever a call changes."""
    digests, rules = [], []
    for probes in ([], ["gradients", "names", "future_leaks", "samples_mix"]):
        (record,) = observed(SCRIPTS / "replayed.py", steps=24, probes=probes or ["gradients", "names"]).records
        assert (record.stop, record.errors) == ("budget", [])
        digests.append(digest(capfd.readouterr().err))
        rules.append({item.rule for item in record.judgements if item.verdict in ("CONFIRMED", "REFUTED")})
    assert digests[0] == digests[1]
    assert {"DL832", "DL833"} <= rules[1] - rules[0]


BROKEN_EVENTS = """
import sys
from importlib.abc import MetaPathFinder
from importlib.util import find_spec

class Finder(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "dllint.confirm.inside.run":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        execute = spec.loader.exec_module
        def execute_and_break(module):
            execute(module)
            module.Run.mark = module.Run.tell = module.Run.trace = fail
        spec.loader.exec_module = execute_and_break
        return spec

def fail(*arguments, **named):
    raise RuntimeError("an event that fails")

sys.meta_path.insert(0, Finder())
"""


def test_events_that_fail_change_nothing(
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    expected = plain(tmp_path_factory.mktemp("weights"), "1")
    sabotage = tmp_path_factory.mktemp("sabotage")
    (sabotage / "sitecustomize.py").write_text(BROKEN_EVENTS)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(sabotage), os.environ.get("PYTHONPATH", ""))))
    outcome = observed(SCRIPTS / "weights.py", "1")
    assert outcome.exit_code == 0
    assert digest(capfd.readouterr().err) == expected
    for record in outcome.records:
        assert record.errors[0].probe == "attachment"


@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_workers_that_are_started_afresh_report(folder: Path, start: str) -> None:
    (record,) = observed(SCRIPTS / "weights.py", "1", start).records
    draws = [judgement.statistics["draws"] for judgement in record.judgements if judgement.rule == "DL402"]
    assert draws and all(set(draw) == {"worker 0, epoch 0", "worker 1, epoch 0"} for draw in draws)


def ended(folder: Path, how: str, **bounds: float) -> Record:
    before = files(folder)
    (record,) = observed(SCRIPTS / "endings.py", how, **bounds).records  # type: ignore[arg-type]
    assert files(folder) == before
    assert record.errors == []
    assert {judgement.rule for judgement in record.judgements if judgement.verdict == "REFUTED"} >= {"DL101", "DL202"}
    return record


def test_an_exception_ends_the_run(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    record = ended(folder, "raise")
    output = capfd.readouterr().err
    assert (record.stop, record.error) == ("exception", "RuntimeError: the disk is full")
    assert "FINALLY True" in output and "ATEXIT" in output and "the disk is full" in output


def test_sys_exit_ends_the_run(folder: Path) -> None:
    assert ended(folder, "exit").stop == "end"


def test_an_interruption_ends_the_run(folder: Path) -> None:
    record = ended(folder, "interrupt")
    assert (record.stop, record.error) == ("exception", "KeyboardInterrupt: ")
    assert {Path(path).name for path in record.redirected} == {"interrupted.pt", "final.pt"}


def test_the_budget_ends_the_run_and_the_script_cleans_up(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    record = ended(folder, "budget", steps=5)
    output = capfd.readouterr().err
    assert (record.stop, record.steps) == ("budget", 5)
    assert "FINALLY True" in output and "ATEXIT" in output and "Traceback" not in output


def test_a_script_that_goes_on_is_ended(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert ended(folder, "stubborn", steps=5).stop == "budget"
    assert capfd.readouterr().err.count("AGAIN") == 1


def test_time_ends_the_run(folder: Path) -> None:
    record = ended(folder, "slow", max_seconds=20.0)  # of which the first step may take ten
    assert record.stop == "time"


def test_time_ends_a_script_that_has_ceased_to_train(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert ended(folder, "idle", max_seconds=15.0).stop == "time"
    assert "WOKEN" in capfd.readouterr().err


def two_ranks(folder: Path, *arguments: str) -> list[Record]:
    return observed(SCRIPTS / "ranks.py", str(folder / "store"), *arguments).records


def test_ranks_that_drift_apart(folder: Path) -> None:
    records = two_ranks(folder, "moved")
    (alarm,) = (alarm for alarm in settle([], records).alarms if alarm.rule == "ranks-in-sync")
    assert alarm.statistics["replicated"] == 4 and len(alarm.statistics["apart"]) == 4


def test_torchrun(folder: Path) -> None:
    script = str(SCRIPTS / "under_torchrun.py")
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", script]
    outcome = run(words, Settings("", steps=5), in_place=False, show_output=True)
    assert [(record.rank, record.steps, record.stop, record.errors) for record in outcome.records] == [
        (0, 5, "budget", []),
        (1, 5, "budget", []),
    ]
    assert outcome.exit_code == 0


def test_module_in_a_package(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text("")
    (folder / "package" / "steps.py").write_text("NUMBER = 4\n")
    script = (SCRIPTS / "endings.py").read_text().replace("import os", "import os\nfrom .steps import NUMBER", 1)
    (folder / "package" / "train.py").write_text(script + "print('MODULE', __name__, __package__, NUMBER)\n")
    assert main(["confirm", "--module", "package.train", "--", "end"]) == 0
    output = capfd.readouterr()
    assert "MODULE __main__ package 4" in output.err
    assert "6 steps, 6 backward calls" in output.out and not (folder / "final.pt").exists()


def test_ctrl_c_ends_the_run_and_leaves_a_report(folder: Path) -> None:
    words = [sys.executable, "-m", "dllint", "confirm", "--steps", "0", str(SCRIPTS / "endings.py"), "slow"]
    environment = {**os.environ, "PYTHONPATH": str(Path(dllint.__file__).parent.parent)}
    started = subprocess.Popen(
        words,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    assert started.stderr is not None
    for line in started.stderr:
        if "STEPPING" in line:
            break
    os.killpg(started.pid, signal.SIGINT)
    output, errors = started.communicate(timeout=60)
    assert "an exception ended it (KeyboardInterrupt" in output, output
    assert started.returncode == 0 and "FINALLY True" in errors
    assert files(folder) == {"last.pt": "of the user", "log.txt": "of the user\n"}


def test_long_loops_of_short_steps(folder: Path) -> None:
    """Observing rests, knows of its gaps, and counts all steps."""
    (record,) = observed(SCRIPTS / "long_loops.py").records
    assert (record.errors, record.steps, record.backwards) == ([], 1200, 240 * 20 + 1200 + 1500)
    assert [item for item in record.judgements if item.verdict == "CONFIRMED" and item.voice == "alarm"] == []
    stale = [item.statistics["steps"] for item in record.judgements if item.rule == "DL202"]
    assert all(3 <= steps < 600 for steps in stale) and len(stale) == 3
    (cadence,) = [item for item in record.judgements if item.rule == "DL305"]
    assert (cadence.statistics["steps"], cadence.statistics["optimizer_steps"]) == (1200, 1200)
    (accumulation,) = [item for item in record.judgements if item.rule == "DL210" and item.statistics["factor"]]
    assert (accumulation.verdict, accumulation.statistics["per_step"]) == ("REFUTED", 4)


def test_an_optimizer_of_a_replaced_part_does_not_train_the_rest(folder: Path) -> None:
    """That nothing is held by an optimizer does not refute that something is left out."""
    (folder / "replaced.py").write_text(
        "import torch\nfrom torch import nn\n"
        "model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 5))\n"
        "optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)\n"
        "model[2] = nn.Linear(8, 3)\n"
        "for _ in range(10):\n"
        "    optimizer.zero_grad()\n"
        "    nn.functional.cross_entropy(model(torch.randn(4, 8)), torch.arange(4) % 3).backward()\n"
        "    optimizer.step()\n"
    )
    (record,) = observed(folder / "replaced.py").records
    assert {item.rule: item.verdict for item in record.judgements if item.rule in ("DL306", "DL307")} == {
        "DL306": "INCONCLUSIVE",
        "DL307": "INCONCLUSIVE",
    }


def test_compilers_and_transforms_see_torch_as_it_is(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = SCRIPTS / "advanced.py"
    expected = digest(subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True).stdout)
    outcome = observed(script)
    (record,) = outcome.records
    assert (outcome.exit_code, record.errors) == (0, [])
    assert digest(capfd.readouterr().err) == expected
    assert "REFUTED" in {item.verdict for item in record.judgements if item.rule == "DL101"}
