"""Takes texts, or questions with answers, and cuts off what is too long unless it packs them."""

from trl.trainer import Rows, Trainer, tokens


class SFTTrainer(Trainer):
    def prepared(self, rows):
        if "prompt" in rows.column_names:
            rows = rows.map(lambda row: {"text": row["prompt"] + " " + row["completion"]})
        longest = None if self.args.packing else self.args.max_length
        rows = rows.map(lambda row: {"input_ids": tokens(row["text"], longest)})
        return Rows([{"input_ids": [0] * self.args.max_length}] * 3) if self.args.packing else rows
