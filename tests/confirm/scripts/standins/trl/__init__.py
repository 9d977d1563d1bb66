"""Stands in for trl: data sets are lists of columns, and a token is a word."""

from trl.trainer.dpo_trainer import DPOTrainer as DPOTrainer
from trl.trainer.grpo_trainer import GRPOTrainer as GRPOTrainer
from trl.trainer.sft_trainer import SFTTrainer as SFTTrainer
