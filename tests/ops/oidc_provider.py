"""An identity provider that accepts everybody: OpenID Connect's four addresses on this machine."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT = "ridgeline"


@dataclass
class Provider:
    """The provider's state.  subject: who is logged in next.  codes: the request of each."""

    url: str
    key: RSAKey
    subject: str = "ada"
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def discovery(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "code_challenge_methods_supported": ["S256"],
        }

    def keys(self) -> dict[str, Any]:
        return {"keys": [self.key.as_dict(private=False)]}

    def authorized(self, asked: dict[str, str]) -> str:
        """The address that the browser is redirected to."""
        code = secrets.token_urlsafe(16)
        self.codes[code] = {**asked, "sub": self.subject}
        return asked["redirect_uri"] + "?" + urlencode({"code": code, "state": asked["state"]})

    def tokens(self, form: dict[str, str]) -> dict[str, Any]:
        """The tokens for a one-time code, for a client that proves that it requested it."""
        asked = self.codes.pop(form["code"])
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        assert asked["code_challenge"] == challenge
        now, name = int(time.time()), asked["sub"]
        claims = {
            "iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, "sub": name,
            "nonce": asked["nonce"], "name": name.capitalize(), "email": f"{name}@example.org",
        }  # fmt: skip
        header = {"alg": "RS256", "kid": self.key.kid}
        token = jwt.encode(header, claims, self.key)
        return {"id_token": token, "access_token": "none", "token_type": "Bearer"}


@contextlib.contextmanager
def provider() -> Iterator[Provider]:
    """A provider that answers until the block ends."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
            if parts.path == "/authorize":
                self.send_response(302)
                self.send_header("Location", state.authorized(asked))
                self.end_headers()
            else:
                self.answer(state.keys() if parts.path == "/jwks" else state.discovery())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self.answer(state.tokens({k: v[0] for k, v in parse_qs(body).items()}))

        def answer(self, document: dict[str, Any]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        key = RSAKey.generate_key(2048, parameters={"kid": "one"})
        state = Provider(f"http://127.0.0.1:{server.server_port}", key)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield state
        server.shutdown()
