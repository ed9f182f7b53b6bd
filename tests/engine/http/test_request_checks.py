"""What a request must say of the host that it is for, and of the page that it comes from."""

from __future__ import annotations

import socket
from collections.abc import Collection, Sequence
from itertools import product

from endstop.http.problems import HttpError
from endstop.http.request_checks import check_host, check_origin

HOST_NAME = socket.gethostname()
OWN = [
    "localhost",
    "LOCALHOST:8643",
    "localhost.",
    "app.localhost",
    "localhost:",
    " localhost ",
    "127.0.0.1",
    "127.0.0.1.:1",
    "127.9.8.7",
    "[::1]",
    "[::1]:8643",
    "::1",
    "[0:0:0:0:0:0:0:1]:5",
    "[::ffff:127.0.0.1]",
    "[::1%lo]:80",
    "[::1%25lo]",
    "host.docker.internal",
    "Host.Docker.Internal:8643",
    HOST_NAME,
    f"{HOST_NAME.upper()}.:9",
]
FOREIGN = [
    "",
    "evil.com",
    "evil.com:8643",
    "localhost.evil.com",
    "127.0.0.1.evil.com",
    "localhost@evil.com",
    "evil.com@localhost",
    "localhost:80@evil.com",
    "[::1].evil.com",
    "[::1]evil.com:80",
    "[::2]",
    "8.8.8.8",
    "0.0.0.0",
    "[::]",
    "localhost..",
    "..",
    "localhost,evil.com",
    "localhost evil.com",
    "localhost/",
    "localhost#",
    "localhost\\evil",
    "http://localhost",
    "localhost:abc",
    "localhost:-1",
    "localhost:999999",
    "[::1",
    "::1]",
    "[localhost]",
    "[127.0.0.1]",
    "xlocalhost",
    "host.docker.internal.evil.com",
    "l\u03bfcalhost",
    "localhost\x00",
    "224.0.0.1",
    "255.255.255.255",
    "[ff02::1]",
    "[::ffff:8.8.8.8]",
    "null",
    "*",
    "[::1%]",
    "localhost%2eevil.com",
]
FOREIGN_ORIGINS = [
    "http://evil.com",
    "null",
    "",
    "http://localhost:3000",
    "http://localhost",
    "http://localhost:8643.evil.com",
    "http://evil.com/localhost:8643",
    "file://",
    "chrome-extension://x",
    "http://localhost:8643/",
    "localhost:8643",
    "ftp://localhost:8643",
    "http://localhost:8643, http://evil.com",
    "http://127.0.0.1:8643",
    "http://u@localhost:8643",
]
FOREIGN_SITES = ["cross-site", "same-site", "Cross-Site", "", "cross-site, none"]


def serves(hosts: Sequence[str], version: str = "1.1", allowed: Collection[str] = ()) -> bool:
    try:
        check_host(lambda name: hosts if name == "host" else (), allowed, "refused", version)
    except HttpError:
        return False
    return True


def admits(*headers: tuple[str, str], origins: Collection[str] = (), opens: bool = False) -> bool:
    sent = [("host", "localhost:8643"), *headers]
    try:
        check_origin(lambda wanted: [value for name, value in sent if name == wanted], origins, "refused", opens=opens)
    except HttpError:
        return False
    return True


def test_each_name_of_this_machine_is_served() -> None:
    assert [host for host in OWN if not serves([host])] == []


def test_no_other_name_is_served() -> None:
    assert [host for host in FOREIGN if serves([host])] == []


def test_an_address_of_an_interface_is_a_name_of_this_machine() -> None:
    for found in socket.getaddrinfo(HOST_NAME, 80, type=socket.SOCK_STREAM):
        address = str(found[4][0])
        if "%" not in address:
            assert serves([f"[{address}]:80" if ":" in address else f"{address}:80"])


def test_a_name_that_is_allowed_is_served_and_what_contains_it_is_not() -> None:
    assert serves(["Agents.Internal.:80"], allowed={"agents.internal"})
    assert not serves(["agents.internal.evil.com"], allowed={"agents.internal"})


def test_several_hosts_are_none_and_only_an_old_request_may_have_none() -> None:
    assert not serves(["localhost", "evil.com"])
    assert not serves(["localhost", "localhost"])
    assert not serves([])
    assert serves([], version="1.0")
    assert not serves(["evil.com"], version="1.0")


def test_no_combination_of_a_foreign_origin_and_site_is_admitted() -> None:
    for origin, site, mode in product([None, *FOREIGN_ORIGINS], [None, *FOREIGN_SITES], ["navigate", "cors", None]):
        given = {"origin": origin, "sec-fetch-site": site, "sec-fetch-mode": mode}
        headers = [(name, value) for name, value in given.items() if value is not None]
        if origin is not None or site is not None:
            assert not admits(*headers), headers
    for site in FOREIGN_SITES:
        assert not admits(("origin", "http://localhost:8643"), ("sec-fetch-site", site))
    assert not admits(("origin", "http://localhost:8643"), ("origin", "http://evil.com"))


def test_programs_own_pages_and_pages_that_are_allowed_are_admitted() -> None:
    assert admits()
    assert admits(("sec-fetch-mode", "cors"))  # Node's fetch
    assert admits(("origin", "http://LOCALHOST:8643"), ("sec-fetch-site", "same-origin"))
    assert admits(("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate"))
    assert admits(("origin", "https://app.example"), ("sec-fetch-site", "cross-site"), origins=["https://app.example"])


def test_a_link_opens_a_page_and_a_form_sends_nothing() -> None:
    link = ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")
    assert admits(*link, opens=True)
    assert not admits(*link)
    assert not admits(*link, ("origin", "null"), opens=True)
