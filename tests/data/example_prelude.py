"""What the examples in the pages of rules may take for granted: usual imports, and a model with all it needs."""

# ruff: noqa: F401, N812, N817 - examples use what they need of it
import argparse
import copy
import math
import os
import random

import deepspeed
import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration
from peft import LoraConfig, get_peft_model
from torch import optim
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.utils.rnn import pad_sequence
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, OneCycleLR, ReduceLROnPlateau, StepLR
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset, random_split
from torchvision import datasets, models, transforms
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    Trainer,
    TrainingArguments,
)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 512, 3), nn.BatchNorm2d(512), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.dropout = nn.Dropout()
        self.fc = nn.Linear(512, 10)

    def forward(self, x):
        return self.fc(self.dropout(self.body(x).flatten(1)))


args = argparse.Namespace(lr=0.1, epochs=10)
epochs, steps = 10, 4
device = torch.device("cuda")
dataset = datasets.CIFAR10("data", transform=transforms.ToTensor())
loader = DataLoader(dataset, batch_size=64, shuffle=True)
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
scheduler = StepLR(optimizer, step_size=10)
scaler = torch.amp.GradScaler("cuda")
criterion = nn.CrossEntropyLoss()

x, y = next(iter(loader))
ys = [row[:index] for index, row in enumerate(y, 1)]
target = y
logits = model(x)
loss = criterion(logits, y)
scheduler.step()


def train_step(x, y):
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()


def train(model, loader, optimizer):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
