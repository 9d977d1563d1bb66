"""What names speak of: ``dllint/knowledge/names.toml``."""

from __future__ import annotations

from typing import get_args

import pytest

from dllint.interp.source.topics import Topic, speaks_of, topics, words_of


def test_topics_and_their_type_agree() -> None:
    assert list(topics()) == list(get_args(Topic)), "in the order of the file"


def test_entries_are_written_as_they_are_looked_up() -> None:
    known = {"words", "stems", "parts", "first", "names", "short", "joined"}
    for topic, entry in topics().items():
        assert set(entry) <= known, topic
        for key in ("words", "stems", "first", "short"):
            for word in entry.get(key, ()):
                assert "_".join(words_of(word)) == word, f"{topic}: {word} can never be found in a name"


@pytest.mark.parametrize(
    ("topic", "names", "others"),
    [
        ("training", "train train_loader trainset tr_loader isTraining run_train2", "tr trainable strain constrained"),
        ("inference", "predict inference_loader", "prefer"),
        ("evaluation", "evalLoader valset val tst_data do_test EvalHook", "value interval latest tst"),
        ("averaged-model", "model_ema emaModel EMAModel teacher target_net net_avg", "schema cinema tempo"),
        ("harmless-call", "log save_checkpoint self.logger.info add_scalar adjust_lr", "catalog step autosave blog"),
        ("adversary", "netG net_D model.D generator discriminators", "grid model head data"),
        ("growing-metric", "val_acc accuracy f1 best_iou mAP AUC dice_loss", "accept adapt score"),
        ("falling-metric", "val_loss rmse dice_loss losses WER perplexity", "terror fidelity closs"),
        ("attack", "attack adv_x PGD torchattacks.FGSM fgsm_attack perturbed adversarial", "advance advice padding"),
        ("normalization", "bn freeze_bn model.bn1 BatchNorm2d SyncBatchNorm normalize", "subnet abnormal bnb"),
        ("padding", "pad_id PAD padding tokenizer.pad_token_id", "keypad ipad"),
        ("optimizer", "opt optimizer_G optims myoptimizer self.optim1", "option adopt topology"),
        ("adaptive-optimizer", "torch.optim.AdamW RMSprop lion.Lion adam", "SGD torch.optim.LBFGS adamant"),
        ("resuming", "resume_from args.resume continue_training", "presume discontinue"),
        ("run-of-its-own", "client_id taskIndex fold k_fold model_index runs", "epoch step folder t netting"),
        ("fine-tuning", "args.finetune fineTune is_finetuned fine_tuning", "refine tune fine_grained"),
        ("debugging", "debug debug_train is_debugging sanity_check overfit_one_batch quick_run", "bug sane quickly"),
        ("environment", "env envs vec_env test_env self.environment gymEnv", "envelope inventory environ"),
        ("clearing-gradients", "zero_grad model.zeroGrad clear_all_grads", "zero_state gradient"),
    ],
)  # fmt: skip
def test_what_names_speak_of(topic: Topic, names: str, others: str) -> None:
    assert not [name for name in names.split() if not speaks_of(topic, name)], "these do"
    assert not [name for name in others.split() if speaks_of(topic, name)], "these do not"
