"""The trainers of trl, and the data they take."""

import torch
import torch.nn as nn


class Rows:
    """A data set of rows, as that of Hugging Face."""

    def __init__(self, rows):
        self.rows, self.column_names = rows, list(rows[0])

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]

    def map(self, function):
        return Rows([{**row, **function(row)} for row in self.rows])


class Trainer:
    def __init__(self, model, args, train_dataset=None):
        self.model, self.args = model, args
        self.train_dataset = self.prepared(train_dataset)

    def prepared(self, rows):
        return rows

    def train(self):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            nn.functional.mse_loss(self.model(torch.randn(4, 2)), torch.zeros(4, 1)).backward()
            optimizer.step()


def tokens(text, longest=None):
    return list(range(len(text.split())))[:longest]
