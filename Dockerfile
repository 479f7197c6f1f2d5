# Two images from one source: `node` is api, worker and command line, `engine` is the Spark engine with its own Java.
# Both are made from the hash-locked files of `locks/`, as every other environment of this project. Build tools stay in the `*-packages`
# stages. Everything below /app belongs to root: the processes write to /workspace, /cache and /tmp only, so the root file system may
# be read-only. Health depends on the command, so docker-compose.yml and the Helm chart say how to check it.

FROM python:3.11-slim-trixie AS base
ENV PATH=/app/.odf/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1
# Volumes that are mounted here for the first time get the owner of these folders.
RUN useradd --uid 10001 --create-home odf \
    && install --directory --owner=odf --group=odf /workspace /workspace/exchange /cache
WORKDIR /app

# Packages of `locks/boot.lock` build the others and run in no image.
FROM base AS node-packages
COPY locks locks
COPY services/api/web services/api/web
RUN python3 -I locks/install.py /app boot node \
    && uv pip uninstall --quiet --python .odf/venv/bin/python --requirements locks/boot.lock pip

FROM base AS engine-packages
COPY locks locks
RUN python3 -I locks/install.py /app boot engine \
    && uv pip uninstall --quiet --python .odf/venv/bin/python --requirements locks/boot.lock pip

FROM base AS node
COPY --from=node-packages /app/.odf .odf
COPY LICENSE ./
COPY migrations migrations
COPY src src
COPY services services
# Compiled here, because nobody can write bytecode later.
RUN python -m compileall -q migrations src services
ARG VERSION=0.2.0
ARG REVISION=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="odfabric node" \
    org.opencontainers.image.description="Api, worker and command line of an Open Data Fabric node" \
    org.opencontainers.image.version="$VERSION" \
    org.opencontainers.image.revision="$REVISION" \
    org.opencontainers.image.source="$SOURCE" \
    org.opencontainers.image.licenses="Apache-2.0"
USER 10001:10001
EXPOSE 8080
VOLUME ["/workspace"]
CMD ["python", "-P", "-m", "odfabric_api", "--host", "0.0.0.0", "--port", "8080"]

FROM base AS engine
COPY --from=engine-packages /app/.odf .odf
COPY LICENSE ./
COPY src src
COPY services/engine-spark services/engine-spark
RUN python -m compileall -q src services
ARG VERSION=0.2.0
ARG REVISION=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="odfabric engine" \
    org.opencontainers.image.description="Spark engine of an Open Data Fabric node, with its own Java" \
    org.opencontainers.image.version="$VERSION" \
    org.opencontainers.image.revision="$REVISION" \
    org.opencontainers.image.source="$SOURCE" \
    org.opencontainers.image.licenses="Apache-2.0"
USER 10001:10001
EXPOSE 5544
VOLUME ["/workspace/exchange", "/cache"]
CMD ["python", "-P", "-m", "odfabric_engine_spark", "--listen=0.0.0.0:5544", "--token-file=/run/secrets/engine_token", "--exchange=/workspace/exchange", "--cache=/cache"]
