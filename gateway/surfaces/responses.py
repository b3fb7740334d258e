"""Answers of the pipeline as responses of REST framework. Refusals are rendered in `problems`, lists in `streams`."""

from typing import Any

from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from core.call import Call
from core.text.json_text import json_of
from gateway import pipeline


class JsonRenderer(BaseRenderer):
    """JSON, whatever Accept says; nothing at all for an answer without a body."""

    media_type, format, charset, render_style = "application/json", "json", None, "binary"

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        return b"" if data is None else json_of(data)


def response_of(request: Request, call: Call, answer: pipeline.Answer) -> Response:
    """The response of an answer, with the entity tag of a single object, and where a created one is found."""
    headers, body = dict(answer.headers), answer.body
    if isinstance(body, dict) and "version" in body:
        headers["ETag"] = f'"{body["version"]}"'
        if call.knows(body["version"]):
            return Response(status=304, headers=headers)
    if answer.status == 201 and isinstance(body, dict) and "id" in body:
        headers.setdefault("Location", f"{request.path}/{body['id']}")
    return Response(body, status=answer.status, headers=headers)
