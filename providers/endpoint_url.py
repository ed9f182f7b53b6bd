"""URLs of endpoints: without their secrets for records and messages, and split for requests."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit, urlunsplit


def public_url(url: str) -> str:
    """The URL without user, password, query and fragment, which may be secret."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))


def mask_url(url: str) -> str:
    """The text with `***` for a URL's credentials and query; also for a text that is not a valid URL."""
    return re.sub(r"\?.*", "?***", re.sub(r"(?<=//)[^/?#]*@", "***@", url))


def split_credentials(url: str) -> tuple[str, str]:
    """The URL without credentials, and the credentials as `user:password`; empty if there are none."""
    login = re.search(r"(?<=//)([^/?#]*)@", url)
    return (url.replace(login[0], "", 1), unquote(login[1])) if login else (url, "")


def url_origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port. Raises ValueError for an invalid port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
