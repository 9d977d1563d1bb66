"""Which rules a run can decide, and what has to happen for it."""

from __future__ import annotations

from dllint.confirm.evidence import Mode

NEEDS: dict[str, str] = {
    "DL101": "no cross-entropy was computed at this line",
    "DL102": "no binary cross-entropy of probabilities was computed at this line",
    "DL103": "no binary cross-entropy was computed at this line",
    "DL104": "no negative log-likelihood was computed at this line",
    "DL105": "no cross-entropy was computed at this line",
    "DL106": "no cross-entropy with floating targets was computed at this line",
    "DL107": "no binary cross-entropy was computed at this line",
    "DL108": "no cross-entropy over sequences was computed at this line",
    "DL109": "no mean of masked losses was sent backward here",
    "DL110": "no metric that can ignore a class was called here, or the loss ignores none",
    "DL111": "no loss with gradients was computed at this line",
    "DL112": "no divergence was computed at this line",
    "DL115": "no cross-entropy with class indices was computed at this line",
    "DL116": "no categorical distribution was made of logits at this line",
    "DL117": "no loss over two tensors of numbers was computed at this line",
    "DL201": "no gradients of the optimizer were computed here",
    "DL202": "the optimizer took fewer than 3 steps here",
    "DL203": "the optimizer took fewer than 3 steps here",
    "DL204": "the optimizer took fewer than 3 steps here",
    "DL205": "no gradients were computed here",
    "DL206": "no gradients were computed here",
    "DL207": "no model was called without gradients at this line",
    "DL210": "no gradients were computed here",
    "DL212": "gradients were clipped here less than 3 times",
    "DL213": "gradients were clipped here less than 3 times, or no scaler was in use",
    "DL214": "the optimizer took fewer than 3 steps here with a scaler",
    "DL216": "no model that is in evaluation mode reached this line",
    "DL301": "no optimizer that was made here took a step",
    "DL303": "the scheduler took no step here",
    "DL304": "the scheduler took no step here",
    "DL305": "the scheduler took no step here",
    "DL306": "fewer than 3 steps were made",
    "DL308": "fewer than 3 steps were made",
    "DL309": "fewer than 3 steps were made, or nothing was frozen",
    "DL310": "no adaptive optimizer took 3 steps here",
    "DL316": "the optimizer took fewer than 3 steps here",
    "DL401": "no worker of a training loader drew from a generator that the dataset keeps",
    "DL402": "no worker of a training loader drew random numbers",
    "DL414": "no loader with a distributed sampler that shuffles was used",
    "DL507": "no images from loaders were trained on and evaluated on",
    "DL508": "no loader was passed over for evaluation",
    "DL601": "no optimizer held frozen parameters for 3 steps",
    "DL605": "no model with adapters was called",
    "DL606": "no model with adapters took 3 steps",
    "DL701": "nothing was saved at this line",
    "DL717": "nothing was saved at this line",
    "DL901": "no padded texts were continued here",
    "DL902": "no model was given padded texts and labels here",
    "DL903": "no text that ends was trained on here",
    "DL904": "no model with an embedding was called here",
    "DL906": "no model whose configuration tells of its positions was called",
    "DL907": "the logits of words were followed for fewer than 500 steps",
    "DL908": "no model was given padded texts and labels without gradients here",
    "DL910": "no pairs of answers were learnt from beside a reference model",
    "DL911": "no pairs of answers were learnt from beside a reference model",
    "DL951": "no standard deviation over a whole tensor was computed here",
    "DL956": "no loss over numbers was computed here",
}
"""The reason for which a finding was not reached, for each rule that has a probe."""

LINES = frozenset(
    {
        *("DL101", "DL102", "DL103", "DL104", "DL105", "DL106", "DL107", "DL108", "DL111", "DL112", "DL115", "DL116"),
        *("DL117", "DL207", "DL216", "DL701", "DL717"),
    }
)
"""Rules about one line: what is seen elsewhere in the same function says nothing about it."""

EXPERIMENTS: dict[str, tuple[Mode, int]] = {
    "overfit-one-batch": ("overfit", 200),
    "lr-range": ("lr-range", 100),
    "resume-check": ("resume", 0),
}
"""What a run of its own can be made for, by the name of its judgement: the mode, and the steps that it takes; 0 for
those of any run."""
