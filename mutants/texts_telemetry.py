"""Faults in what traces and log lines may hold, and in what a caller may choose of them: each as a text that is replaced."""

from __future__ import annotations

from typing import Final

from mutants.text import Text

_TRACING: Final = "contract/tracing.py"
_CONTEXT: Final = "contract/trace_context.py"
_LOGS: Final = "telemetry/logs.py"
_CONTENT: Final = "contract/telemetry.py"

TELEMETRY: Final = (
    Text(_TRACING, "any name in a span", "if name in NAMES and is_plain(value):", "if is_plain(value):"),
    Text(_TRACING, "any text in a span", "if name in NAMES and is_plain(value):", "if name in NAMES:"),
    Text(_TRACING, "the text of a fault in a span", '"error.type"] = type(fault).__name__', '"error.type"] = repr(fault)'),
    Text(_TRACING, "the times of a restricted call", "        span.start_ns = span.end_ns = began\n", "        pass\n"),
    Text(_TRACING, "the run of a restricted call", "hidden = {span.span_id for span in spans if span.private}", "hidden: set[str] = set()"),
    Text(_TRACING, "what is below the run of a restricted call", "        hidden |= more\n", "        break\n"),
    Text(_TRACING, "a parent of another trace", "self._parent = parent = None\n        self.trace_id", "pass\n        self.trace_id"),
    Text(_TRACING, "what is not sampled", "        if not self.sampled:\n            return\n", ""),
    Text(_TRACING, "a trace that cannot be told", "        except Exception as fault:\n            log.warning(\"a trace", "        except KeyError as fault:\n            log.warning(\"a trace"),
    Text(_TRACING, "spans without end", "if self._begun == MAX_SPANS:", "if False:"),
    Text(_CONTEXT, "one of several header lines", "if len(lines) != 1 or", "if not lines or"),
    Text(_CONTEXT, "a header without end", " or len(lines[0]) > MAX_BYTES", ""),
    Text(_CONTEXT, "an id of zeros", "if trace_id == _NO_TRACE or span_id == _NO_SPAN:", "if False:"),
    Text(_CONTEXT, "what follows in the present version", 'version == "00" or text', "text"),
    Text(_CONTEXT, "the version that is none", 'if version == "ff":', "if False:"),
    Text("telemetry/door.py", "a trace that anybody chooses", "with self._traces.begin(", "__import__(\"contract.tracing\").tracing.take_in(scope[\"headers\"])\n        with self._traces.begin("),
    Text(_LOGS, "the text of a fault in a line", "(type(fault).__name__, *places)", "(repr(fault), *places)"),
    Text(_LOGS, "the words of a library", 'said = f"said at {_place(record.pathname, record.lineno)}"', "said = record.getMessage()"),
    Text(_LOGS, "the arguments of a library", 'f"{str(record.msg).strip()} (', 'f"{record.getMessage().strip()} ('),
    Text(_LOGS, "a line that begins another", "char if char.isprintable() else _escaped(char)", "char"),
    Text(_LOGS, "anything beside a message", "if isinstance(value, float) or is_plain(value):", "if True:"),
    Text(_LOGS, "libraries at the level of this product", "max(logging.WARNING, logging.getLevelNamesMapping()[level])", "logging.getLevelNamesMapping()[level]"),
    Text(_CONTENT, "a start that asks for content", ".strip().lower() not in (", ".strip().lower() in () and name not in ("),
    Text(_CONTENT, "the form of spans that holds content", '*("ADK_EXPERIMENTAL_TELEMETRY_FEATURES", _SCHEMA),', '"ADK_EXPERIMENTAL_TELEMETRY_FEATURES",'),
    Text("telemetry/environment.py", "a sampler that is none", "if sampler not in SAMPLERS:", "if False:"),
    Text("telemetry/environment.py", "a share that is none", "if not 0.0 <= ratio <= 1.0:", "if False:"),
    Text("telemetry/sampling.py", "a caller who chooses", "if follows and parent is not None:", "if parent is not None:"),
)  # fmt: skip
