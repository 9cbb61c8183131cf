"""Writes short conversations about sums and names, as messages for data.train and data.eval.

    python3 docs/examples/chat/conversations.py TEXT FOLDER

Names are pairs of words of TEXT that begin with a capital letter within a sentence. FOLDER/train.jsonl and
FOLDER/eval.jsonl have a conversation on each line, {"messages": [...]}; no sum and no name of eval.jsonl is in
train.jsonl. FOLDER/questions.txt and FOLDER/answers.txt are those of eval.jsonl that have one question.
"""

import json
import pathlib
import random
import re
import sys


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict:
    return {"role": "assistant", "content": text}


def about_sum(a: int, b: int) -> list[dict]:
    return [user(f"What is {a} plus {b}?"), assistant(f"{a} plus {b} is {a + b}.")]


def welcome(name: str) -> list[dict]:
    return [user(f"My name is {name}."), assistant(f"Welcome, {name}!")]


def about_names_and_sums(names: list[str], sums: list[tuple[int, int]], rng: random.Random) -> list[list[dict]]:
    """A question for each name and sum alone, then for each name one after a welcome."""
    conversations = [about_sum(a, b) for a, b in sums]
    for name in names:
        answer = assistant(f"Your name is {name}.")
        conversations.append([user(f"My name is {name}. What is my name?"), answer])
        question = [user("What is my name?"), answer]
        conversations.append(welcome(name) + rng.choice([question, about_sum(*rng.choice(sums))]))
    rng.shuffle(conversations)
    return conversations


def main() -> None:
    text, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(1)
    words = sorted(set(re.findall(r"(?<=[a-z,] )[A-Z][a-z]{2,}\b", text.read_text(encoding="utf-8"))))
    names = sorted({f"{rng.choice(words)} {rng.choice(words)}" for _ in range(3000)})
    sums = [(a, b) for a in range(1, 21) for b in range(1, 21)]
    rng.shuffle(names)
    rng.shuffle(sums)
    parts = {
        "eval": about_names_and_sums(names[:50], sums[:50], rng),
        "train": about_names_and_sums(names[50:], 3 * sums[50:], rng),
    }
    for part, conversations in parts.items():
        with open(folder / f"{part}.jsonl", "w", encoding="utf-8") as file:
            for messages in conversations:
                file.write(json.dumps({"messages": messages}) + "\n")
        if part == "eval":
            single = [messages for messages in conversations if len(messages) == 2]
            (folder / "questions.txt").write_text("".join(messages[0]["content"] + "\n" for messages in single))
            (folder / "answers.txt").write_text("".join(messages[1]["content"] + "\n" for messages in single))


main()
