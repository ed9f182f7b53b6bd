"""Where a server listens: the address, the socket, and the number of connections that the system allows."""

from __future__ import annotations

import errno
import ipaddress
import resource
import socket
from typing import Any, NamedTuple

from ..decision import WrongUse

MAX_OPEN_FILES = 65_536
"""Files and connections that may be open at once, if the system allows it."""

_LOCAL_NAMES = frozenset(
    {"ip6-localhost", "ip6-loopback", "localhost.localdomain", "host.docker.internal", "host.containers.internal"}
)
"""Names of this machine in the hosts files of systems and of containers. Nobody can own them in the DNS."""


class BindAddress(NamedTuple):
    """An address to listen at, with its family and protocol."""

    family: int
    protocol: int
    address: tuple[Any, ...]


def resolve_address(host: str, port: int, options: str = "--") -> BindAddress:
    """Return the first address that the name `host` resolves to. Raises WrongUse if there is none.

    options: what the names of the options for host and port begin with, for errors.
    """
    if not 0 <= port <= 65535:
        raise WrongUse(f"{options}port is {port}: use 0 to 65535")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError):
        raise WrongUse(f"{options}host {host}: there is no such host") from None
    family, _, protocol, _, address = found[0]
    return BindAddress(family, protocol, address)


def listen_at(place: BindAddress, host: str, port: int, options: str = "--") -> socket.socket:
    """Return a socket that listens at this address. Raises WrongUse if that is not possible."""
    listening = socket.socket(place.family, socket.SOCK_STREAM, place.protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place.address)
        listening.listen(2048)
    except OSError as error:
        listening.close()
        raise WrongUse(_bind_error(error, host, port, options)) from None
    return listening


def _bind_error(error: OSError, host: str, port: int, options: str) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"{options}port {port} is in use: choose another one, or {options}port 0 for any free port"
        case errno.EADDRNOTAVAIL:
            return f"{options}host {host} is not an address of this machine"
        case errno.EACCES:
            return f"{options}port {port} needs privileges that this process does not have: choose one above 1023"
        case _:
            return f"{options}host {host} {options}port {port}: {error.strerror}"


def url_of(listening: socket.socket) -> str:
    """Return the URL at which a socket listens."""
    address, port = listening.getsockname()[:2]
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def is_loopback(name: str) -> bool:
    """Return whether this is a loopback name or address, such as `localhost` (RFC 6761) or `127.0.0.1`."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_own_name(name: str) -> bool:
    """Return whether this is a name or address of this machine: its loopback, its host name or an interface's.

    name: in lower case, without brackets and port. Nothing is resolved: a name resolves to whatever its owner says.
    """
    if is_loopback(name) or name in _LOCAL_NAMES:
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        host = socket.gethostname().lower()
        return name in (host, host.partition(".")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return is_own_name(str(mapped)) if mapped is not None else _is_own_address(address)


def _is_own_address(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Return whether an interface has this address: a packet sent there would come from there.

    Nothing is sent to find out.
    """
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as unsent:
            unsent.connect((str(address), 9))
            return ipaddress.ip_address(unsent.getsockname()[0]) == address
    except OSError:
        return False


def raise_file_limit() -> int:
    """Raise the limit of open files, up to `MAX_OPEN_FILES`; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return MAX_OPEN_FILES if soft == resource.RLIM_INFINITY else soft
