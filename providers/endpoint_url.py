"""Functions for endpoint URLs: hide their secrets in records and messages, split off their credentials."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit, urlunsplit


def public_url(url: str) -> str:
    """Return the URL without user, password, query and fragment, which may be secret."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))


def mask_url(url: str) -> str:
    """Return the text with `***` for the credentials and query of a URL; also if the text is not a valid URL."""
    return re.sub(r"\?.*", "?***", re.sub(r"(?<=//)[^/?#]*@", "***@", url))


def split_credentials(url: str) -> tuple[str, str]:
    """Return the URL without credentials, and the credentials as `user:password`; empty if there are none."""
    login = re.search(r"(?<=//)([^/?#]*)@", url)
    return (url.replace(login[0], "", 1), unquote(login[1])) if login else (url, "")


def url_origin(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port. Raises ValueError for an invalid port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
