"""What rules can ask about a program: phases, modes, loops, order, conditions and uses."""

from __future__ import annotations

import textwrap

import pytest
from asking import ask, last

from dllint.api import Backward, Context, Event, LossCall, ModelForward, OptimizerStep, ZeroGrad
from dllint.context.checkpoints import path_pattern
from dllint.context.loading import file_name
from dllint.interp.source.phases import phase_of, without_phase


class TestPhase:
    TRAINING = """
    for x, y in train_loader:
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    """

    def phase(self, code: str) -> tuple[str, set[str]]:
        found = ask(
            textwrap.dedent(self.TRAINING) + textwrap.dedent(code), lambda ctx: ctx.phase(last(ctx, ModelForward))
        )
        return found.name, {assumption.kind for assumption in found.assumptions}

    def test_a_loop_that_goes_backward_is_training(self) -> None:
        assert self.phase("") == ("training", set())

    def test_other_data_with_gradients_off_is_evaluation(self) -> None:
        assert self.phase(
            """
    with torch.no_grad():
        for x, y in held_out:
            net(x)
    """
        ) == ("evaluation", set())

    def test_the_same_data_with_gradients_off_is_none(self) -> None:
        code = "with torch.no_grad():\n    for x, y in train_loader:\n        net(x)\n"
        ended = ask(textwrap.dedent(self.TRAINING) + code, lambda ctx: ctx.phase(last(ctx, ModelForward)).name)
        assert ended != "evaluation"

    @pytest.mark.parametrize(
        ("name", "phase"), [("evaluate", "evaluation"), ("predict", "inference"), ("go", "unknown")]
    )
    def test_a_name_is_an_assumption(self, name: str, phase: str) -> None:
        code = f"\ndef {name}(model, batches):\n    for x, y in batches:\n        model(x)\n\n{name}(net, some())\n"
        found = ask(code, lambda ctx: ctx.phase(last(ctx, ModelForward)))
        assert found.name == phase
        assert {assumption.kind for assumption in found.assumptions} == ({"name"} if phase != "unknown" else set())

    def test_what_training_uses_is_training(self) -> None:
        code = """
        def predict(model, x):
            return model(x)

        for x, y in train_loader:
            F.cross_entropy(predict(net, x), y).backward()
            optimizer.step()
        """
        assert ask(code, lambda ctx: ctx.phase(last(ctx, ModelForward)).name) == "training"

    def test_hooks_of_frameworks(self) -> None:
        code = """
        import lightning

        class Model(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.net = nn.Linear(2, 2)

            def validation_step(self, batch, index):
                return F.cross_entropy(self.net(batch[0]), batch[1])
        """
        found = ask(code, lambda ctx: [ctx.phase(event) for event in ctx.all_of(ModelForward)], kind="class")
        assert {(each.name, each.assumptions) for each in found} == {("evaluation", ())}

    @pytest.mark.parametrize(
        ("name", "phase"),
        [("val_loader", "evaluation"), ("runValidation", "evaluation"), ("training_step", "training"),
         ("train_and_evaluate", "unknown"), ("infer", "inference"), ("device", "unknown"), ("tr", "unknown"),
         ("interval", "unknown"), ("latest", "unknown"), ("evaluate_predictions", "evaluation")],
    )  # fmt: skip
    def test_names(self, name: str, phase: str) -> None:
        assert phase_of(name) == phase

    def test_counterparts(self) -> None:
        assert without_phase("train_set") == without_phase("test_set") != without_phase("test_path")


class TestModes:
    def modes(self, code: str) -> tuple[str, list[set[str]]]:
        def question(ctx: Context) -> tuple[str, list[set[str]]]:
            calls = tuple(ctx.all_of(ModelForward))
            model = ctx.objects(calls[-1].model)[0]
            found = ctx.modes(model, calls[-1:])
            return found.start, [found.at(call) for call in calls if ctx.is_same(call.model, model)]

        return ask(code, question)  # type: ignore[no-any-return]

    def test_what_is_made_starts_in_training_mode(self) -> None:
        assert self.modes("net(some())\nnet.eval()\nnet(some())\n") == ("train", [{"train"}, {"eval"}])

    def test_paths_are_joined(self) -> None:
        assert self.modes("if some():\n    net.eval()\nnet(some())\n")[1] == [{"train", "eval"}]

    def test_what_is_computed_is_not_known(self) -> None:
        assert self.modes("net.train(flag())\nnet(some())\n")[1] == [{"unknown"}]

    def test_unresolved_code_may_set_it(self) -> None:
        assert self.modes("from elsewhere import prepare\nprepare(net)\nnet(some())\n")[1] == [{"unknown"}]

    def test_parts_keep_the_mode_of_what_they_were_a_part_of(self) -> None:
        made = "encoder = torch.nn.Sequential(*list(net.children())[:-1])\nencoder(some())\n"
        assert self.modes(made) == ("train", [{"train"}])
        assert self.modes(f"net.eval()\n{made}") == ("unknown", [{"unknown"}])

    def test_a_later_iteration(self) -> None:
        assert self.modes("for _ in range(3):\n    net(some())\n    net.eval()\n")[1] == [{"train", "eval"}]


