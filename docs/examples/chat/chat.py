"""Talks to an exported model with transformers, or to its base with an adapter, with PEFT.

    python3 docs/examples/chat/chat.py MODEL [--adapter ADAPTER] MESSAGE...

Each MESSAGE is a turn of the user; the model replies to each, and sees all turns before. Needs torch and transformers,
and with --adapter peft.
"""

import argparse

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("--adapter")
parser.add_argument("message", nargs="+")
options = parser.parse_args()

model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32)
tokenizer = AutoTokenizer.from_pretrained(options.adapter or options.model)
if options.adapter:
    from peft import PeftModel

    model = PeftModel.from_pretrained(model, options.adapter)

ends = [tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("<|im_end|>")]  # the base does not know the second
messages = []
for text in options.message:
    messages.append({"role": "user", "content": text})
    inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    output = model.generate(**inputs, max_new_tokens=40, do_sample=False, eos_token_id=ends)
    reply = tokenizer.decode(output[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    messages.append({"role": "assistant", "content": reply})
    print(f"> {text}\n{reply}")
