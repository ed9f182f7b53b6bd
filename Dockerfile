# Images of the server (which is also the worker's) and of the proxy: docs/guides/deploy.md says how to build and run them.

# Not looked up: no registry of images was in reach. --build-arg PYTHON=IMAGE names another.
ARG PYTHON=python:3.13.5-slim-bookworm

FROM ${PYTHON} AS source
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY decision decision
COPY providers providers
COPY engine engine
RUN ["python3", "-m", "venv", "/opt/endstop"]
RUN ["mkdir", "-p", "/data/records"]

FROM source AS server-build
RUN ["/opt/endstop/bin/pip", "install", "--no-cache-dir", "--constraint", "constraints.txt", ".[postgres,dbos]"]

FROM source AS proxy-build
RUN ["/opt/endstop/bin/pip", "install", "--no-cache-dir", "--constraint", "constraints.txt", "."]

FROM ${PYTHON} AS runtime
# All that is written: sessions without --store, the proxy's records, and its budgets with --budget-store.
COPY --from=source --chown=65532:65532 /data /data
ENV HOME=/data PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /data
VOLUME ["/data"]

FROM runtime AS server
COPY --from=server-build /opt/endstop /opt/endstop
USER 65532:65532
EXPOSE 8642
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s CMD ["/opt/endstop/bin/python", "-c", "from http.client import HTTPConnection as C; c = C('127.0.0.1', 8642, timeout=3); c.request('GET', '/health'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["/opt/endstop/bin/endstop"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8642"]

FROM runtime AS proxy
COPY --from=proxy-build /opt/endstop /opt/endstop
USER 65532:65532
EXPOSE 8643
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["/opt/endstop/bin/python", "-c", "from http.client import HTTPConnection as C; c = C('127.0.0.1', 8643, timeout=3); c.request('GET', '/endstop/health'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["/opt/endstop/bin/endstop", "proxy", "--host", "0.0.0.0", "--port", "8643", "--record", "/data/records"]
CMD ["--help"]
