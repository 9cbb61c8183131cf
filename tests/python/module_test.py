#!/usr/bin/env python3
"""The Python module with a tiny run: tests/python/module_test.py build/cpu/tessera mpirun [OPTION...]

With "installed" instead of a program, tests the installed wheel. Exits with 77 if numpy is not installed.
"""

import io
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout

try:
    import numpy as np
except ImportError:
    print("numpy is not installed")
    sys.exit(77)

program, *mpirun = sys.argv[1:]
if program != "installed":
    os.environ["PATH"] = f"{pathlib.Path(program).resolve().parent}:{os.environ['PATH']}"
    sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "launch/python"))
import tessera  # noqa: E402

TEXTS = ["The first text.", "Another, a little longer one.", "The last."]


def error_of(call):
    """What a call that must fail raises; nothing else may be lost on the way."""
    try:
        call()
    except tessera.Error as error:
        return error
    raise AssertionError("it did not fail")


def check_model(ranks, **how):
    """A model that stays loaded, and what it says about errors."""
    with tessera.Model("run", ranks=ranks, **how) as model:
        texts = model.generate(["The", "Another"], max_tokens=5, temperature=0)
        assert len(texts) == 2 and texts == model.generate(["The", "Another"], max_tokens=5, temperature=0)
        process = model._process.pid
        samples = model.generate(["The"], max_tokens=5, num_samples=3)
        assert len(samples) == 1 and len(samples[0]) == 3, samples
        assert model.generate([]) == []
        # The sum of the parts is that of the whole, and a program of its own says the same.
        pairs = [("The", " first"), ("The", " fir"), ("The fir", "st")]
        whole, *parts = model.log_likelihoods(pairs)
        assert abs(whole["log_likelihood"] - sum(part["log_likelihood"] for part in parts)) < 1e-3, (whole, parts)
        assert [score["tokens"] for score in (whole, *parts)] == [6, 4, 2]
        pathlib.Path("pair.jsonl").write_text(json.dumps({"context": "The", "continuation": " first"}) + "\n")
        with redirect_stdout(io.StringIO()):
            tessera.run("eval", "run", "--log-likelihoods", "pair.jsonl", "--log-samples", f"scores{ranks}.jsonl")
        alone = json.loads(pathlib.Path(f"scores{ranks}.jsonl").read_text())
        assert abs(whole["log_likelihood"] - alone["log_likelihood"]) < 1e-4, (whole, alone)
        found = model.eval(data="data", max_samples=4)
        assert found["samples"] == 4 and 0 < found["loss"] < 10, found
        for wrong, code in [(lambda: model.generate(["The"], top_q=1), 64), (lambda: model.classify(["The"]), 1),
                            (lambda: model.generate([" " * 100_000]), 1), (lambda: model.eval(data="missing"), 1)]:
            error = error_of(wrong)
            assert error.exit_code == code and str(error), (error, error.exit_code)
        assert texts == model.generate(["The", "Another"], max_tokens=5, temperature=0)
        assert model._process.pid == process
        errors = io.StringIO()
        with redirect_stderr(errors):
            os.kill(process, signal.SIGKILL)
            assert "has ended" in str(error_of(lambda: model.generate(["The"])))
        assert "closed" in str(error_of(lambda: model.generate(["The"])))
    with tessera.Model("missing", ranks=ranks, **how) as model:
        assert "missing" in str(error_of(lambda: model.generate(["The"])))
        process = model._process
    assert process.poll() == 0