class TestLoops:
    EPOCHS = """
    epochs = 5
    for epoch in range(epochs):
        for x, y in train_loader:
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
    """

    def units(self, code: str) -> list[str]:
        """The units of the loops around the last backward pass, innermost first."""
        return ask(  # type: ignore[no-any-return]
            code, lambda ctx: [ctx.loop_unit(loop) for loop in ctx.loops_around(last(ctx, Backward))]
        )

    def test_batches_and_epochs(self) -> None:
        assert self.units(self.EPOCHS) == ["batches", "epochs"]

    def test_a_progress_bar_that_shows_the_epoch(self) -> None:
        bar = "enumerate(tqdm(train_loader, desc=f'epoch {epoch}'), 1)"
        loop = f"""
        from tqdm import tqdm
        for epoch in range(5):
            for step, (x, y) in {bar}:
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
        """
        assert self.units(loop) == ["batches", "epochs"]
        assert self.units(loop.replace(bar, "enumerate(tqdm(range(9)))")) == ["batches", "unknown"]

    def test_runs(self) -> None:
        code = """
        for seed in range(3):
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for x, y in train_loader:
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
        """
        assert self.units(code) == ["batches", "runs"]

    @pytest.mark.parametrize(("name", "unit"), [("accumulation_steps", "micro-batches"), ("tasks", "unknown")])
    def test_micro_batches(self, name: str, unit: str) -> None:
        code = f"""
        for epoch in range(100):
            for part in range({name}):
                F.cross_entropy(net(part), part).backward()
            optimizer.step()
        """
        assert self.units(code)[0] == unit

    def test_evaluation_goes_over_batches(self) -> None:
        code = "for x, y in held_out:\n    net(x)\n"
        assert ask(code, lambda ctx: [ctx.loop_unit(loop) for loop in ctx.loops_around(last(ctx, ModelForward))]) == [
            "batches"
        ]

    @pytest.mark.parametrize(
        ("header", "count"),
        [("range(7)", 7), ("tqdm(range(2, 7))", 5), ("enumerate(train_loader)", None), ("range(start, start + 9)", 9)],
    )
    def test_count(self, header: str, count: int | None) -> None:
        code = f"from tqdm import tqdm\nstart = some()\nfor _ in {header}:\n    F.cross_entropy(net(x), y).backward()\n"
        assert ask(code, lambda ctx: ctx.constant(ctx.loop_count(ctx.loops_around(last(ctx, Backward))[0]))) == count


class TestOrder:
    CODE = """
    for x, y in train_loader:
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
        F.cross_entropy(net(x), y).backward()
        if some(x):
            optimizer.step()
    """

    def test_position(self) -> None:
        assert ask(self.CODE, lambda ctx: [ctx.position(event) for event in ctx.events] == list(range(len(ctx.events))))

    def test_since_the_last_step(self) -> None:
        def question(ctx: Context) -> list[type[Event]]:
            found = ctx.since_last(OptimizerStep, before=last(ctx, OptimizerStep))
            return [type(event) for event in found if isinstance(event, Backward | ZeroGrad)]

        assert ask(self.CODE, question) == [Backward]

    def test_same_turn_and_conditions(self) -> None:
        def question(ctx: Context) -> tuple[bool, bool, str]:
            first, second = ctx.all_of(OptimizerStep)
            clearing = last(ctx, ZeroGrad)
            conditions = ctx.conditions_beyond(second, first)
            return ctx.same_turn(clearing, first), ctx.same_turn(clearing, second), " ".join(map(str, conditions))

        assert ask(self.CODE, question) == (True, False, "some(x)")

    def test_exclusive(self) -> None:
        code = "if some():\n    optimizer.step()\nelse:\n    optimizer.zero_grad()\n"
        assert ask(code, lambda ctx: ctx.exclusive(last(ctx, OptimizerStep), last(ctx, ZeroGrad)))


@pytest.mark.parametrize(
    ("test", "topic"),
    [("self.training", "mode"), ("not model.training", "mode"), ("phase == 'train'", "phase"), ("is_train", "phase"),
     ("mode == 'focal'", ""), ("args.resume", "resume"), ("args.resume is not None", "resume"), ("x is None", "none"),
     ("epoch > 3", ""), ("opt is not None", "phase"), ("(i + 1) % 4 == 0", "period"), ("rate", "")],
)  # fmt: skip
def test_topics(test: str, topic: str) -> None:
    code = f"for i, x in enumerate(train_loader):\n    if {test}:\n        optimizer.step()\n"
    assert ask(code, lambda ctx: last(ctx, OptimizerStep).guards[0].topic) == topic


