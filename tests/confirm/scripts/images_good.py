"""Evaluation on images that are made as those of training, but for what is random."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
IMAGES = torch.rand(96, 3, 8, 8)


class Images(Dataset):
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return len(IMAGES)

    def __getitem__(self, index):
        return self.transform(IMAGES[index]), index % 4


def augmented(image):
    return (image.flip(-1) if torch.rand(()) < 0.5 else image) * 2 - 1


def scaled(image):
    return image * 2 - 1  # REFUTED DL507, DL508


train = DataLoader(Images(augmented), batch_size=16, shuffle=True)
test = DataLoader(Images(scaled), batch_size=32)
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in train:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for x, y in test:
            model(x).argmax(1)
    model.train()
