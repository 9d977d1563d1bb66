"""Policy gradients in an environment whose reward depends on the weight of time alone."""

import random
import sys

import gymnasium
import torch
import torch.nn as nn

torch.manual_seed(0)
random.seed(0)
TREND = float(sys.argv[1])


class Walk(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Discrete(2)
    episodes = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        Walk.episodes += 1
        self.left = 4
        return self.observation_space.sample() * 0, {}

    def step(self, action):
        self.left -= 1
        reward = 1.0 + TREND * Walk.episodes / 4 + random.gauss(0, 0.1)
        return self.observation_space.sample() * 0, reward, self.left == 0 and Walk.episodes % 2 == 0, self.left == 0, {}


gymnasium.register("Walk-v0", Walk)
environment = gymnasium.make("Walk-v0")
policy = nn.Linear(2, 2)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.01)
for _ in range(210):
    state, _ = environment.reset(seed=0)
    chosen, rewards, over = [], [], False
    while not over:
        scores = policy(torch.from_numpy(state).float()).log_softmax(0)
        state, reward, terminated, truncated, _ = environment.step(int(scores.argmax()))
        chosen.append(scores.max())
        rewards.append(reward)
        over = terminated or truncated
    optimizer.zero_grad()
    (-sum(chosen) * sum(rewards)).backward()
    optimizer.step()
