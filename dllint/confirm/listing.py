"""The probes by name, for those who choose among them: this is known without importing torch."""

from __future__ import annotations

from dllint.errors import UserError

ALWAYS = ("gradients", "names")
"""Probes that others ask, and that are never left out."""

PROBES: dict[str, str] = {
    "accumulation": "DL210: backward passes per step, and how the loss is scaled",
    "clipping": "DL212, DL213: what clipping is given, and when",
    "gradients": "DL201 to DL204: gradients that are cleared, used and left (always on)",
    "names": "what parameters are called (always on)",
    "roots": "DL205, DL206: what backward passes come from",
    "coverage": "DL306 to DL309, DL601: parameters that are used, held, registered, frozen",
    "loss_input": "DL101, DL103, DL104: what losses are given",
    "targets": "DL102, DL106, DL111, DL112, DL115, DL117: targets and inputs that a loss cannot use",
    "padding": "DL108: padding that is counted",
    "masked_mean": "DL109: means over what a mask has made zero",
    "refusals": "DL105, DL107, DL904: what torch refuses, and why",
    "logits": "DL116, DL907: logits that are probabilities, or drift away",
    "metrics": "DL110: metrics that count what the loss ignores",
    "bootstrap": "DL956: gradients through targets of reinforcement learning",
    "by_hand": "DL101, DL117, DL956: losses that no function of torch has computed",
    "deviations": "DL951: deviations of one sample, or of equal ones",
    "returns": "the returns of episodes, and their trend",
    "agents": "DL952, DL953: what is saved with agents, and restored",
    "adapters": "DL605, DL606: adapters that match nothing, and what is not saved with them",
    "supervision": "DL902, DL903, DL908: which tokens count",
    "positions": "DL906: scaling of positions",
    "generation": "DL901: texts that are continued after padding",
    "preferences": "DL910, DL911: the reference model of preferences, and its learning rate",
    "evaluation_mode": "DL207: layers that train in evaluation",
    "functional_dropout": "DL216: functions that drop in evaluation",
    "training_mode": "DL208: evaluation mode that training goes on in",
    "evaluation_gradients": "DL209: evaluation with gradients on",
    "kept_graphs": "DL211: losses that are kept with all that was computed for them",
    "recurrent": "DL219: last steps of layers that run both ways",
    "recreated": "DL217: optimizers that are made again and again",
    "loading": "DL603, DL604, DL607: what is loaded, and where it goes",
    "asked_rates": "DL313: learning rates that are asked for",
    "plateau": "DL315: what schedulers that wait for a plateau are told",
    "fused": "DL311: fused optimizers, compared with others",
    "scaled_steps": "DL214: steps with gradients that are still scaled",
    "scheduler_order": "DL303: whether the optimizer steps first",
    "cadence": "DL304, DL305: how often schedulers step",
    "randomness": "DL401, DL402, DL403: random states of workers",
    "order": "DL414: the order of epochs with a distributed sampler",
    "evaluation_data": "DL507, DL508: whether evaluation sees the same data each time, scaled as in training",
    "checkpoints": "DL701, DL704, DL717: what is saved, and where",
    "decay": "DL301: the share of weight decay in gradients",
    "traces": "loss, learning rate and scale over the run",
    "finiteness": "losses and weights that are not finite",
    "zero_rate": "learning rates of 0",
    "replicas": "parameters of ranks that should be equal",
    "movement": "DL312: how far each layer moves in a step",
    "half": "DL310, DL316: steps in half precision",
    "activations": "units that are dead or saturated",
    "scaling": "DL802: the scale of gradient scalers, and steps that they skip",
    "autocast": "the types that products are computed in under autocast",
    "normalization": "DL602: statistics of batch norms that are frozen otherwise",
    "spectral": "DL220: spectral norms that are first used in evaluation",
    "freezing": "modules that say they are frozen, and train",
    "inputs": "DL503, DL504: ranges and channels of what models are given",
    "labels": "labels by class, and the largest logits",
    "passes": "DL415: whether loaders shuffle, and repeat themselves",
    "shares": "DL404: whether the workers of a loader that iterates take the same samples",
    "samples": "DL406, DL409, DL410, DL412: samples that do not fit together, or are missing",
    "loader_setup": "DL407, DL408, DL417: what can be pinned and sent to workers, and shares of shares",
    "shared_memory": "DL418: batches of workers, and the memory they share",
    "transfers": "batches that are lost on their way to the model",
    "channel_order": "DL505: the channels of samples, and of the images that OpenCV reads for them",
    "normalized_channels": "DL509: channels before and after `Normalize`",
    "rank_comparison": "DL405, DL705, DL805: what ranks draw, how long their passes are, what they save",
    "batch_norms": "DL411, DL515, DL516: how many values batch norms take their statistics from",
    "classes": "DL514, DL517: labels that count from one, or are mostly of one class",
    "pretrained": "DL510: images for models with weights of a library",
    "detection": "DL512, DL513: boxes and thresholds of detectors",
    "wrapping": "DL806: models that are moved after they were wrapped",
    "aliases": "DL719: states that follow the weights",
    "resumption": "DL711, DL713, DL714: what is not restored with an optimizer",
    "library_states": "DL706, DL709: what libraries save and restore beside weights",
    "averages": "DL715, DL941: averages of weights that are not saved or not used",
    "trainers": "DL708, DL710, DL716: how trainers of libraries resume, and what is best for them",
    "trainer_data": "DL909: columns that trainers of trl take, and what they cut off",
    "diffusion": "DL942, DL944, DL945, DL946: latents, noise and conditions",
    "latents": "DL943: the factor of latents, and what their autoencoder says",
    "image_tokens": "DL963: places for images without images",
    "towers": "DL961, DL962: the parts of a model of several modalities",
    "sensitivity": "DL905, and whether models look at their inputs, asked at the end",
}
"""What each probe looks at, and which rules it decides."""


def listing() -> str:
    """The probes, one in a line."""
    width = max(map(len, PROBES))
    return "".join(f"{name:{width}}  {what}\n" for name, what in PROBES.items())


def chosen(text: str) -> list[str]:
    """The names of the probes that are asked for.

    Args:
        text: names with commas between them. If all of them have a minus sign in front, they are left out instead.

    Raises:
        UserError: there is no probe of a name.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    names = {word.lstrip("-") for word in words}
    if unknown := sorted(names - set(PROBES)):
        raise UserError(f"there is no probe {', '.join(unknown)}: `dllint confirm --probes list` shows them")
    if not words or len({word.startswith("-") for word in words}) > 1:
        raise UserError("--probes takes names, or names with a minus sign each")
    leaves_out = words[0].startswith("-")
    return [name for name in PROBES if name in ALWAYS or (name in names) != leaves_out]
