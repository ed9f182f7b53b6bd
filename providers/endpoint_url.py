"""Addresses of endpoints as they may be shown and recorded."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit, urlunsplit


def public_url(url: str) -> str:
    """The URL without what may be secret: user, password, query and fragment."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))


def mask_url(url: str) -> str:
    """The URL as it was written, with `***` for what may be secret; also where it is none."""
    return re.sub(r"\?.*", "?***", re.sub(r"(?<=//)[^/?#]*@", "***@", url))


def split_credentials(url: str) -> tuple[str, str]:
    """The URL without user and password, and these as `user:password`; empty where there are none."""
    login = re.search(r"(?<=//)([^/?#]*)@", url)
    return (url.replace(login[0], "", 1), unquote(login[1])) if login else (url, "")


def url_origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port. Raises ValueError for a port that is none."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
