"""`GET /v1/openapi.json`: the API in OpenAPI 3.1, made from the table of routes. `GET /v1/docs`: the same as a page."""

from __future__ import annotations

import html
import re
from functools import lru_cache
from typing import Any, ClassVar, Final, final

import orjson

from protocols.http.argument import parameters
from protocols.http.description.operation import OPERATIONS, Operation
from protocols.http.handler import Handler, Outcome, Route
from protocols.http.request import Request
from protocols.http.response import JSON, Response

_NAMED: Final = re.compile(r"\{(\w+)(…?)\}")
_HTML: Final = (b"content-type", b"text/html; charset=utf-8")
_POLICY: Final = (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'")
_ABOUT: Final[dict[str, str]] = {
    "path": "a topic, or an MQTT path whose first level is the topic; its levels are separated by /",
    "topic": "name of a topic",
    "group": "name of a consumer group",
    "queue": "number of a queue",
    "user": "name of a user",
    "id": "id of a subscription",
    "transaction": "id of a transaction",
}
_PROBLEM: Final = {
    "type": "object",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "description": "stable, for programs"},
        "detail": {"type": "string", "description": "a sentence for people"},
    },
}


def _summary(text: str) -> str:
    """The first sentence of a description."""
    return re.split(r"(?<=[.;:]) ", text, maxsplit=1)[0].rstrip(".;:")


def _schema(example: Any) -> dict[str, Any]:
    """The schema of an example: its type, and those of its members."""
    if isinstance(example, bool):
        return {"type": "boolean"}
    if isinstance(example, int):
        return {"type": "integer"}
    if isinstance(example, float):
        return {"type": "number"}
    if isinstance(example, list):
        return {"type": "array", "items": _schema(example[0]) if example else {}}
    if isinstance(example, dict):
        return {"type": "object", "properties": {name: _schema(value) for name, value in example.items()}}
    return {"type": "string"}


def _media(kind: str, example: Any) -> dict[str, Any]:
    schema = {"type": "string", "format": "binary"} if kind == "application/octet-stream" else _schema(example)
    return {kind: {"schema": schema, "example": example}}


def _answers(found: Operation) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for status, (kind, example) in sorted(found.answers.items()):
        out[str(status)] = {"description": "done" if not kind else "found"}
        if kind:
            out[str(status)]["content"] = _media(kind, example)
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    out["default"] = {"description": "refused: a problem document (RFC 9457)", "content": problem}
    return out


def _operation(kind: type[Handler], route: Route) -> dict[str, Any]:
    found = OPERATIONS[kind.__name__]
    given: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "description": _ABOUT[name], "schema": {"type": "string"}}
        for name, _ in _NAMED.findall(route.pattern)
    ]
    for name, (schema, about) in found.query.items():
        given.append({"name": name, "in": "query", "description": about, "schema": {"type": schema}})
    for name, about in found.fields.items():
        given.append({"name": name, "in": "header", "description": about, "schema": {"type": "string"}})
    identity = kind.__name__[:1].lower() + kind.__name__[1:]
    out: dict[str, Any] = {
        "operationId": identity,
        "tags": [found.tag],
        "summary": _summary(kind.description),
        "description": kind.description,
    }
    if given:
        out["parameters"] = given
    if found.content:
        content: dict[str, Any] = {}
        for media, example in found.content.items():
            content |= _media(media, example)
        out["requestBody"] = {"content": content}
    out["responses"] = _answers(found)
    return out


@lru_cache(1)
def description(routes: tuple[Route, ...]) -> dict[str, Any]:
    """The OpenAPI document of a table of routes."""
    paths: dict[str, Any] = {}
    for route in routes:
        methods = {
            method.decode().lower(): _operation(make, route)
            for method, make in route.methods.items()
            if method != b"OPTIONS" and isinstance(make, type) and issubclass(make, Handler)
        }
        paths["/" + route.pattern.replace("…", "")] = methods
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headgate",
            "version": "1",
            "description": "Messages, groups, webhooks and what they need, over HTTP/1.1 and HTTP/2.",
        },
        "security": [{}, {"password": []}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": {"Problem": _PROBLEM},
            "securitySchemes": {"password": {"type": "http", "scheme": "basic"}, "token": {"type": "http", "scheme": "bearer"}},
        },
    }


@lru_cache(1)
def page(routes: tuple[Route, ...]) -> bytes:
    """The description as a page without scripts: a chapter for each tag, with curl lines."""
    chapters: dict[str, list[str]] = {}
    for path, methods in description(routes)["paths"].items():
        for method, found in methods.items():
            chapters.setdefault(found["tags"][0], []).append(_entry(path, method, found))
    out = ["<!doctype html><meta charset=utf-8><title>Headgate: HTTP API</title><style>", _STYLE, "</style><h1>HTTP API</h1>"]
    out.append("<p>For programs: <a href=openapi.json>openapi.json</a> (OpenAPI 3.1).</p><nav>")
    out += [f"<a href='#{html.escape(tag)}'>{html.escape(tag)}</a> " for tag in chapters]
    out.append("</nav>")
    for tag, entries in chapters.items():
        out += [f"<h2 id='{html.escape(tag)}'>{html.escape(tag)}</h2>", *entries]
    return "".join(out).encode()


_STYLE: Final = (
    "body{font:16px/1.5 sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem}h3{font-family:monospace;margin-bottom:0}"
    "pre{background:#f4f4f4;padding:.5rem;overflow:auto}dt{font-family:monospace;float:left;clear:left;width:11rem}dd{margin-left:12rem}"
)


def _entry(path: str, method: str, found: dict[str, Any]) -> str:
    given = "".join(
        f"<dt>{html.escape(each['name'])}</dt><dd>{html.escape(each['in'])}: {html.escape(each['description'])}</dd>"
        for each in found.get("parameters", ())
    )
    line = f"curl -X {method.upper()} http://127.0.0.1:8080{path}"
    content = found.get("requestBody", {}).get("content", {})
    if content:
        kind, media = next(iter(content.items()))
        example = media["example"]
        text = example if isinstance(example, str) else orjson.dumps(example).decode()
        line += f" -H 'content-type: {kind}' -d '{text}'"
    return (
        f"<h3>{method.upper()} {html.escape(path)}</h3><p>{html.escape(found['description'])}</p>"
        f"<dl>{given}</dl><pre>{html.escape(line)}</pre>"
    )


class DescriptionHandler(Handler):
    """A handler that everybody may use, also where access is controlled: the description has nothing of this node."""

    def admit(self, request: Request) -> None:
        """The description has nothing of this node in it."""


@final
class GetDescription(DescriptionHandler):
    """`GET /v1/openapi.json`."""

    description: ClassVar[str] = "The API as an OpenAPI document, for generators of clients."

    def start(self, request: Request, ticket: object) -> Outcome:
        """The document."""
        parameters(self._match)
        return None, Response(200, [JSON], orjson.dumps(description(self._match.context.routes)))


@final
class GetPage(DescriptionHandler):
    """`GET /v1/docs`."""

    description: ClassVar[str] = "The API as a page, with a line for curl for each call."

    def start(self, request: Request, ticket: object) -> Outcome:
        """The page."""
        parameters(self._match)
        return None, Response(200, [_HTML, _POLICY], page(self._match.context.routes))
