"""The audit log of a real node: its file, and what is done by HTTP and at the admin port."""

from __future__ import annotations

import base64
import json
import stat
import urllib.error
import urllib.request
from pathlib import Path

from tests.interop.node import Node
from tests.patience import until


def ask(port: int, method: str, path: str, user: str, content: bytes | None = None) -> int:
    """The status of a request."""
    fields = {"authorization": "Basic " + base64.b64encode(user.encode()).decode(), "content-type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", content, fields, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_who_did_what_is_in_a_file_of_the_data_folder(tmp_path: Path) -> None:
    with Node(tmp_path, "--admin", "root:branch") as node:
        http, admin = node.port("http"), node.port("admin")
        assert ask(http, "POST", "/v1/users/ann", "root:branch", b'{"password":"wonderland"}') in (200, 201, 204)
        assert ask(http, "GET", "/v1/topics", "root:guess") == 401
        assert ask(admin, "POST", "/v1/admin/reload", "root:branch", b"") in (200, 202, 204)
        assert ask(admin, "POST", "/v1/admin/reload", "ann:wonderland", b"") == 403
        path = node.data / "audit" / "audit.jsonl"

        def found() -> list[tuple[str, str, str, str]]:
            lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
            return [(line["event"], line.get("action", ""), line["user"], line["outcome"]) for line in lines]

        wanted = {
            ("login", "", "root", "ok"), ("change", "user.create", "root", "ok"), ("login", "", "root", "not-authenticated"),
            ("change", "POST /v1/admin/reload", "root", "ok"), ("refusal", "POST /v1/admin/reload", "ann", "not-allowed"),
        }  # fmt: skip
        until(lambda: wanted <= set(found()), 30, lambda: str(found()))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "wonderland" not in path.read_text()
        assert "branch" not in path.read_text()
        assert "headgate_audit_lines_lost_total 0.0" in node.admin("/metrics")
