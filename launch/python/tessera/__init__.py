"""Runs Tessera, which trains transformers on many ranks, and reads what it reads and writes.

    import tessera

    tessera.run("prepare", "--input", "text.txt", "--output", "data/text")
    tessera.train({"run": {"dir": "runs/small"}, "data": {"train": "data/text"}}, ranks=2)
    losses = tessera.read_metrics("runs/small")["loss"]
    weights = tessera.read_checkpoint("runs/small")["embedding.word"]
    with tessera.Model("runs/small") as model:
        texts = model.generate(["Once"], max_tokens=20)
"""

from tessera.checkpoint import read_checkpoint
from tessera.dataset import Dataset
from tessera.metrics import read_metrics
from tessera.model import Model
from tessera.program import Error, run, train

__all__ = ["Dataset", "Error", "Model", "read_checkpoint", "read_metrics", "run", "train"]
