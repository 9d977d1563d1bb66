"""The agents of ``agents_bad`` with what belongs to them."""

import torch
from agents_bad import evaluate, small_dqn, small_ppo, walks
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.vec_env import VecNormalize

torch.manual_seed(0)


def saved_with_statistics():
    environment = VecNormalize(walks())
    agent = small_ppo(environment)
    agent.learn(32)
    agent.save("agent.zip")  # REFUTED DL952
    environment.save("statistics.pkl")
    fixed = VecNormalize.load("statistics.pkl", walks())  # REFUTED DL952
    fixed.training = False
    evaluate(agent, fixed)
    again = VecNormalize.load("statistics.pkl", walks())  # REFUTED DL952
    PPO.load("agent.zip", again, device="cpu").learn(16)


def saved_without_any():
    agent = small_ppo(walks())
    agent.learn(16)
    agent.save("plain.zip")  # NOT CONFIRMED DL952


def with_memory():
    agent = small_dqn(walks())
    agent.learn(16)  # NOT CONFIRMED DL953
    agent.learn(16, reset_num_timesteps=False)  # NOT CONFIRMED DL953
    agent.save("agent.zip")
    agent.save_replay_buffer("memory.pkl")
    again = DQN.load("agent.zip", walks())
    again.load_replay_buffer("memory.pkl")
    again.learn(16, reset_num_timesteps=False)  # REFUTED DL953


saved_with_statistics()
saved_without_any()
with_memory()
