"""Pages of the site that are made of the program itself while the site is built.

reference/commands.md       from the command line and its exit codes
reference/python.md         from the docstrings of `ridgeline`
reference/system-yaml.md    from the schema of a system's YAML, engine-yaml.md likewise
reference/parameters.md     from the declarations of all parameters
reference/columns.md        from the declarations of all result columns, and example answers
reference/points-file.md    from the columns that a points file may have
reference/run-files.md      from the presets of run files
reference/rest.md           from the OpenAPI document of `ridgeline api` and the tools of `mcp`
schemas/*.schema.json       from the schemas of the JSON that commands hand on
latency-models.md           from the docstrings of the latency models and their constants
how-to/add-*.md             from the sections of CONTRIBUTING.md, how-to/contribute.md its rest
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_MADE = "Made from the program while this site is built.\n\n"
#: Columns of a points file that are no parameter.
_COLUMNS = {
    "id": "Name of the row; its number where empty.",
    "mtp_tokens": "Tokens that the model's own module drafts in a step.",
}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages to those that mkdocs found under docs/."""
    from mkdocs.structure.files import File

    for address, text in pages().items():
        files.append(File.generated(config, address, content=text))
    return files


def pages() -> dict[str, str]:
    """Text of every page that is made, by its address below docs/."""
    return {
        "reference/commands.md": commands_page(),
        "reference/python.md": python_page(),
        "reference/parameters.md": _beside("parameters").parameters_page(_MADE),
        "reference/columns.md": _beside("columns").columns_page(_MADE),
        "reference/points-file.md": points_page(),
        "reference/run-files.md": run_files_page(),
        "reference/rest.md": _beside("programs").programs_page(_MADE),
        "latency-models.md": _beside("latency").latency_page(_MADE),
        **schema_pages(),
        **json_schemas(),
        **contributing_pages(),
    }


def json_schemas() -> dict[str, str]:
    """The JSON schemas of `ridgeline schema`, a file each."""
    from app.answers.table import to_json
    from model_registry.reports import schemas

    return {f"schemas/{one}.schema.json": to_json(schemas.schema(one)) for one in schemas.names()}


