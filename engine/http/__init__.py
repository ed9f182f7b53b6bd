"""Parts that all servers share: page files, request checks, error responses, session schemas, event streams.

They depend on no server framework: `endstop.web` uses starlette, the proxy and the viewer use aiohttp.
"""
