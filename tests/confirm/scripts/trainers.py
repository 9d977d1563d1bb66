"""Trainers of libraries that are told to resume and to keep the best, rightly and wrongly, and what libraries save."""

import copy
import os
import tempfile

import lightning
import torch
import torch.distributed.checkpoint as dcp
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

torch.manual_seed(0)
folder = tempfile.mkdtemp()
rows = [{"input_ids": torch.randint(0, 50, (6,)), "labels": torch.tensor(index % 3)} for index in range(8)]


def trainer(**options):
    shape = {"num_hidden_layers": 1, "num_attention_heads": 1, "hidden_size": 8, "intermediate_size": 8}
    model = BertForSequenceClassification(BertConfig(vocab_size=50, max_position_embeddings=8, num_labels=3, **shape))
    arguments = TrainingArguments(
        output_dir=folder, per_device_train_batch_size=4, report_to=[], use_cpu=True, disable_tqdm=True,
        logging_strategy="no", **{"save_strategy": "no", "max_steps": 3, **options},
    )  # fmt: skip
    return Trainer(model=model, args=arguments, train_dataset=rows)


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 2)

    def training_step(self, batch, number):
        loss = F.cross_entropy(self.net(batch[0]), batch[1])
        self.log_dict({"loss": loss, "accuracy": -loss})
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(*callbacks, **options):
    data = DataLoader(TensorDataset(torch.randn(8, 4), torch.randint(0, 2, (8,))), batch_size=4, shuffle=True)
    lightning.Trainer(
        accelerator="cpu", devices=1, logger=False, enable_progress_bar=False, enable_model_summary=False,
        max_epochs=1, callbacks=list(callbacks), default_root_dir=folder, enable_checkpointing=bool(callbacks),
    ).fit(Module(), data, **options)  # fmt: skip


def accelerated(*registered):
    accelerator = Accelerator(cpu=True)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    model, optimizer, *_ = accelerator.prepare(*(parts[name] for name in ("model", "optimizer", *registered)))
    for _ in range(2):
        accelerator.backward(model(torch.randn(8, 4)).square().mean())
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    accelerator.save_state(os.path.join(folder, "accelerated"))


def sharded(how):
    model = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for number in range(2):
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        if number == 0:
            path = os.path.join(folder, f"sharded {how}")
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            dcp.save(state, checkpoint_id=path)
            if how != "in place":
                state = copy.deepcopy(state)
            dcp.load(state, checkpoint_id=path)
            model.load_state_dict(state["model"])
            if how == "taken":
                optimizer.load_state_dict(state["optimizer"])


def main():
    sharded("left")  # CONFIRMED DL706
    sharded("taken")  # REFUTED DL706
    sharded("in place")  # REFUTED DL706
    accelerated()  # CONFIRMED DL709
    accelerated("scheduler")  # REFUTED DL709
    trainer(save_strategy="steps", save_steps=2).train()  # NOT CONFIRMED DL708, DL716
    last = os.path.join(folder, "checkpoint-2")
    trainer(resume_from_checkpoint=last).train()  # CONFIRMED DL708
    trainer(resume_from_checkpoint=last).train(resume_from_checkpoint=last)  # REFUTED DL708
    for name in os.listdir(last):
        if name.startswith("optimizer"):
            os.rename(os.path.join(last, name), os.path.join(folder, name))
    trainer().train(resume_from_checkpoint=last)  # CONFIRMED DL708
    trainer(metric_for_best_model="wer").train()  # CONFIRMED DL716
    trainer(metric_for_best_model="eval_loss").train()  # REFUTED DL716
    trainer(metric_for_best_model="score").train()  # NOT CONFIRMED DL716
    keeper = {"dirpath": os.path.join(folder, "kept"), "filename": "best"}
    fit(ModelCheckpoint(monitor="accuracy", **keeper), ckpt_path="last")  # CONFIRMED DL710, DL716
    fit(ModelCheckpoint(monitor="accuracy", mode="max", **keeper))  # REFUTED DL716
    fit(ModelCheckpoint(save_last=True, **keeper), ckpt_path="last")  # REFUTED DL710
    fit(EarlyStopping("loss"))  # REFUTED DL716


if __name__ == "__main__":
    main()
