"""The programs of ``language_bad`` without their bugs, and others that look like them."""

import copy
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from language_bad import END, WORDS, Model, go_on, learn, prefer, texts
from torch import nn

torch.manual_seed(0)


def labels():
    model = Model()
    for _ in range(6):
        ids, mask = texts()
        wanted = ids.masked_fill(mask == 0, -100)
        model(input_ids=ids, attention_mask=mask, labels=wanted).backward()  # REFUTED DL902, DL903, DL904, DL906
        answers = wanted.clone()
        answers[:, :3] = -100
        model(input_ids=ids, attention_mask=mask, labels=answers).backward()  # REFUTED DL902, DL903


def questions_that_end():
    """The end of each question is ignored together with the question, and so are all texts that are cut off."""
    model = Model()
    for _ in range(6):
        ids, mask = torch.randint(3, WORDS, (4, 10)), torch.ones(4, 10).long()
        ids[:, 4] = END
        wanted = ids.clone()
        wanted[:, :5] = -100
        model(input_ids=ids, attention_mask=mask, labels=wanted).backward()  # NOT CONFIRMED DL902, DL903


class Masking(Model):
    """Weighs its own losses by the mask that it is given."""

    def forward(self, input_ids, attention_mask, labels):
        scores = self.head(self.tokens(input_ids))
        losses = F.cross_entropy(scores.transpose(1, 2), labels, reduction="none")
        return (losses * attention_mask).sum() / attention_mask.sum()


def masked_by_the_model():
    model = Masking()
    for _ in range(4):
        ids, mask = texts()
        model(input_ids=ids, attention_mask=mask, labels=ids).backward()  # NOT CONFIRMED DL902


def perplexity():
    model = Model().eval()
    with torch.no_grad():
        for _ in range(4):
            ids, mask = texts()
            model(input_ids=ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100))  # REFUTED DL908


def scaled_positions():
    model = Model({"rope_type": "linear", "factor": 2.0}, most=6)
    for _ in range(3):
        model(input_ids=texts()[0])  # REFUTED DL904, DL906


def padding_in_front():
    model = Model().eval()
    go_on(model, *texts(side="left"))  # REFUTED DL901
    go_on(model, *texts(side="left"), cached=False)  # REFUTED DL901


def batches_that_grow():
    """Evaluation on batches that are longer and longer continues nothing."""
    model = Model().eval()
    with torch.no_grad():
        for length in (8, 9, 10):
            ids, mask = texts()
            model(input_ids=ids[:, :length], attention_mask=mask[:, :length])  # NOT CONFIRMED DL901


def adapters():
    learn(Model(adapters=SimpleNamespace(target_modules={"head"}, modules_to_save=None)))  # REFUTED DL605, DL606
    asked = SimpleNamespace(target_modules="head", modules_to_save=["classifier", "head"], bias="all")
    model = Model(adapters=asked)
    model.head.bias.requires_grad_(True)
    learn(model)  # REFUTED DL606


def preferences():
    policy = Model()
    prefer(policy, copy.deepcopy(policy), rate=1e-5)  # REFUTED DL910, DL911


class Switched(Model):
    """A model whose adapter can be switched off, which makes it its own reference."""

    def __init__(self):
        super().__init__(adapters=SimpleNamespace(target_modules={"head"}, modules_to_save=None))
        nn.init.zeros_(self.lora_A.weight)
        nn.init.zeros_(self.lora_A.bias)

    def forward(self, ids):
        hidden = self.tokens(ids)
        return self.head(hidden + self.lora_A(hidden) if torch.is_grad_enabled() else hidden)


def preferences_by_adapter():
    policy = Switched()
    prefer(policy, policy, rate=5e-5)  # REFUTED DL910, DL911


def preferences_resumed():
    policy, reference = Model(), Model()
    kept = torch.optim.SGD(policy.parameters(), lr=1e-5).state_dict()
    torch.optim.SGD(policy.parameters(), lr=1e-5).load_state_dict(kept)
    prefer(policy, reference, rate=1e-5)  # NOT CONFIRMED DL911


class Rewards(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.head = nn.Embedding(WORDS, 8), nn.Linear(8, 1)

    def forward(self, ids):
        return self.head(self.tokens(ids)).mean((1, 2))


def rewards_of_pairs():
    """Learns what is preferred without any reference, while another model is called beside."""
    model, judge = Rewards(), Model().eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        chosen, rejected = texts()[0], texts()[0]
        with torch.no_grad():
            judge(chosen)
        optimizer.zero_grad()
        (-F.logsigmoid(model(chosen) - model(rejected))).mean().backward()  # NOT CONFIRMED DL910, DL911
        optimizer.step()


def steady_sums():
    scores = nn.Embedding(2, 600)
    optimizer = torch.optim.SGD(scores.parameters(), lr=0.1)
    for _ in range(700):
        optimizer.zero_grad()
        F.cross_entropy(scores(torch.arange(2)), torch.randint(0, 600, (2,))).backward()  # REFUTED DL907
        optimizer.step()


if __name__ == "__main__":
    for program in (
        labels, questions_that_end, masked_by_the_model, perplexity, scaled_positions, padding_in_front,
        batches_that_grow, adapters, preferences, preferences_by_adapter, preferences_resumed, rewards_of_pairs, steady_sums,
    ):  # fmt: skip
        program()
