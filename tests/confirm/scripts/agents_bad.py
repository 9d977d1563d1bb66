"""Agents of Stable-Baselines3 that are saved and restored without what belongs to them."""

import gymnasium
import numpy as np
import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

torch.manual_seed(0)


class Walk(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), dtype=np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 8
        return np.zeros(2, dtype=np.float32), {}

    def step(self, action):
        self.left -= 1
        return np.full(2, self.left / 8, dtype=np.float32), float(action), self.left == 0, False, {}


def walks():
    return DummyVecEnv([Walk])


def small_ppo(environment):
    return PPO("MlpPolicy", environment, n_steps=16, batch_size=8, n_epochs=1, device="cpu", seed=0)


def small_dqn(environment):
    return DQN("MlpPolicy", environment, learning_starts=8, buffer_size=64, batch_size=4, device="cpu", seed=0)


def evaluate(agent, environment, steps=8):
    observation = environment.reset()
    for _ in range(steps):
        observation, *_ = environment.step(agent.predict(observation)[0])


def saved_alone():
    agent = small_ppo(VecNormalize(walks()))
    agent.learn(32)
    agent.save("alone.zip")  # CONFIRMED DL952


def learning_in_evaluation():
    environment = VecNormalize(walks())
    agent = small_ppo(environment)
    agent.learn(16)
    environment.save("statistics.pkl")
    evaluate(agent, VecNormalize.load("statistics.pkl", walks()))  # CONFIRMED DL952


def without_memory():
    agent = small_dqn(walks())
    agent.learn(16)
    agent.save("agent.zip")
    DQN.load("agent.zip", walks()).learn(16)  # CONFIRMED DL953


if __name__ == "__main__":
    for program in (saved_alone, learning_in_evaluation, without_memory):
        program()
