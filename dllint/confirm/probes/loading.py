"""What ``load_state_dict`` loads: shapes that do not fit (DL603), names that do not (DL604), and how far weights that
were loaded go away in training (DL607)."""

from __future__ import annotations

from statistics import median
from weakref import WeakKeyDictionary, ref

from dllint.confirm.probes import events
from dllint.confirm.probes.base import Judgements, PlaceProbe, Samples, Tensor, alarm_if, decided, nn, parameters_of
from dllint.confirm.probes.movement import sample

_HALF = 0.5  # of the parameters of a model
_FAR, _NEAR = 1.0, 0.3  # of the length of weights that were loaded
_STEPS = 100
_MATRICES = 16
_MODELS = 16


class _Loaded(Samples):
    """What the calls at one place loaded without being strict: the least of them."""

    parameters: float = 1.0  # share of those of the model
    given: float = 1.0  # share of what was given that the model has
    names: int = 0
    mismatch: str = ""
    was_tried: bool = False  # something else was loaded into the same model afterwards


class _Pretrained(Samples):
    """Some matrices that were loaded into a model that has new layers beside them."""

    weights: list[tuple[ref[Tensor], Tensor]] = []
    drift: float = 0.0
    since: int | None = None  # steps of all optimizers before the first of the one that holds them
    rates: set[float] = set()  # of the optimizer that holds them

    def look(self) -> None:
        """Compare with what was loaded."""
        pairs = [(p, begin) for known, begin in self.weights if (p := known()) is not None and bool(begin.any())]
        moves = [float((sample(p).float().to(begin.device) - begin).norm() / begin.norm()) for p, begin in pairs]
        self.drift = median(moves) if moves else self.drift


class Loading(PlaceProbe[_Loaded]):
    _pretrained: list[_Pretrained] = []
    _tried: WeakKeyDictionary[nn.Module, list[_Loaded]] = WeakKeyDictionary()

    def on_load(self, load: events.Load) -> None:
        known = load.parameters | load.buffers
        loaded = len(load.given & load.parameters) / max(len(load.parameters), 1)
        if not load.strict and load.parameters:
            seen = self.at(load.stack)
            seen.count()
            if "size mismatch" in load.error:
                seen.mismatch = load.error.partition("size mismatch for ")[2].partition(":")[0]
            fits = len(load.given & known) / max(len(load.given), 1)
            if not load.error and loaded <= seen.parameters:
                seen.parameters, seen.given, seen.names = loaded, fits, len(load.given)
                self._tried.setdefault(load.module, []).append(seen)
        if loaded >= _HALF and not load.error:
            for tried in self._tried.pop(load.module, []):
                tried.was_tried = tried.parameters < _HALF
        if _HALF <= loaded < 1 and not load.error and len(self._pretrained) < _MODELS:
            given = [p for name, p in load.module.named_parameters() if name in load.given]
            matrices = [p for p in given if p.dim() > 1 and p.numel()][:_MATRICES]
            weights: list[tuple[ref[Tensor], Tensor]] = [(ref(p), sample(p).float()) for p in matrices]
            self._pretrained.append(_Pretrained(stacks=(load.stack,), weights=weights))

    def on_optimizer_step(self, event: events.OptimizerStep) -> None:
        for known in self._pretrained:
            if known.since is None or self.run.all_steps - known.since >= known.looks + self.run.settings.every:
                alive = {id(weight()) for weight, _ in known.weights if weight() is not None}
                if not alive.isdisjoint(map(id, parameters_of(event.optimizer))):
                    known.since = self.run.all_steps if known.since is None else known.since
                    known.looks = self.run.all_steps - known.since  # up to the last time
                    known.rates = {float(group.get("lr", 0.0)) for group in event.optimizer.param_groups}
                    known.look()

    def judge(self) -> Judgements:
        yield from super().judge()
        for known in self._pretrained:
            if known.since is not None:
                known.look()
                known.looks, known.last = self.run.all_steps - known.since, self.run.steps
                is_far = known.drift > _FAR and len(known.rates) == 1
                yield self.judgement("DL607", known, decided(is_far, known.drift < _NEAR and known.looks >= _STEPS))

    def judge_each(self, seen: _Loaded) -> Judgements:
        yield self.judgement("DL603", seen, decided(seen.mismatch, True))
        if not seen.mismatch:
            is_wrong = seen.parameters < _HALF and (seen.given < _HALF or not seen.names) and not seen.was_tried
            voice = alarm_if(seen.names and not seen.parameters)
            yield self.judgement("DL604", seen, decided(is_wrong, True), "", voice)
