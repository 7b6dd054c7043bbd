"""Tests trl's trainers, whose steps have additional forward passes: only the pass with
gradients is recorded."""

import models
import pytest
import torch

import entropyscan as es

trl = pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")
tokenizers = pytest.importorskip("tokenizers")
pytestmark = pytest.mark.filterwarnings("ignore")

WORDS = ["<pad>", "<s>", "</s>", "<unk>", *"abcdefghijklmnop"]


def tokenizer():
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: i for i, word in enumerate(WORDS)}
    model = tokenizers.models.WordLevel(vocabulary, unk_token="<unk>")
    inner = tokenizers.Tokenizer(model)
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )


def passes_of(model):
    """Collects the context lengths of forward passes, separately for passes with and
    without gradients."""
    found = {True: [], False: []}

    def note(module, args, options):
        ids = options.get("input_ids", args[0] if args else None)
        if ids is not None:
            found[torch.is_grad_enabled()].append(ids.shape[1])

    model.register_forward_pre_hook(note, with_kwargs=True)
    return found


def common(folder):
    return dict(output_dir=str(folder), max_steps=2, per_device_train_batch_size=2, report_to=[],
                logging_steps=1, save_strategy="no", use_cpu=True, disable_tqdm=True,
                gradient_checkpointing=False)  # fmt: skip


def sft(model, folder, callback):
    rows = datasets.Dataset.from_dict({"text": ["a b c d e f g", "c d e f"] * 4})
    args = trl.SFTConfig(**common(folder), max_length=8)
    return trl.SFTTrainer(model=model, args=args, train_dataset=rows,
                          processing_class=tokenizer(), callbacks=[callback])  # fmt: skip


def dpo(model, folder, callback):
    rows = datasets.Dataset.from_dict(
        {"prompt": ["a b c"] * 8, "chosen": [" d e f g h"] * 8, "rejected": [" k"] * 8}
    )
    args = trl.DPOConfig(**common(folder))
    return trl.DPOTrainer(model=model, args=args, train_dataset=rows,
                          processing_class=tokenizer(), callbacks=[callback])  # fmt: skip


def grpo(model, folder, callback):
    rows = datasets.Dataset.from_dict({"prompt": ["a b c"] * 8})
    args = trl.GRPOConfig(**common(folder), num_generations=2, max_completion_length=9,
                          beta=0.1)  # fmt: skip

    def reward(completions, **_):
        return [float(len(text)) for text in completions]

    return trl.GRPOTrainer(model=model, args=args, reward_funcs=reward, train_dataset=rows,
                           processing_class=tokenizer(), callbacks=[callback])  # fmt: skip


@pytest.mark.parametrize("kind", [sft, dpo, grpo])
def test_the_pass_that_trains_is_recorded(kind, tmp_path):
    made = models.gpt2(vocab_size=len(WORDS), n_positions=32)
    made.save_pretrained(tmp_path / "model")  # trl loads reference models from here
    model = type(made).from_pretrained(tmp_path / "model")
    model.generation_config.eos_token_id = None  # completions have the full length
    path = tmp_path / "run.db"
    found = passes_of(model)
    trainer = kind(model, tmp_path, es.TrainerCallback(path))
    trainer.train()
    run = es.open(path)
    assert run.steps().size == 2
    assert run.info["ctx"] == found[True][0]
    if kind is grpo:
        assert found[False] and found[False][0] != found[True][0]
