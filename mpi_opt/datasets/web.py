"""What is opened of the web: http and https, and nothing that they lead to by another scheme."""

from email.message import Message
from http.client import HTTPMessage
from typing import IO
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    UnknownHandler,
)


class RefusedError(Exception):
    """An address does not give the file, however often it is asked."""


class _Redirects(HTTPRedirectHandler):
    """Follows to the same scheme, or from http to https."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        scheme = urlsplit(newurl).scheme
        if scheme != req.type and (req.type, scheme) != ("http", "https"):
            fp.close()
            raise RefusedError(f"redirects to {newurl!r}; from {req.type} that is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def opener() -> OpenerDirector:
    """Return what opens http and https and nothing else, through the proxies that the environment names."""
    director = OpenerDirector()
    for handler in (
        ProxyHandler(),
        HTTPHandler(),
        HTTPSHandler(),
        HTTPDefaultErrorHandler(),
        _Redirects(),
        HTTPErrorProcessor(),
        UnknownHandler(),
    ):
        director.add_handler(handler)
    return director


def validator(headers: Message) -> str:
    """Return what names this version of the file: a strong ETag, else its date; empty where there is neither."""
    tag = headers.get("ETag", "")
    return tag if tag.startswith('"') else headers.get("Last-Modified", "")


def printable(text: object) -> str:
    """Return a server's words without what a terminal would take as orders."""
    return "".join(sign if sign.isprintable() else "?" for sign in str(text))


def asked_wait(headers: Message, longest: float) -> float:
    """Return the seconds that the server asks to be left alone for, at most ``longest``."""
    text = headers.get("Retry-After", "")
    return min(float(text), longest) if text.isdecimal() else 0.0
