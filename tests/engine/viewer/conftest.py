"""Pages in Chromium for the tests of the viewer's page: as for the server's."""

from ..web.conftest import blank, clean_tab, open_page, tab

__all__ = ["blank", "clean_tab", "open_page", "tab"]
