"""Renders conversations as apply_chat_template() of transformers does, in the sandbox of jinja2. The start of programs
that read a request with a template, {"jinja", "tokens": its variables, such as "bos_token", "date": of strftime_now, or
"" for today} and more, and write an answer, or {"problem": why there is none}. From answer() on, the process can open no
files and has limits of time and memory.
"""

import sys

sys.path[:] = [path for path in sys.path if path]  # no modules from the current folder
import datetime
import json

MOST_SECONDS, MOST_BYTES = 30, 2**31


class Refused(Exception):
    pass


class Renderer:
    """Renders conversations as apply_chat_template() does; the settings are those of utils/chat_template_utils.py."""

    def __init__(self, request):
        import jinja2
        import jinja2.debug
        import jinja2.ext
        import jinja2.sandbox
        import resource

        class Generation(jinja2.ext.Extension):
            tags = {"generation"}

            def parse(self, parser):
                next(parser.stream)
                return parser.parse_statements(["name:endgeneration"], drop_needle=True)

        def raise_exception(message):
            raise jinja2.exceptions.TemplateError(message)

        def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
            return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
        )
        environment.filters["tojson"] = tojson
        environment.globals["raise_exception"] = raise_exception
        environment.globals["strftime_now"] = self.strftime_now
        environment.from_string("{{ 'text' }}").render()  # loads modules
        self.now = datetime.datetime.fromisoformat(request["date"] or datetime.datetime.now().isoformat())
        self.tokens, self.has_date = request["tokens"], False
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
        try:
            self.template = environment.from_string(request["jinja"])
        except Exception as error:
            raise Refused(f"it is no template: {str(error)[:200]}")

    def strftime_now(self, text):
        self.has_date = True
        return self.now.strftime(text)

    def __call__(self, messages, is_prompt=False, tools=None):
        return self.template.render(
            tools=tools, documents=None, messages=messages, add_generation_prompt=is_prompt, **self.tokens
        )


def answer(work):
    """Writes what `work` returns for a Renderer and the request."""
    request = json.loads(sys.stdin.buffer.read())
    try:
        found = work(Renderer(request), request)
    except ImportError:
        found = {"problem": "it needs jinja2 of python3, which is missing", "is_missing": True}
    except Refused as refused:
        found = {"problem": str(refused)}
    print(json.dumps(found))
