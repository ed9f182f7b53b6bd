"""Pages in Chromium for the tests of the viewer's page: as for the server's."""

from ..web.conftest import open_page

__all__ = ["open_page"]
