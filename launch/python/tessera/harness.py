"""Evaluates checkpoints with lm-evaluation-harness (`pip install lm_eval`).

    python -m tessera.harness run --model tessera --model_args checkpoint=runs/small --tasks hellaswag

is `lm_eval` with the model `tessera`. In Python:

    import lm_eval
    from tessera.harness import TesseraLM

    results = lm_eval.simple_evaluate(model=TesseraLM(checkpoint="runs/small", ranks=2), tasks=["hellaswag"])

The program computes everything: `tessera eval --log-likelihoods` and `tessera generate`. Only this module of the package
imports lm_eval.
"""

import json
import pathlib

import lm_eval.models  # noqa: F401  Otherwise a registry that has a model looks for no others.
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from tessera.model import Model

_CHAT = "\x02tessera chat\x03"  # begins contexts that are messages
_TEMPLATES = ("auto", "chatml", "plain")
_MAX_TOKENS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")


def _messages_or_text(context):
    return json.loads(context.removeprefix(_CHAT)) if context.startswith(_CHAT) else context


@register_model("tessera")
class TesseraLM(LM):
    """A checkpoint as a model of lm-evaluation-harness.

    checkpoint    the folder of a run or of one of its steps
    ranks         how many ranks compute, under mpirun; tensor of them share a replica
    batch_size    texts that a rank computes at once; only the memory and the time depend on it
    max_gen_toks  tokens to generate for tasks that do not say how many
    mpirun        the program and its options, separated by spaces
    device        where to compute: cpu or cuda; by default, and for cuda:0, the default of lm_eval, the program chooses
    """

    def __init__(self, checkpoint, ranks=1, tensor=1, batch_size=8, max_gen_toks=256, mpirun="mpirun", device=None,
                 max_batch_size=None):
        super().__init__()
        if max_batch_size is not None or not str(batch_size).isdecimal():
            raise ValueError(f"batch_size is {batch_size} and max_batch_size {max_batch_size}, but tessera does not search "
                             "for the largest batch: choose a number, and no max_batch_size")
        if device not in (None, "cuda:0", "cpu", "cuda"):
            raise ValueError(f"device is {device}, but must be cpu or cuda, or left out: the program assigns GPUs to ranks")
        self._checkpoint, self._max_gen_toks = checkpoint, int(max_gen_toks)
        self._template = "auto"
        self._model = Model(checkpoint, int(ranks), int(tensor), device=device if device in ("cpu", "cuda") else None,
                            micro_batch=int(batch_size), mpirun=str(mpirun).split())

    @property
    def tokenizer_name(self):
        """Distinguishes the caches of requests of different checkpoints."""
        return f"tessera:{pathlib.Path(self._checkpoint).resolve()}"

    def chat_template(self, chat_template=False):
        """The name of what surrounds messages; `--apply_chat_template chatml` or `plain` choose another than the model's."""
        name = chat_template if isinstance(chat_template, str) else "auto"
        if name not in _TEMPLATES:
            raise ValueError(f"the chat template is {name}, but must be one of {', '.join(_TEMPLATES)}")
        self._template = name
        return name if chat_template else ""

    def apply_chat_template(self, chat_history, add_generation_prompt=True):
        """The messages as one string, which later requests have as their context.

        The program itself surrounds them, because special tokens that are spelled in a text are no tokens for it. A last
        message of the assistant (gen_prefix) begins the reply.
        """
        return _CHAT + json.dumps([{"role": each["role"], "content": each["content"]} for each in chat_history])

    def loglikelihood(self, requests):
        """[(log-likelihood, whether it is the greedy continuation)] of each (context, continuation)."""
        pairs = [request.args for request in requests]
        scores = self._model.log_likelihoods(
            [(_messages_or_text(context), continuation) for context, continuation in pairs], chat=self._template
        )
        results = [(score["log_likelihood"], score["greedy"]) for score in scores]
        for pair, result in zip(pairs, results):
            self.cache_hook.add_partial("loglikelihood", pair, result)
        return results

    def loglikelihood_rolling(self, requests):
        """[log-likelihood] of each whole text."""
        texts = [request.args for request in requests]
        results = [score["log_likelihood"] for score in self._model.log_likelihoods([text for (text,) in texts])]
        for text, result in zip(texts, results):
            self.cache_hook.add_partial("loglikelihood_rolling", text, result)
        return results

    def generate_until(self, requests):
        """[continuation] of each (context, how to generate)."""
        results = [None] * len(requests)
        groups = {}
        for i, request in enumerate(requests):
            options = self._generation(request.args[1])
            if request.args[0].startswith(_CHAT):
                options["chat"] = self._template
            groups.setdefault(json.dumps(options), []).append(i)
        for options, members in groups.items():
            prompts = [_messages_or_text(requests[i].args[0]) for i in members]
            for i, text in zip(members, self._model.generate(prompts, truncate=True, **json.loads(options))):
                results[i] = text
                self.cache_hook.add_partial("generate_until", requests[i].args, text)
        return results

    def _generation(self, kwargs):
        """The options of `tessera generate` for the keyword arguments of a task."""
        left = dict(kwargs)
        given = [left.pop(name) for name in _MAX_TOKENS if left.get(name) is not None]
        options = {"max_tokens": given[0] if given else self._max_gen_toks}
        temperature = float(left.pop("temperature", None) or 0.0)
        samples = left.pop("do_sample", None)
        if samples and temperature == 0.0:
            raise ValueError("a task wants to sample (do_sample), but gives no temperature above 0")
        if samples is False:
            temperature = 0.0
        options["temperature"] = temperature
        until = left.pop("until", None) or []
        options["stop"] = [stop for stop in ([until] if isinstance(until, str) else until) if stop]
        for name in ("top_k", "top_p"):
            value = left.pop(name, None)
            if value is not None and temperature > 0.0:
                options[name] = value
        if left.get("repetition_penalty") is not None:
            options["repetition_penalty"] = left.pop("repetition_penalty")
        if left:
            raise ValueError(f"a task wants to generate with {left}, which tessera does not support; it supports until, "
                             f"do_sample, temperature, top_k, top_p, repetition_penalty and {', '.join(_MAX_TOKENS)}")
        return options


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()