class TestUses:
    def is_used(self, code: str) -> bool:
        return bool(ask(code, lambda ctx: ctx.is_used(last(ctx, LossCall).result)))

    @pytest.mark.parametrize(
        "rest", ["print(loss)", "total = total + loss", "log['loss'] = loss", "losses.append(loss)", "loss.backward()"]
    )
    def test_read(self, rest: str) -> None:
        assert self.is_used(f"loss = F.cross_entropy(net(x), y)\n{rest}\nprint(total)\n")

    @pytest.mark.parametrize("rest", ["pass", "other = loss * 2", "total = 0\n    total += loss"])
    def test_not_read(self, rest: str) -> None:
        assert not self.is_used(f"def test():\n    loss = F.cross_entropy(net(x), y)\n    {rest}\n\ntest()\n")

    def test_nothing_is_done_with_it(self) -> None:
        assert not self.is_used("F.cross_entropy(net(x), y)\n")

    def test_goes_backward(self) -> None:
        code = "a = F.cross_entropy(net(x), y)\nb = F.mse_loss(net(x), y)\n(b * 2).backward()\n"

        def question(ctx: Context) -> list[bool]:
            return [ctx.goes_backward(event.result) for event in ctx.all_of(LossCall)]

        assert ask(code, question) == [False, True]


def test_callers() -> None:
    code = """
    class Model:
        def compute(self, x):
            return F.mse_loss(net(x), x)

    def first(model):
        model.compute(1)

    def second(model):
        return [model.compute(2), compute(3)]

    Model().compute(4)
    """

    def question(ctx: Context) -> list[int]:
        definition = last(ctx, LossCall).frame.definition
        return sorted(site.node.args[0].value for site in ctx.callers(definition))  # type: ignore[attr-defined]

    assert ask(code, question) == [1, 2, 3, 4]


class TestCheckpoints:
    RESUMED = """
    start = 0
    if resume:
        checkpoint = torch.load("last.pt")
        net.load_state_dict(checkpoint["net"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        start = checkpoint["epoch"] + 1
    for epoch in range({first}, 10):
        for x, y in train_loader:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
        torch.save({{"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}}, "last.pt")
    """

    def test_who_restores_an_optimizer_goes_on(self) -> None:
        found = ask(self.RESUMED.format(first="start"), lambda ctx: ctx.continuation)
        assert found.keys == {"net", "optimizer", "epoch"}
        assert [restored.key for restored in found.restored] == ["net", "optimizer"]
        assert len(found.saved) == 1

    def test_who_loads_weights_alone_begins_anew(self) -> None:
        code = "net.load_state_dict(torch.load('last.pt')['net'])\noptimizer.step()\n"
        assert ask(code, lambda ctx: ctx.continuation) is None

    @pytest.mark.parametrize(("first", "answer"), [("start", True), ("0", False)])
    def test_whether_the_epochs_are_counted_on(self, first: str, answer: bool) -> None:
        code = self.RESUMED.format(first=first)
        assert ask(code, lambda ctx: ctx.counts_on(ctx.continuation)) is answer

    @pytest.mark.parametrize(
        ("value", "refused"),
        [
            ("np.mean([1.0])", True),
            ("round(np.max([1, 2]) * 100, 2)", True),
            ("np.random.get_state()", True),
            ("argparse.Namespace()", True),
            ("Path('a') / 'b'", True),
            ("net", True),
            ("optimizer", True),
            ("float(np.mean([1.0]))", False),
            ("np.zeros(3).tolist()", False),
            ("-np.inf", False),
            ("np.random.rand()", False),
            ("torch.ones(2) * np.mean([1.0])", False),
            ("net.state_dict()", False),
            ("unknown", False),
        ],
    )
    def test_what_is_refused_by_default(self, value: str, refused: bool) -> None:
        code = f"import argparse\nimport numpy as np\nfrom pathlib import Path\ntorch.save({{'x': {value}}}, 'x.pt')\n"
        question = lambda ctx: ctx.checkpoints.refusal(ctx.checkpoints.saved[0].parts[0].value)  # noqa: E731
        assert bool(ask(code, question)) is refused

    @pytest.mark.parametrize(
        ("code", "what"),
        [
            ("model = torch.load('x.pt')\nmodel.eval()\n", "a module"),
            ("state = torch.load('x.pt')\nprint(state['args'].lr)\n", "an object with an attribute `lr`"),
            ("state = torch.load('x.pt')\nprint(state['x'].shape)\nnet.load_state_dict(state['net'])\n", None),
            ("loaded = torch.load('x.pt')\nif isinstance(loaded, nn.Module):\n    loaded.eval()\n", None),
        ],
    )
    def test_what_is_used_as_an_object(self, code: str, what: str | None) -> None:
        found = ask(code, lambda ctx: ctx.checkpoints.object_use(ctx.checkpoints.reads[0]))
        assert (found.what if found else None) == what

    @pytest.mark.parametrize(
        ("path", "name"),
        [
            ("os.path.join('out', 'last_model.pt')", "last_model.pt"),
            ("f'out/net_{epoch}.pt'", "net_*.pt"),
            ("folder + '/best_model.pt'", "best_model.pt"),
            ("'%d.pt' % epoch", ""),
        ],
    )
    def test_the_name_of_a_file(self, path: str, name: str) -> None:
        code = f"import os\ntorch.save(net.state_dict(), {path})\n"
        question = lambda ctx: file_name(path_pattern(ctx.checkpoints.saved[0].event.path))  # noqa: E731
        assert ask(code, question) == name
