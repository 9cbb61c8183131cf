"""Finds what a chat template of transformers writes around messages, as data. Continues chat_renderer.py.

The request also has {"names": those of all special tokens}. The answer is {"form": a ChatForm
(launch/config/chat_form.h), "checks": conversations and what the template writes of them, "notes"}.

Conversations are named by their roles, "SUA"; `+` ends one that a reply is to follow. `~` begins one with white space
around its texts, `!` one with texts of several lines and scripts, `?` one whose replies begin with thoughts.
"""

import copy
import itertools
import json

TURNS = "UAUA"
OTHER_ORDERS = ["SUAUA", "AUA", "SSUA", "SA", "UUA", "USUA", "UAAUA", "UASUA"]
CHECKS = (
    "U+ UA UAU+ UAUA UAUAUA UAUAUAU+ !UAUA !UAU+ ~U+ ~UAU+ SU+ SUA SUAUA SUAUAUA SUAUAU+ !SUAUA !SUAU+ ~SUAUA ~SUAU+ "
    "UU+ AU+ S+ SSU+ USU+ UASU+ UAAU+ USUA UUA AUA SA UAAUA UASUA ?UAUA ?UAU+ ?UA ?SUAUA"
).split()
ROLES = {"S": "system", "U": "user", "A": "assistant"}
STRIPPED = {"none": "", "lines": "\n", "space": None}
END_OF_THOUGHT = "</think>"
RULES_FOR_THOUGHTS = ["keep", "drop", "drop_lines", "drop_space", "own", "refuse"]


def conversation(name):
    """The roles and texts of its messages; each text occurs nowhere else."""
    messages = []
    for letter in name:
        if letter not in ROLES:
            continue
        text = mark = f"zq{len(messages)}qz"
        if name[0] == "~":
            text = f"\n \n{mark}\n \n"
        elif name[0] == "!":
            text = mark + "'s \"{{ x }}\"\n\n\\n <b> тест 🙂 " + mark
        elif name[0] == "?" and letter == "A":
            text = f"<think>\n{mark}\n{END_OF_THOUGHT}\n\n{mark}"
        messages.append((ROLES[letter], text))
    return messages


def strip(text, sides):
    left, right = (STRIPPED[side] for side in sides)
    if left != "":
        text = text.lstrip(left)
    return text.rstrip(right) if right != "" else text


