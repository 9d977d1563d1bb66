"""Language models with one bug each, as in ``loops_bad``. They are called as those of transformers and PEFT are."""

import copy
from types import SimpleNamespace

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
WORDS, END, PAD = 30, 2, 0


class Rotary(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.rope_type = kind


class Model(nn.Module):
    def __init__(self, scaling=None, most=64, adapters=None):
        super().__init__()
        scaling = scaling or {"rope_type": "default"}
        self.config = SimpleNamespace(eos_token_id=END, rope_parameters=scaling, max_position_embeddings=most)
        self.rotary = Rotary(scaling["rope_type"])
        self.tokens, self.head = nn.Embedding(WORDS, 8), nn.Linear(8, WORDS)
        if adapters is not None:
            self.peft_config = {"default": adapters}
            self.lora_A = nn.Linear(8, 8)
            self.requires_grad_(False)
            self.lora_A.requires_grad_(True)

    def forward(self, input_ids, attention_mask=None, labels=None, past_key_values=None):
        hidden = self.tokens(input_ids)
        scores = self.head(hidden + self.lora_A(hidden) if hasattr(self, "lora_A") else hidden)
        if labels is None:
            return scores
        return F.cross_entropy(scores[:, :-1].reshape(-1, WORDS), labels[:, 1:].reshape(-1))


def texts(padding=PAD, side="right"):
    """Texts that end, and are padded."""
    ids = torch.randint(3, WORDS, (4, 10))
    mask = torch.ones_like(ids)
    for row, length in enumerate(torch.randint(4, 8, (4,))):
        ids[row, length - 1] = END
        padded = slice(length, None) if side == "right" else slice(0, 10 - length)
        ids[row, padded], mask[row, padded] = padding, 0
    return ids, mask


def padding_in_labels():
    model = Model()
    for _ in range(4):
        ids, mask = texts()
        model(input_ids=ids, attention_mask=mask, labels=ids.clone()).backward()  # CONFIRMED DL902


def perplexity_of_padding():
    model = Model().eval()
    with torch.no_grad():
        losses = [model(input_ids=ids, attention_mask=mask, labels=ids) for ids, mask in (texts() for _ in range(4))]  # CONFIRMED DL908
    print(torch.stack(losses).mean().exp())


def ends_as_padding():
    model = Model()
    for _ in range(6):
        ids, mask = texts(padding=END)
        labels = ids.masked_fill(ids == END, -100)
        model(input_ids=ids, attention_mask=mask, labels=labels).backward()  # CONFIRMED DL903


def tokens_without_rows():
    model = Model()
    try:
        model(torch.full((2, 3), WORDS))  # CONFIRMED DL904
    except IndexError as error:
        print(error)


def scaling_set_too_late():
    model = Model()
    model.config.rope_parameters = {"rope_type": "linear", "factor": 2.0}
    for _ in range(3):
        model(input_ids=texts()[0])  # CONFIRMED DL906


def rows_too_long():
    model = Model(most=6)
    for _ in range(3):
        model(input_ids=texts()[0])  # CONFIRMED DL906


def go_on(model, ids, mask, words=3, cached=True):
    """Continue texts, as ``generate`` does."""
    given = ids
    with torch.no_grad():
        for _ in range(words):
            following = model(input_ids=given, attention_mask=mask)[:, -1:].argmax(-1)
            ids, mask = torch.cat([ids, following], 1), torch.cat([mask, torch.ones_like(following)], 1)
            given = following if cached else ids
    return ids


def padding_before_new_words():
    model = Model().eval()
    go_on(model, *texts())  # CONFIRMED DL901
    go_on(model, *texts(), cached=False)  # CONFIRMED DL901


def adapters_that_match_nothing():
    asked = SimpleNamespace(target_modules={"head", "query"}, modules_to_save=None)
    learn(Model(adapters=asked))  # CONFIRMED DL605


def head_beside_adapters():
    model = Model(adapters=SimpleNamespace(target_modules={"head"}, modules_to_save=None))
    model.head.requires_grad_(True)
    learn(model)  # CONFIRMED DL606


def module_to_save_that_is_none():
    learn(Model(adapters=SimpleNamespace(target_modules={"head"}, modules_to_save=["classifier"])))  # CONFIRMED DL606


def learn(model, steps=4):
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for _ in range(steps):
        ids, mask = texts()
        optimizer.zero_grad()
        model(input_ids=ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100)).backward()
        optimizer.step()


def likelihood(model, ids):
    return model(ids)[:, :-1].log_softmax(-1).gather(2, ids[:, 1:, None]).sum((1, 2))


def prefer(policy, reference, rate=1e-5, after=None):
    """Direct preference optimization."""
    optimizer = torch.optim.SGD(policy.parameters(), lr=rate)
    for _ in range(6):
        chosen, rejected = texts()[0], texts()[0]
        with torch.no_grad():
            before = likelihood(reference, chosen) - likelihood(reference, rejected)
        margin = likelihood(policy, chosen) - likelihood(policy, rejected) - before
        optimizer.zero_grad()
        (-F.logsigmoid(0.1 * margin)).mean().backward()
        optimizer.step()
        if after is not None:
            after(policy, reference)


def fast_preferences():
    policy = Model()
    prefer(policy, copy.deepcopy(policy), rate=1e-2)  # CONFIRMED DL910


def policy_as_reference():
    policy = Model()
    prefer(policy, policy)  # CONFIRMED DL911


def another_reference():
    prefer(Model(), Model())  # CONFIRMED DL911


def follow(policy, reference):
    with torch.no_grad():
        for ours, theirs in zip(reference.parameters(), policy.parameters()):
            ours.lerp_(theirs, 0.1)


def moving_reference():
    policy = Model()
    prefer(policy, copy.deepcopy(policy), after=follow)  # CONFIRMED DL911


def drifting_sums():
    shift = nn.Parameter(torch.zeros(600))
    optimizer = torch.optim.SGD([shift], lr=1.0)
    for _ in range(700):
        optimizer.zero_grad()
        scores = torch.randn(2, 600) + shift
        F.cross_entropy(scores, torch.randint(0, 600, (2,))).backward()  # CONFIRMED DL907
        shift.grad = torch.full_like(shift, -0.05)
        optimizer.step()


if __name__ == "__main__":
    for program in (
        padding_in_labels, perplexity_of_padding, ends_as_padding, scaling_set_too_late,
        rows_too_long, padding_before_new_words, adapters_that_match_nothing, head_beside_adapters,
        module_to_save_that_is_none, fast_preferences, policy_as_reference, another_reference, moving_reference,
        drifting_sums, tokens_without_rows,  # last, since a GPU fails for good
    ):  # fmt: skip
        program()
