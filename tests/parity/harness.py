"""Compares `tessera.harness` with the model `hf` of lm-evaluation-harness.

    python tests/parity/harness.py [--build build/cpu]

Trains small decoders on this repository's own text and exports them. lm_eval evaluates three tasks, whose data is made
here, with transformers and with Tessera, on one rank and on two: questions with choices, the perplexity of whole texts,
some longer than the model, and texts that are generated until a stop string, some after a prompt that has to be cut. A
model that learned messages is asked with `apply_chat_template`.
Each log-likelihood must agree to 1e-5 of itself, and whether a choice is the greedy one, each generated text and each
metric must be the same. Prints a line for each check and exits with 1 at the first failure.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "launch/python"))

import lm_eval  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

from interop import ROOT, TOLERANCE, Workshop, check, kinds, train_chat  # noqa: E402
from tessera.harness import TesseraLM  # noqa: E402

KINDS = ("gpt of bytes", "gpt of BPE", "qwen3 with a window in its second layer")
TASKS = {
    "choices": """
output_type: multiple_choice
doc_to_text: "{{context}}"
doc_to_choice: "{{choices}}"
doc_to_target: "{{label}}"
metric_list: [{metric: acc}, {metric: acc_norm}]
""",
    "texts": """
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{text}}"
metric_list: [{metric: word_perplexity}, {metric: byte_perplexity}, {metric: bits_per_byte}]
""",
    "continuations": """
output_type: generate_until
doc_to_text: "{{context}}"
doc_to_target: "{{choices[0]}}"
generation_kwargs: {until: [";", "\\n\\n"], max_gen_toks: 24, do_sample: false}
metric_list: [{metric: exact_match}]
""",
}


def documents(sources):
    """Contexts with choices, and whole texts."""
    text = sources[0].read_text()
    lines = [line.strip() for line in text.splitlines() if len(line.split()) > 4][:16]
    contexts = [text[:600].rstrip(), "", *(line[: len(line) // 2].rstrip() for line in lines)]
    return [
        {
            "context": context,
            "choices": [line[-i - 9 :] for line in lines[i % 5 :: 6]],
            "label": 0,
            "text": text[31 * i :][: 40 * i + 1],
        }
        for i, context in enumerate(contexts)
    ]


def write_tasks(folder, sources):
    for name, task in TASKS.items():
        data = folder / f"{name}.jsonl"
        # transformers cannot continue a context without text.
        needs_text = name == "continuations"
        lines = [each for each in documents(sources) if each["context"] or not needs_text]
        data.write_text("".join(json.dumps(line) + "\n" for line in lines))
        path = f'dataset_path: json\ndataset_kwargs: {{data_files: {{test: "{data}"}}}}\ntest_split: test\n'
        (folder / f"{name}.yaml").write_text(f"task: {name}\n{path}{task}")


def evaluate(model, folder, **arguments):
    found = lm_eval.simple_evaluate(
        model=model,
        tasks=list(TASKS),
        task_manager=TaskManager(include_path=str(folder), include_defaults=False),
        log_samples=True,
        bootstrap_iters=0,
        verbosity="ERROR",
        **arguments,
    )
    metrics = {
        (task, name): value
        for task, values in found["results"].items()
        for name, value in values.items()
        if isinstance(value, float) and "stderr" not in name
    }
    samples = {
        task: [sample["resps"] for sample in sorted(all, key=lambda sample: sample["doc_id"])]
        for task, all in found["samples"].items()
    }
    return metrics, samples


def compare(name, ours, theirs):
    worst = count = 0
    for mine, other in zip(ours[1]["choices"], theirs[1]["choices"], strict=True):
        for (one,), (two,) in zip(mine, other, strict=True):
            worst, count = max(worst, abs(one[0] - two[0]) / abs(two[0])), count + 1
            if bool(one[1]) != bool(two[1]):
                check(f"{name}: whether a choice is the greedy one", False, f"{one} and {two}")
    check(f"{name}: choices", worst <= TOLERANCE, f"{count} choices, at most {worst:.1e} of one apart")
    worst = 0
    for ((one,),), ((two,),) in zip(ours[1]["texts"], theirs[1]["texts"], strict=True):
        worst = max(worst, abs(one - two) / abs(two))
    check(f"{name}: texts", worst <= TOLERANCE, f"{len(ours[1]['texts'])} texts, at most {worst:.1e} of one apart")
    same = ours[1]["continuations"] == theirs[1]["continuations"]
    check(f"{name}: continuations", same, f"{len(ours[1]['continuations'])} texts")
    for key, value in theirs[0].items():
        check(f"{name}: {': '.join(key)}", abs(ours[0][key] - value) <= TOLERANCE * abs(value), f"{value:.6f}")


def compare_with_hf(tessera, name, run, exported, mpirun, **arguments):
    hf = {"pretrained": str(exported), "dtype": "float32", "device": "cpu"}
    theirs = evaluate("hf", tessera.folder, model_args=hf, batch_size=4, **arguments)
    for ranks in 1, 2:
        model = TesseraLM(str(run), ranks=ranks, tensor=ranks, mpirun=mpirun)
        compare(f"{name}, {ranks} ranks", evaluate(model, tessera.folder, **arguments), theirs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=ROOT / "build" / "cpu", help="where tessera is")
    parser.add_argument("--mpirun", default="mpirun --oversubscribe", help="starts two ranks")
    arguments = parser.parse_args()
    os.environ["PATH"] = f"{Path(arguments.build).resolve()}:{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as temporary:
        tessera = Workshop(arguments.build, temporary)
        os.environ["HF_DATASETS_CACHE"] = str(tessera.folder / "cache")
        write_tasks(tessera.folder, tessera.sources)
        for i, kind in enumerate(kind for kind in kinds() if kind.name in KINDS):
            run, exported = tessera.folder / f"run{i}", tessera.folder / f"exported{i}"
            tessera("train", tessera.config(kind, f"run{i}"))
            tessera("export", run, "--to", exported)
            compare_with_hf(tessera, kind.name, run, exported, arguments.mpirun)
        run, exported, _ = train_chat(tessera, chatml=True)
        chat = {"apply_chat_template": True, "system_instruction": "Be brief."}
        compare_with_hf(tessera, "a chat", run, exported, arguments.mpirun, **chat)
    print("all agree")


if __name__ == "__main__":
    main()