class Derivation:
    def __init__(self, renderer, request):
        self.renderer, self.names, self.rendered = renderer, sorted(request["names"], key=len, reverse=True), {}
        self.jinja = request["jinja"]
        self.form, self.tail = None, ""  # tail: after the end of the last reply

    def derive(self):
        self.learn_turns()
        for name in OTHER_ORDERS:
            self.learn(name)
        notes = self.learn_thoughts()
        checks = [check for name in CHECKS if (check := self.check(name))]
        self.form["tokens"] = self.tokens()
        if self.form["prompt_end"]:
            notes.append(
                f"the chat template ends prompts with {json.dumps(self.form['prompt_end'])}, which it leaves out of "
                "earlier replies"
            )
        if self.renderer.has_date:
            notes.append("the chat template writes the date: prompts will have that of this import")
        if "strftime_now" in self.jinja:
            self.form["date"] = self.renderer.now.isoformat()
        return {"form": self.form, "checks": checks, "notes": notes}

    def render(self, name):
        """The text of a conversation, or an Exception."""
        if name not in self.rendered:
            messages = [{"role": role, "content": text} for role, text in conversation(name)]
            try:
                self.rendered[name] = self.renderer(messages, name[-1] == "+")
            except Exception as error:
                self.rendered[name] = error
        return self.rendered[name]

    def segments(self, name):
        """The texts before, between and after the messages; None unless each occurs once, in order."""
        text, parts, at = self.render(name), [], 0
        if isinstance(text, Exception):
            return None
        for _, message in conversation(name):
            found = text.find(message)
            if found < at or text.find(message, found + 1) >= 0:
                return None
            parts.append(text[at:found])
            at = found + len(message)
        return parts + [text[at:]]

    def required(self, name):
        rendered = self.render(name)
        if isinstance(rendered, Exception):
            raise Refused(f"it fails for messages of the user and replies: {str(rendered)[:200]}")
        parts = self.segments(name)
        if parts is None:
            raise Refused("it does not write each message once, unchanged and in order")
        return parts

    def learn_turns(self):
        """From messages of the user and replies in turn."""
        turns, prompt = self.required(TURNS), self.required("U+")
        earlier, last, asked = turns[1], turns[3], prompt[1]
        if turns[0] != prompt[0]:
            raise Refused("what precedes a message depends on what follows it")
        if not (earlier.startswith(asked) or asked.startswith(earlier)):
            raise Refused("what add_generation_prompt adds is not what precedes other replies")
        before = min(earlier, asked, key=len)
        rest = last[len(before) :]
        prompt_end = asked[len(before) :]
        if not last.startswith(before) or not (rest.startswith(prompt_end) or prompt_end.startswith(rest)):
            raise Refused("what precedes a message depends on its place in the conversation")
        given = min(rest, prompt_end, key=len)
        reply_end = self.first_token_end(turns[2])
        if not turns[4].startswith(reply_end):
            raise Refused("not every reply ends with a special token")
        self.tail = turns[4][len(reply_end) :]

        def reply(given, begin):
            return {"given": given, "begin": begin, "trim": None, "thoughts": "keep"}

        self.form = {
            "name": "imported",
            "jinja": self.jinja,
            "jinja_tokens": {},
            "date": "",
            "turns": {"start": {}, **{f"after {role}": {} for role in ROLES.values()}},
            "replies": {
                "earlier": reply("", earlier[len(before) :]),
                "last": reply(given, rest[len(given) :]),
            },
            "prompt_end": prompt_end,
            "reply_end": reply_end,
        }
        problem = self.learn(TURNS)
        if problem:
            raise Refused(problem)

    def first_token_end(self, after):
        """The start of what follows a reply, up to the first special token."""
        for at in range(len(after)):
            token = self.token_at(after, at)
            if token:
                return after[: at + len(token)]
        raise Refused("no special token ends a reply")

    def token_at(self, text, at):
        return next((name for name in self.names if text.startswith(name, at)), None)

    def learn(self, name):
        """Adds what a conversation has of new orders of roles, unless the template refuses it, or writes something else
        where the order is known: then returns why."""
        parts, loose, form = self.segments(name), self.render("~" + name), copy.deepcopy(self.form)
        if parts is None or isinstance(loose, Exception) or isinstance(self.render(name), Exception):
            return "it changes messages"
        previous, at, messages = "start", 0, conversation("~" + name)
        for i, (role, text) in enumerate(messages):
            is_last, before = i + 1 == len(messages), parts[i]
            if previous == "after assistant":
                if not before.startswith(form["reply_end"]):
                    return "replies end in several ways"
                before = before[len(form["reply_end"]) :]
            style = form["replies"]["last" if is_last else "earlier"]
            if role == "assistant":
                suffix = style["given"] + style["begin"]
                if not before.endswith(suffix):
                    return "replies begin in several ways"
                before = before[: len(before) - len(suffix)]
            turn = form["turns"][previous].setdefault(role, {"before": before, "trim": None})
            if turn["before"] != before:
                return "what precedes a message depends on its place in the conversation"
            trimmed = style if role == "assistant" else turn
            fitting = [trimmed["trim"]] if trimmed["trim"] else itertools.product(STRIPPED, STRIPPED)
            at += len(parts[i])
            fits = [list(sides) for sides in fitting if self.has(loose, at, strip(text, sides), parts[i + 1], is_last)]
            if not loose.startswith(parts[i], at - len(parts[i])) or not fits:
                return "it changes the white space around texts"
            trimmed["trim"] = fits[0]
            at += len(strip(text, fits[0]))
            previous = "after " + role
        if parts[-1] != form["reply_end"] + self.tail:
            return "replies end in several ways"
        self.form = form
        return None

    @staticmethod
    def has(rendered, at, text, following, is_last):
        wanted = text + following
        return rendered[at:] == wanted if is_last else rendered.startswith(wanted, at)

    def learn_thoughts(self):
        notes = []
        for style, name in (("earlier", "?UAU+"), ("last", "?UA")):
            for rule in RULES_FOR_THOUGHTS:
                self.form["replies"][style]["thoughts"] = rule
                if self.text_of(name) == self.render(name):
                    break
            if rule == "refuse":
                notes.append(f"the chat template changes thoughts in {style} replies: messages with them are errors")
        if self.form["replies"]["last"]["thoughts"].startswith("drop"):
            notes.append("the chat template leaves thoughts out of all replies, also of those that a model learns")
        return notes

    def reply_text(self, style, text):
        begin = style["given"] + style["begin"]
        rule = style["thoughts"]
        if END_OF_THOUGHT in text and rule != "keep":
            if rule == "refuse":
                return None
            if rule == "own":
                begin = ""
            else:
                text = text.split(END_OF_THOUGHT)[-1]
                text = text if rule == "drop" else text.strip() if rule == "drop_space" else text.lstrip("\n")
        return begin + strip(text, style["trim"]) + self.form["reply_end"]

    def text_of(self, name):
        """What the form makes of a conversation; None if it does not allow it."""
        text, previous, messages = "", "start", conversation(name)
        for i, (role, message) in enumerate(messages):
            turn = self.form["turns"][previous].get(role)
            if turn is None:
                return None
            if role == "assistant":
                is_last = i + 1 == len(messages) and name[-1] != "+"
                message = self.reply_text(self.form["replies"]["last" if is_last else "earlier"], message)
                if message is None:
                    return None
            else:
                message = strip(message, turn["trim"])
            text += turn["before"] + message
            previous = "after " + role
        if name[-1] != "+":
            return text + self.tail
        turn = self.form["turns"][previous].get("assistant")
        return turn and text + turn["before"] + self.form["prompt_end"]

    def check(self, name):
        """The conversation with what the template writes, which must be what the form makes of it."""
        expected, rendered = self.text_of(name), self.render(name)
        if expected is None:
            return None
        if isinstance(rendered, Exception):
            raise Refused(f"it fails for some conversations: {str(rendered)[:200]}")
        if expected != rendered:
            rendered, expected = (json.dumps(text, ensure_ascii=False) for text in (rendered, expected))
            raise Refused(f"it writes {rendered}, where earlier messages suggest {expected}")
        return {"messages": conversation(name), "is_prompt": name[-1] == "+", "text": rendered}

    def tokens(self):
        """The special tokens in all texts of the form."""
        form, found = self.form, set()
        texts = [turn["before"] for turns in form["turns"].values() for turn in turns.values()]
        texts += [reply[key] for reply in form["replies"].values() for key in ("given", "begin")]
        for text in [*texts, form["prompt_end"], form["reply_end"]]:
            at = 0
            while at < len(text):
                token = self.token_at(text, at)
                found.update([token] if token else [])
                at += len(token) if token else 1
        return sorted(found)


answer(lambda renderer, request: Derivation(renderer, request).derive())
