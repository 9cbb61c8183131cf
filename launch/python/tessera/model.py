"""Predicts with a trained model that stays loaded."""

import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import weakref

import numpy as np

from tessera.program import Error, message_in, program_path


def _options(options):
    """The command line of keyword arguments: max_tokens=5 is --max-tokens 5, and True a flag."""
    words = []
    for name, value in options.items():
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if each is None or each is False:
                continue
            option = "--" + name.replace("_", "-")
            words.append(option if each is True else f"{option}={each}")
    return words


def _end(process):
    """Ends a process: at the end of its input, or after a while by force."""
    try:
        process.stdin.close()
    except OSError:
        pass  # it has ended
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Model:
    """A trained model, loaded by a program that runs until the end of the context.

        with tessera.Model("runs/small", ranks=2) as model:
            texts = model.generate(["Once", "There"], max_tokens=20, temperature=0)

    run          the folder of a run, or of one of its checkpoints
    ranks        how many ranks compute, under mpirun; tensor of them share a replica
    best, step   choose a checkpoint of the run: that of the lowest evaluation loss, or of a step; by default the newest
    ema          use the averaged weights of a run with optimizer.ema_decay
    device       cpu or cuda; by default the program chooses
    micro_batch  texts that a rank computes at once
    mpirun       the program and its options

    Further keyword arguments of the methods are the options of the program's commands: max_tokens=5 is --max-tokens 5.
    All raise Error with the program's message if it refuses something, and also if it dies.
    """

    def __init__(self, run, ranks=1, tensor=1, best=False, step=None, ema=False, device=None, micro_batch=8,
                 mpirun=("mpirun",)):
        if ranks < 1:
            raise ValueError(f"ranks is {ranks}, but at least 1 is needed")
        self._run = str(run)
        self._choice = _options({"best": best, "step": step, "ema": ema, "device": device})
        self._batches = _options({"micro_batch": micro_batch, "tensor": tensor})
        command = [program_path(), "serve"]
        self._command = [*mpirun, "-np", str(ranks), *command] if ranks > 1 else command
        self._process, self._closed = None, False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends the program."""
        self._closed = True
        if self._process is not None:
            self._finalizer()
            self._errors_reader.join()

    def _start(self):
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=pipe, text=True,
                                         encoding="utf-8", errors="replace")
        self._finalizer = weakref.finalize(self, _end, self._process)
        errors = self._errors = []

        def show_errors(stream):
            for line in stream:
                errors.append(line)
                del errors[:-1000]
                sys.stderr.write(line)

        self._errors_reader = threading.Thread(target=show_errors, args=(self._process.stderr,), daemon=True)
        self._errors_reader.start()

    def command(self, name, *arguments):
        """Runs a command of the program (docs/guide.md) with this model, and returns what it prints.

        The arguments come after the run and are texts, as on a command line. Commands have no tensor and micro_batch
        for a single text, so pass --tensor and --micro-batch here with --input.
        """
        if self._closed:
            raise Error("the model is closed", None)
        if self._process is None:
            self._start()
        request = json.dumps([name, self._run, *self._choice, *map(str, arguments)])
        try:
            answer = self._exchange(request)
        except BaseException:  # such as KeyboardInterrupt: the answer would be taken for that of the next command
            self._process.kill()
            self.close()
            raise
        if answer["exit_code"] != 0:
            raise Error(message_in(answer["error"]), answer["exit_code"])
        return answer["output"]

    def _exchange(self, request):
        process = self._process
        try:
            process.stdin.write(request + "\n")
            process.stdin.flush()
        except OSError:
            pass  # it has died, which reading says, too
        for line in process.stdout:
            if line.startswith("{"):
                return json.loads(line)
            sys.stdout.write(line)  # of mpirun
        exit_code = process.wait()
        self._errors_reader.join()
        said = message_in("".join(self._errors))
        raise Error(f"the program of the model {self._run} has ended with exit code {exit_code}: {said}", exit_code)

    def _predict(self, name, lines, options, ending="jsonl"):
        """The output of a command for the objects of an input file."""
        with tempfile.TemporaryDirectory(prefix="tessera-") as folder:
            texts, found = pathlib.Path(folder) / "texts.jsonl", pathlib.Path(folder) / f"found.{ending}"
            with open(texts, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
            files = {"log_likelihoods": texts, "log_samples": found} if name == "eval" else {"input": texts,
                                                                                            "output": found}
            self.command(name, *self._batches, *_options(files), *_options(options))
            if ending == "npy":
                return np.load(found)
            with open(found, encoding="utf-8") as file:
                return [json.loads(line) for line in file]

    def generate(self, prompts, **options):
        """The continuation of each prompt, or the target of each source of an encoder-decoder.

        A prompt is a text or, with chat="auto", a list of messages {"role": ..., "content": ...}. With num_samples=N,
        a list of N texts for each. An encoder-decoder needs field="source".
        """
        prompts = list(prompts)
        if not prompts:
            return []
        field = options.pop("field", "prompt")
        lines = self._predict("generate", [{field: prompt} for prompt in prompts], options)
        texts = [line.get("generated_text", line.get("target")) for line in lines]
        samples = int(options.get("num_samples") or 1)
        return texts if samples == 1 else [texts[i:i + samples] for i in range(0, len(texts), samples)]

    def classify(self, texts, **options):
        """What `tessera classify` writes for each text: {"label": ..., "probabilities": {...}}, "labels" or "score".

        A text is a string, a tuple of two strings, or a list of words of which each gets a label ("tags").
        """
        def line(text):
            if isinstance(text, list):
                return {"tokens": text}
            return {"text": text} if isinstance(text, str) else {"text": text[0], "text_pair": text[1]}

        return self._predict("classify", map(line, texts), options)

    def embed(self, texts, **options):
        """The vectors of texts, an array (texts, width) of fp32."""
        return self._predict("embed", ({"text": text} for text in texts), options, "npy")

    def fill_mask(self, texts, **options):
        """{"filled": ..., "masks": [[{"token": ..., "probability": ...}]]} of each text."""
        return self._predict("fill-mask", ({"text": text} for text in texts), options)

    def log_likelihoods(self, texts, **options):
        """{"log_likelihood": ..., "greedy": ..., "tokens": ...} of each text or pair (context, continuation)."""
        lines = [{"text": text} if isinstance(text, str) else {"context": text[0], "continuation": text[1]}
                 for text in texts]
        return self._predict("eval", lines, options) if lines else []

    def eval(self, **options):
        """The results of `tessera eval` on data, as a dict."""
        return json.loads(self.command("eval", *self._batches, "--json", *_options(options)))
