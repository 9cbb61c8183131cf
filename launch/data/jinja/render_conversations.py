"""Writes conversations with tools, tool calls or tool results, in parts. Continues chat_renderer.py.

The request also has {"rows": texts in JSON, "lists": the columns with messages, of which the last is learned, "columns":
their names in the file if they have others, "prompt_end", "given", "reply_end": of the ChatForm, "names": special
tokens that texts may not contain}. The answer has "rows", for each {"parts": what precedes a reply and the reply with
its end, in turn, "given": how many replies are not learned}, or {"problem"}.

A reply begins where the text of a prompt of all that precedes it ends, and ends with the first `reply_end`. What is
written before the previous message may depend on later ones (thoughts, lists of tools): that message becomes MARK, and
only what follows it is compared.
"""

import json
import os

MARK = "zq0qz"
ROLES = ["system", "user", "assistant", "tool"]
FIELDS = ["role", "content", "tool_calls", "tool_call_id", "name"]


def require(condition, problem):
    if not condition:
        raise Refused(problem)


def calls_of(message):
    """The functions that a message calls."""
    calls = message.get("tool_calls", [])
    require(message["role"] == "assistant" or not calls, "only the assistant may have tool_calls")
    calls = [call.get("function", call) if isinstance(call, dict) else call for call in calls]
    for call in calls:
        is_call = isinstance(call, dict) and isinstance(call.get("name"), str) and "arguments" in call
        require(is_call, "a call must have a function with a name and arguments")
    return calls


def check_message(message):
    for key in message:
        require(key in FIELDS, f"has a field {json.dumps(key)}, but only {', '.join(FIELDS)} are allowed")
    role, text = message.get("role"), message.get("content")
    require(role in ROLES, f"the role is {json.dumps(role)}, but must be one of {', '.join(ROLES)}")
    if not calls_of(message) or text is not None:
        require(isinstance(text, str), f"the content must be a string, but is {json.dumps(text)[:100]}")
        require(text or role == "tool" or calls_of(message), "the content is empty: leave the message out")


class Conversation:
    def __init__(self, render, request, row):
        columns = request["columns"]
        lists = [row[columns.get(name, name)] for name in request["lists"]]
        for messages in lists:
            is_list = isinstance(messages, list) and all(isinstance(message, dict) for message in messages)
            require(is_list, "must have lists of messages")
        self.messages = [  # transformers leaves null out, too
            {key: value for key, value in message.items() if value not in (None, [])} for message in sum(lists, [])
        ]
        self.given = sum(message.get("role") == "assistant" for message in sum(lists[:-1], []))
        self.render, self.request, tools = render, request, row.get(columns.get("tools", "tools"))
        self.tools = (json.loads(tools) if isinstance(tools, str) else tools) or None
        require(self.tools is None or isinstance(self.tools, list), "the tools must be a list")
        texts = json.dumps([self.messages, self.tools], ensure_ascii=False)
        for name in request["names"]:
            is_there = json.dumps(name, ensure_ascii=False)[1:-1] in texts
            require(not is_there, f"contains {name}, which would be a special token: remove it")

    def write(self, messages, is_prompt=False):
        return self.render(messages, is_prompt, self.tools)

    def parts(self):
        whole, end, parts = self.write(self.messages), 0, []
        if self.tools:
            without = self.render(self.messages)
            require(whole != without, "the chat template does not write tools")
        for i, message in enumerate(self.messages):
            try:
                if message["role"] == "assistant":
                    start = self.start_of(i, whole)
                    parts += [whole[end:start]]
                    end = whole.index(self.request["reply_end"], start) + len(self.request["reply_end"])
                    parts += [whole[start:end]]
                    written = all(call["name"] in parts[-1] for call in calls_of(message))
                    require(written, "the chat template does not write tool_calls")
                else:
                    text = message["content"].strip()
                    written = text in whole or json.dumps(text, ensure_ascii=False)[1:-1] in whole
                    require(written, f"the chat template does not write it as a message of the {message['role']}")
            except Refused as refused:
                raise Refused(f"message {i + 1}: {refused}")
        return {"parts": parts, "given": self.given}

    def start_of(self, i, whole):
        marked = [dict(message) for message in self.messages]
        if i > 0:
            marked[i - 1]["content"] = MARK
        prompt = self.after_mark(self.write(marked[:i], True), i)
        text, alone = (self.after_mark(self.write(messages), i) for messages in (marked, marked[: i + 1]))
        common = os.path.commonprefix([prompt, text, alone])
        base = prompt.removesuffix(self.request["prompt_end"])
        given = next((given for given in (prompt, base + self.request["given"], base) if common.startswith(given)), None)
        require(given is not None, "what precedes it is not the prompt that the chat template writes for it")
        reply = text[len(given) :]
        require(whole.endswith(reply), "the chat template writes it otherwise after another message")
        require(alone.count(self.request["reply_end"], len(given)) == 1, "it does not end as other replies do")
        return len(whole) - len(reply)

    @staticmethod
    def after_mark(text, i):
        if i == 0:
            return text
        require(text.count(MARK) == 1, "the chat template does not write the message before it")
        return text.partition(MARK)[2]


def rendered(render, request, text):
    try:
        conversation = Conversation(render, request, json.loads(text))
        for i, message in enumerate(conversation.messages):
            try:
                check_message(message)
            except Refused as refused:
                raise Refused(f"message {i + 1}: {refused}")
        is_reply = conversation.messages and conversation.messages[-1]["role"] == "assistant"
        require(is_reply, "the last message must be of the assistant, from which the model learns")
        return conversation.parts()
    except Refused as refused:
        return {"problem": str(refused)}
    except Exception as error:
        return {"problem": f"the chat template refuses it: {str(error)[:200]}"}


answer(lambda render, request: {"rows": [rendered(render, request, text) for text in request["rows"]]})
