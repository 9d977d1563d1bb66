"""Takes pairs of answers, and leaves out those whose question is too long."""

from trl.trainer import Rows, Trainer, tokens


class DPOTrainer(Trainer):
    def prepared(self, rows):
        names = ("prompt", "chosen", "rejected")
        rows = rows.map(lambda row: {f"{name}_ids": tokens(row[name]) for name in names})
        return Rows([row for row in rows.rows if len(row["prompt_ids"]) < self.args.max_length])
