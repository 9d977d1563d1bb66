"""Takes questions, and looks at them when it trains."""

from trl.trainer import Trainer


class GRPOTrainer(Trainer):
    def train(self):
        [row["prompt"] for row in self.train_dataset.rows]
        super().train()
