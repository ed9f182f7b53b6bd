"""What the servers share: files of the page, checks of requests, error responses, shapes of sessions, event streams.

It needs no framework for servers: `endstop.web` is built with starlette, the proxy and the viewer with aiohttp.
"""
