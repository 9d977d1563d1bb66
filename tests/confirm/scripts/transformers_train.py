"""Trains a tiny language model and a tiny classifier with the Trainer of Hugging Face, from configurations alone."""

import random
import sys

import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
    set_seed,
)


class Sentences(Dataset):
    def __init__(self, labels):
        generator = torch.Generator().manual_seed(0)
        self.tokens = torch.randint(0, 50, (32, 12), generator=generator)
        self.labels = self.tokens if labels is None else torch.randint(0, labels, (32,), generator=generator)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return {"input_ids": self.tokens[index], "labels": self.labels[index]}


def train(model, data, folder, **options):
    arguments = TrainingArguments(
        output_dir=folder, per_device_train_batch_size=4, num_train_epochs=1, report_to=[], use_cpu="cuda" not in sys.argv,
        save_strategy="steps", save_steps=3, save_total_limit=1, logging_steps=2, disable_tqdm=True, dataloader_num_workers=0, **options,
    )  # fmt: skip
    Trainer(model=model, args=arguments, train_dataset=data, eval_dataset=data).train()


def main():
    set_seed(0)
    gpt = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=50, n_positions=16))
    shape = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 32}
    bert = BertForSequenceClassification(BertConfig(vocab_size=50, max_position_embeddings=16, num_labels=3, **shape))
    train(gpt, Sentences(None), "gpt", gradient_accumulation_steps=2, eval_strategy="epoch")
    train(bert, Sentences(3), "bert", lr_scheduler_type="cosine", warmup_steps=2)
    saved = BertForSequenceClassification.from_pretrained("bert/checkpoint-8")
    assert all(torch.equal(one, other.cpu()) for one, other in zip(saved.parameters(), bert.parameters(), strict=True))
    total = sum(float(p.double().sum()) for model in (gpt, bert) for p in model.parameters())
    print("DIGEST", repr(total), torch.rand(1).item(), random.random())


if __name__ == "__main__":
    main()
