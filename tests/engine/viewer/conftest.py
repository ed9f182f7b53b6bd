"""Chromium for the tests of the viewer's page: the same as for the server's."""

from ..web.conftest import browser, open_page

__all__ = ["browser", "open_page"]
