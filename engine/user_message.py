"""Make a message of the user from a text, or from texts and images, and check it before anything begins.

It is a prompt, a message to a run in progress, or an answer.

    await engine.run(["What is this?", Image(url="https://example.com/a.png"), Path("b.jpeg")])

An image is bytes, a file or a URL. Files are read here. A URL is passed to the model's provider, which fetches it.
endstop does not fetch it, so it cannot check the image. A URL of this host or of a private network is refused: a model
server in the same network could fetch it, although it is not meant for outsiders.
"""

from __future__ import annotations

import os
import socket
from base64 import b64decode
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from .decision import Image, UserMessage, WrongUse
from .providers.endpoint_url import mask_url
from .validation import check_prompt, preview

Prompt = str | Sequence[str | Image | os.PathLike[str]] | UserMessage
"""A text, or texts and images in their order. A path names the file of an image."""
MAX_IMAGE_BYTES = 20 * 1024 * 1024
"""Most bytes of all images of a message together: the lowest limit of any provider for one request."""
MEDIA_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Types of images that the models of all vendors can read."""
_PRIVATE_NAMES = ("localhost", ".localhost", ".local", ".internal", ".lan", ".home.arpa")


def user_message(prompt: Any, role: str = "prompt") -> UserMessage:
    """Return the message of a prompt. Raises WrongUse, with the number of the part, if one cannot be sent.

    role: what the message is, if not a prompt; used in errors.
    """
    if isinstance(prompt, UserMessage):
        prompt = prompt.parts
    if not isinstance(prompt, list | tuple):
        check_prompt(prompt, role)
        return UserMessage(prompt)
    parts = [_part(f"{role}[{number}]", part) for number, part in enumerate(prompt)]
    size = sum(len(part.data) for part in parts if isinstance(part, Image))
    if size > MAX_IMAGE_BYTES:
        raise WrongUse(
            f"the images of the {role} have {size:,} bytes, and at most {MAX_IMAGE_BYTES:,} can be sent: "
            "make them smaller, or give their URLs"
        )
    message = UserMessage.of(part for part in parts if not isinstance(part, str) or part.strip())
    if not message.images:
        check_prompt(message.text, role)
    return message


def _part(place: str, part: Any) -> str | Image:
    match part:
        case str():
            return part
        case Image():
            return checked_image(place, part)
        case os.PathLike():
            return checked_image(place, Image(data=_content(place, Path(part))))
        case {"role": _}:
            hint = "a conversation so far is not the prompt: write engine.run(prompt, history=[...])"
        case bytes() | bytearray():
            hint = "write Image(data=...) for an image, text.decode() for a text"
        case _:
            hint = "write a text, an Image(...), or the Path of an image"
    raise WrongUse(f"{place} is {preview(part)}, of type {type(part).__name__}: {hint}")


def _content(place: str, path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_IMAGE_BYTES:  # before it is read
            raise WrongUse(f"{place}: {path} is larger than {MAX_IMAGE_BYTES:,} bytes: make it smaller")
        return path.read_bytes()
    except OSError as error:
        raise WrongUse(f"{place}: cannot read {path}: {error.strerror}") from None


def image_at(place: str, source: str) -> Image:
    """Return the image at a URL or in a file. Raises WrongUse if no provider could read it.

    place: where it was given; used in the error.
    """
    if source.startswith(("http://", "https://", "data:")):
        return checked_image(place, Image(url=source))
    return checked_image(place, Image(data=_content(place, Path(source))))


def checked_image(place: str, image: Image) -> Image:
    """Return the image with the media type of its bytes. A `data:` URL becomes bytes.

    place: name of its position, such as `prompt[1]`; used in the error. Raises WrongUse if no provider could read it.
    """
    if image.url.startswith("data:"):
        image = Image(data=_decoded(place, image.url))
    if image.url:
        _check_url(place, image.url)
        return image
    if not image.data:
        raise WrongUse(f"{place}: the image is empty: give its bytes (data=...) or its URL (url=...)")
    kind = media_type_of(image.data)
    if kind is None:
        known = ", ".join(name.removeprefix("image/") for name in MEDIA_TYPES)
        raise WrongUse(
            f"{place}: these {len(image.data)} bytes are not an image of a known type: convert it to {known}"
        )
    return replace(image, media_type=kind)


def media_type_of(data: bytes) -> str | None:
    """Return the media type of an image by its first bytes; None if it is not one of `MEDIA_TYPES`."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def _decoded(place: str, url: str) -> bytes:
    head, _, data = url.partition(",")
    try:
        if head.endswith(";base64"):
            return b64decode(data, validate=True)
    except ValueError:
        pass
    raise WrongUse(f"{place}: the data URL is not valid base64: give the bytes, as in Image(data=...)")


def _check_url(place: str, url: str) -> None:
    """Refuse a URL that no provider could fetch, or that a provider in this network should not fetch."""
    hint = "give its bytes, as in Image(data=...), or the Path of its file"
    try:
        parts = urlsplit(url)
        host, _ = (parts.hostname or "").rstrip(".").lower(), parts.port
    except ValueError:
        raise WrongUse(f"{place}: {preview(mask_url(url))} is not a valid URL") from None
    if parts.scheme not in ("http", "https") or not host or any(sign.isspace() for sign in url):
        raise WrongUse(
            f"{place}: {preview(mask_url(url))} is not the URL of an image: it begins with https://; or {hint}"
        )
    if parts.username is not None:
        raise WrongUse(f"{place}: the URL {preview(mask_url(url))} contains a login, which would be in records: {hint}")
    if _is_private(host):
        raise WrongUse(f"{place}: {preview(mask_url(url))} is on this host or in a private network: {hint}")


def _is_private(host: str) -> bool:
    """Return whether a host is this one or in a private network, by its name or address. Names are not resolved."""
    address = _address(host)
    if address is None:
        return "." not in host or f".{host}".endswith(_PRIVATE_NAMES)
    mapped = getattr(address, "ipv4_mapped", None)
    return not (mapped or address).is_global


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address that a host is, in any notation (`127.1`, `0x7f000001`); None if it is a name."""
    try:
        return ip_address(host)
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host)) if host[:1].isdigit() else None
    except OSError:
        return None