def _beside(name: str) -> Any:
    """The module of that name beside this file, which no package holds."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def commands() -> Iterator[tuple[str, Any]]:
    """Every command with its words, "runs compare"; a group comes before its commands."""
    import typer

    from app.cli import cli

    def below(words: str, command: Any) -> Iterator[tuple[str, Any]]:
        yield words, command
        for name, inner in getattr(command, "commands", {}).items():
            yield from below(f"{words} {name}".strip(), inner)

    yield from below("", typer.main.get_command(cli))


def commands_page() -> str:
    """The exit codes; every command, its arguments and its options with their defaults."""
    from app.commands.exit_codes import MEANINGS

    rows = "".join(f"| {code} | {meaning} |\n" for code, meaning in MEANINGS.items())
    parts = [
        f"# Commands\n\n{_MADE}## Exit codes\n\n| code | meaning |\n|---|---|\n{rows}\n"
        "A server that is ended by a signal exits with the code of that signal in a shell: 130 for "
        "Ctrl-C, 143 for SIGTERM. `ridgeline app` becomes Streamlit and has Streamlit's codes, 1 "
        "for Ctrl-C.\n\n"
    ]
    for words, command in commands():
        if not words or command.hidden:
            continue
        arguments = [p.name for p in command.params if p.param_type_name == "argument"]
        inner = ["COMMAND"] if getattr(command, "commands", None) else []
        usage = " ".join(["ridgeline", words, *[a.upper() for a in arguments], *inner])
        parts.append(f"## {words}\n\n`{usage}`\n\n{_prose(command.help or '')}\n\n")
        rows = [_option(p) for p in command.params if not getattr(p, "hidden", False)]
        if rows:
            parts.append("| option | default | meaning |\n|---|---|---|\n" + "".join(rows) + "\n")
    return "".join(parts)


def _option(parameter: Any) -> str:
    names = " / ".join([*parameter.opts, *parameter.secondary_opts])
    if parameter.param_type_name == "argument":
        names = parameter.name.upper()
    default = parameter.default
    shown = default not in (None, "", [], (), False) and not callable(default)
    said = "required" if parameter.required else f"`{default}`" if shown else ""
    return f"| `{names}` | {_cell(said)} | {_cell(_prose(parameter.help or ''))} |\n"


def python_page() -> str:
    """Signatures and docstrings of every public name."""
    import ridgeline

    parts = ["# Python, name by name\n\n", _MADE, "By example: [Python](../python.md).\n\n"]
    for name in sorted(ridgeline.__all__):
        called = getattr(ridgeline, name)
        signature = inspect.signature(called)
        plain = [str(p).split(": ")[0].split("=")[0] for p in signature.parameters.values()]
        doc = inspect.getdoc(called) or ""
        parts.append(f"## {name}\n\n`ridgeline.{name}({', '.join(plain)})`\n\n")
        parts.append(f"```text\n{doc}\n```\n\n")
    return "".join(parts)


def points_page() -> str:
    """Columns of a points file, with what the parameter of that name means."""
    from app.question.parameters import PARAMETERS
    from app.scenario.points_row import KNOWN

    said = {name: one.help for name, one in PARAMETERS.items()} | _COLUMNS
    rows = "".join(f"| `{name}` | {_cell(_prose(said[name]))} |\n" for name in KNOWN)
    return (
        "# Points file\n\n"
        + _MADE
        + "A CSV with one configuration per row, for `ridgeline estimate "
        "--points FILE --output FILE`. Each row has `model`, `system`, `isl`, `osl` and one of "
        "`batch`, `concurrency` and `rate`; an empty cell is the default. Other parameters next "
        "to `--points` are refused. Columns that are not listed are kept, and a note names them."
        "\n\n| column | meaning |\n|---|---|\n" + rows
    )


def run_files_page() -> str:
    """Fields of a run file with their defaults, and the presets that ship."""
    presets = ROOT / "profilers" / "presets"
    base = (presets / "base.yaml").read_text(encoding="utf-8")
    groups = sorted(folder for folder in presets.iterdir() if folder.is_dir())
    rows = "".join(
        f"| `{group.name}=` | {', '.join(f'`{p.stem}`' for p in sorted(group.glob('*.yaml')))} |\n"
        for group in groups
        if any(group.glob("*.yaml"))
    )
    return (
        "# Run files\n\n" + _MADE + "`ridgeline runs start --file run.yaml`, or fields and presets "
        "on the line: `ridgeline runs start model=qwen2.5-0.5b run.batch=4`. `--print-config` "
        "prints the resulting run file.\n\n## Presets\n\n| group | presets |\n|---|---|\n"
        + rows + "\n## Fields and their defaults\n\n```yaml\n" + base + "```\n"
    )  # fmt: skip


def schema_pages() -> dict[str, str]:
    """The YAML of a system and of an engine, form by form."""
    from hardware_db.engine_schema import EngineRecord
    from hardware_db.system_schema import SystemRecord

    made = {}
    for what, record in (("system", SystemRecord), ("engine", EngineRecord)):
        forms: list[Any] = []
        _collect(record, forms)
        text = f"# YAML of {'an' if what == 'engine' else 'a'} {what}\n\n{_MADE}"
        made[f"reference/{what}-yaml.md"] = text + "".join(_form(form) for form in forms)
    return made


def _collect(form: Any, found: list[Any]) -> None:
    """Append a form and every form inside of its fields, each once."""
    from pydantic import BaseModel

    if form in found:
        return
    found.append(form)
    for annotation in typing.get_type_hints(form).values():
        for inner in _parts(annotation):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                _collect(inner, found)


def _parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for inner in typing.get_args(annotation):
        yield from _parts(inner)


def _form(form: Any) -> str:
    rows = []
    for name, info in form.model_fields.items():
        default = None if info.is_required() else info.get_default()
        stated = isinstance(default, (str, int, float)) and default != ""
        required = "required" if info.is_required() else f"`{default}`" if stated else ""
        rows.append(f"| `{name}` | {_cell(_kind(info.annotation))} | {_cell(required)} |\n")
    head = f"## {form.__name__}\n\n{inspect.getdoc(form) or ''}\n\n"
    return head + "| key | holds | default |\n|---|---|---|\n" + "".join(rows) + "\n"


def _kind(annotation: Any) -> str:
    """An annotation in short: names of forms, choices, lists."""
    plain = re.sub(
        r"(?:typing|datetime|[a-z_]+\.[a-z_]+)\.", "", inspect.formatannotation(annotation)
    )
    plain = re.sub(r"Annotated\[(\w+), [^\]]*\]", r"\1", plain)
    plain = re.sub(r"Optional\[(.*)\]$", r"\1", plain).replace(" | None", "")
    return "`" + re.sub(r"Literal\[(.*?)\]", r"\1", plain) + "`"


def contributing_pages() -> dict[str, str]:
    """CONTRIBUTING.md, a page for each "Add ..." and one for the rest."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    head, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    made, rest = {}, [head]
    for section in sections:
        title, _, body = section.partition("\n")
        if title.startswith("Add "):
            slug = "-".join(re.sub(r" \(.*\)", "", title).lower().split())
            made[f"how-to/{slug}.md"] = f"# {title}\n{body}"
        else:
            rest.append(f"## {section}")
    return {**made, "how-to/contribute.md": "".join(rest)}


def _prose(text: str) -> str:
    return " ".join(text.replace("\b", "").split())


def _cell(text: str) -> str:
    return (
        text.replace("|", "\\|").replace("<", "&lt;")
        if "`" not in text
        else text.replace("|", "\\|")
    )
