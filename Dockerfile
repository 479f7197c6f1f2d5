# Two images from one source: `node` is api, worker and command line, `engine` is the Spark engine with its own Java.
# Both are made from the hash-locked files of `locks/`, as every other environment of this project.

FROM python:3.11-slim AS base
RUN useradd --uid 10001 --create-home odf \
    && mkdir -p /app /workspace/exchange /cache \
    && chown -R odf:odf /app /workspace /cache
USER odf
WORKDIR /app
COPY --chown=odf:odf locks locks
ENV PATH=/app/.odf/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1

FROM base AS node
COPY --chown=odf:odf services/api/web services/api/web
RUN python3 -I locks/install.py /app boot node
COPY --chown=odf:odf migrations migrations
COPY --chown=odf:odf src src
COPY --chown=odf:odf services services
VOLUME ["/workspace"]

FROM base AS engine
RUN python3 -I locks/install.py /app boot engine
COPY --chown=odf:odf src src
COPY --chown=odf:odf services services
