# A digest belongs in this argument: --build-arg PYTHON_IMAGE=python:3.13-slim@sha256:…
ARG PYTHON_IMAGE=python:3.13-slim

FROM ${PYTHON_IMAGE} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY deploy/requirements-*.lock ./
# Datasets whose tables lie in BigQuery: --build-arg EXTRAS=bigquery; with MCP servers: mcp; with traces: otel; a ledger on a server: postgresql
ARG EXTRAS=
# Arrow Flight, headers and other people's tests are a tenth of the image and never loaded.
RUN python -m venv /opt/dataset-agent \
 && /opt/dataset-agent/bin/pip install --require-hashes -r "requirements-runtime${EXTRAS:+-$EXTRAS}.lock" \
 && find /opt/dataset-agent -depth \( -path '*/pyarrow/tests' -o -path '*/pyarrow/include' \
      -o -path '*/pyarrow/*flight*' -o -path '*/google/genai/tests' \) -exec rm -rf {} +
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install --require-hashes -r requirements-build.lock
COPY . .
RUN /opt/build/bin/python -m hatchling build -t wheel -d /opt/wheel \
 && /opt/dataset-agent/bin/pip install --no-deps --no-index /opt/wheel/*.whl \
 && /opt/dataset-agent/bin/python -m compileall -q /opt/dataset-agent/lib/python*/site-packages/dataset_agent \
 && /opt/dataset-agent/bin/pip uninstall -y pip

FROM ${PYTHON_IMAGE}
# Volumes take the owner and mode of the folder they are mounted on, so the folders exist here, private.
RUN groupadd --gid 10001 dataset-agent \
 && useradd --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin dataset-agent \
 && install -d -o dataset-agent -g dataset-agent -m 0700 \
      /keys/issuer /keys/root /keys/remote /var/lib/dataset-agent \
 && install -d -o dataset-agent -g dataset-agent -m 0755 /trust
COPY --from=build /opt/dataset-agent /opt/dataset-agent
ENV PATH=/opt/dataset-agent/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    DATASET_AGENT_HOME=/var/lib/dataset-agent
USER 10001:10001
EXPOSE 8800 8801
ENTRYPOINT ["dataset-agent"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8801"]
