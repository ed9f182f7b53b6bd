# The proxy as a container image: docs/guides/proxy.md, "In a container", says how to build and run it.

# Not looked up: no registry of images was in reach. --build-arg PYTHON=IMAGE names another.
ARG PYTHON=python:3.13.5-slim-bookworm

FROM ${PYTHON} AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY decision decision
COPY providers providers
COPY engine engine
RUN ["python", "-m", "venv", "/opt/endstop"]
RUN ["/opt/endstop/bin/pip", "install", "--no-cache-dir", "--constraint", "constraints.txt", "."]
RUN ["mkdir", "-p", "/data/records"]

FROM ${PYTHON}
COPY --from=build /opt/endstop /opt/endstop
# All that the proxy writes: records, and budgets with --budget-store.
COPY --from=build --chown=65532:65532 /data /data
ENV HOME=/data PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /data
VOLUME ["/data"]
EXPOSE 8643
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["/opt/endstop/bin/python", "-c", "from http.client import HTTPConnection as C; c = C('127.0.0.1', 8643, timeout=3); c.request('GET', '/endstop/health'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["/opt/endstop/bin/endstop", "proxy", "--host", "0.0.0.0", "--port", "8643", "--record", "/data/records"]
CMD ["--help"]