def main():
    (pathlib.Path.cwd() / "text.jsonl").write_text("".join(f'{{"text": "{text}"}}\n' for text in TEXTS * 40))
    output = io.StringIO()
    with redirect_stdout(output):
        tessera.run("prepare", "--tokenizer", "byte", "--append-eod", "--input", "text.jsonl", "--output", "data")
    assert "wrote data.bin" in output.getvalue(), output.getvalue()

    data = tessera.Dataset("data")
    assert len(data) == len(data.lengths) == len(data.documents) - 1 == 120
    for i, text in enumerate(TEXTS):
        assert bytes(data[i][:-1].tolist()) == text.encode(), data[i]
    assert isinstance(data.tokens, np.memmap) and data.tokens.size == data.lengths.sum()

    config = {
        "run": {"dir": "run"},
        "model": {"num_layers": 1, "hidden_size": 16, "num_heads": 2, "seq_length": 32, "vocab_size": 257},
        "data": {"train": "data"},
        "parallel": {"tensor": 2},
        "batch": {"global": 4, "micro": 4},
        "train": {"steps": 6},
        "optimizer": {
            "moment_dtype": "bf16",
            "ema_decay": 0.5,
            "frozen": ["embedding.position"],
        },
        "log": {"interval": 2},
        "checkpoint": {"interval": 3},
    }
    tessera.train(config, ranks=2, mpirun=mpirun)
    metrics = tessera.read_metrics("run")
    assert metrics["step"].tolist() == [1, 2, 4, 6] and metrics["step"].dtype == np.int64
    assert metrics["loss"].dtype == np.float64 and metrics["loss"][0] > metrics["loss"][-1] > 0
    assert tessera.read_metrics("run", having="save_seconds")["step"].tolist() == [3, 6]

    # Sharded over two ranks; the optimizer's moments have the shapes of the parameters.
    last, first = tessera.read_checkpoint("run"), tessera.read_checkpoint("run/checkpoints/step_00000003")
    assert last["embedding.word"].shape == (257, 16) and last["embedding.word"].dtype == np.float32
    assert all(np.isfinite(tensor).all() for tensor in last.values())
    assert not np.array_equal(last["blocks.0.mlp.up.weight"], first["blocks.0.mlp.up.weight"])
    moments = tessera.read_checkpoint("run", kind="optimizer")
    assert {f"{name}/exp_avg": tensor.shape
            for name, tensor in last.items() if name != "embedding.position"}.items() <= {
        name: tensor.shape for name, tensor in moments.items()}.items()
    averages = tessera.read_checkpoint("run", ema=True)
    assert {name: tensor.shape for name, tensor in averages.items()} == {
        name: tensor.shape for name, tensor in last.items()}
    assert np.array_equal(averages["blocks.0.mlp.up.weight"], moments["blocks.0.mlp.up.weight/ema"])
    assert not np.array_equal(averages["blocks.0.mlp.up.weight"], last["blocks.0.mlp.up.weight"])
    assert np.array_equal(averages["embedding.position"], last["embedding.position"])
    squares = moments["blocks.0.mlp.up.weight/exp_avg_sq"]
    assert squares.dtype == np.float32 and (squares > 0).any()
    assert (squares.view(np.uint32) & 0xffff == 0).all(), "bf16"

    check_model(2, tensor=2, mpirun=mpirun)
    check_model(1)
    evaluation = ["--json", "--data", "data", "--max-samples", "4"]
    for step, chosen in ((None, 6), (3, 3)):
        with tessera.Model("run", step=step) as model:
            assert json.loads(model.command("eval", *evaluation))["step"] == chosen
            assert model.eval(data="data", max_samples=4)["step"] == chosen
    with tessera.Model("run") as model:
        before = model.log_likelihoods(TEXTS)
        shutil.rmtree("run")
        tessera.train({**config, "run": {"dir": "run", "seed": 2}}, ranks=2, mpirun=mpirun)
        assert model.log_likelihoods(TEXTS) != before, "the weights were those of the run before"

    errors = io.StringIO()
    with redirect_stderr(errors):
        config["optimizer"] = {"learning_rat": 1}
        error = error_of(lambda: tessera.train(config, ranks=2, mpirun=mpirun))
        assert "learning_rat" in str(error) and "error: " not in str(error) and "-----" not in str(error), error
        assert error.exit_code == 78
        pathlib.Path("wrong.yaml").write_text("data: {train: missing}\n")
        error = error_of(lambda: tessera.train("wrong.yaml"))
        assert "missing" in str(error), error
    assert "learning_rat" in errors.getvalue()
    print("the module works")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="tessera-python-") as folder:
        os.chdir(folder)
        os.environ["OMP_NUM_THREADS"] = "1"
        main()
