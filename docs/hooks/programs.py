"""The reference of REST and MCP, from the OpenAPI document and the tools that the servers give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

_HEAD = """# REST and MCP, verb by verb

{made}By example, with limits and errors: [for programs and assistants](../api.md).

"""
_WITHOUT = "The page needs the extra `{extra}` where the site is built, which was not there.\n\n"


def programs_page(made: str) -> str:
    """The page; made: the line that says where it comes from."""
    parts = [_HEAD.format(made=made), "## REST\n\n"]
    served = all(find_spec(name) for name in ("fastapi", "prometheus_client", "multipart"))
    parts += _rest() if served else [_WITHOUT.format(extra="api")]
    parts.append("## MCP\n\n")
    parts += _mcp() if find_spec("mcp") else [_WITHOUT.format(extra="mcp")]
    return "".join(parts)


def _rest() -> Iterator[str]:
    from app.api.rest import application

    document = application().openapi()
    schemas = document.get("components", {}).get("schemas", {})
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            said = operation.get("description") or operation.get("summary") or ""
            yield f"### `{method.upper()} {path}`\n\n{_prose(said)}\n\n"
            fields = [
                (given["name"], given.get("schema", {}), given.get("required", False))
                for given in operation.get("parameters", ())
            ]
            for content in operation.get("requestBody", {}).get("content", {}).values():
                fields += _fields(_resolved(content.get("schema", {}), schemas))
            yield _table(fields)


def _mcp() -> Iterator[str]:
    import asyncio

    from app.api.answers import Answers
    from app.api.mcp_server import server
    from app.api.workers import Workers

    listed = asyncio.run(server(Answers(Workers())).list_tools())
    for tool in getattr(listed, "tools", listed):
        schema = getattr(tool, "input_schema", None) or getattr(tool, "inputSchema", None) or {}
        yield f"### {tool.name}\n\n{_prose(tool.description or '')}\n\n"
        found = _fields(_resolved(schema, schema.get("$defs", {})))
        yield _table(found)


def _resolved(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    return schemas[name] if name else schema


def _fields(schema: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any], bool]]:
    required = schema.get("required", ())
    return [(name, of, name in required) for name, of in schema.get("properties", {}).items()]


def _table(fields: list[tuple[str, Mapping[str, Any], bool]]) -> str:
    if not fields:
        return ""
    rows = "".join(
        f"| `{name}` | {_kind(schema)} | {'required' if required else _default(schema)} "
        f"| {_prose(schema.get('description', ''))} |\n"
        for name, schema, required in fields
    )
    return f"| field | holds | default | meaning |\n|---|---|---|---|\n{rows}\n"


def _default(schema: Mapping[str, Any]) -> str:
    default = schema.get("default")
    return f"`{default}`" if default not in (None, "", [], {}) else ""


def _kind(schema: Mapping[str, Any]) -> str:
    """Types in words: "number, list of number"."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        kinds = [_kind(one) for one in choices if one.get("type") != "null"]
        return ", ".join(dict.fromkeys(kinds))
    if "enum" in schema:
        return ", ".join(f"`{choice}`" for choice in schema["enum"])
    if schema.get("type") == "array":
        inner = _kind(schema.get("items", {}))
        return f"list of {inner}" if inner else "list"
    return str(schema.get("type", ""))


def _prose(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
