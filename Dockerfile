# The image of operator, agent and command line:
#
#   docker build --tag gpusharing:dev .
#   docker build --tag gpusharing-simulated-node:dev --target simulated-node .
#
# `make image` builds the same without a registry of images. Behind a mirror of packages, give pip's and uv's settings and
# the authorities as secrets: --secret id=pip.conf,src=... --secret id=uv.toml,src=... --secret id=authorities,src=...

# The first compiles, for whatever platform. From the second come the interpreter and its libraries, and nothing else.
# Both have the same minor version of Python. Tests run on 3.11.
ARG BUILD_IMAGE=python:3.11-slim-bookworm
ARG PYTHON_IMAGE=python:3.11-slim-bookworm
# Who has built one of these stages before gives it here, to make several images of it.
ARG ENVIRONMENT=environment
ARG ASSEMBLED=assembled
ARG RUNTIME=runtime

FROM ${PYTHON_IMAGE} AS python

# Whatever does not change with our sources, on what compiles them.
FROM --platform=${BUILDPLATFORM} ${BUILD_IMAGE} AS environment
ARG BUILDARCH
ARG TARGETARCH
WORKDIR /build
# Sets are ordered as at the last build, so that modules compile to the same bytes.
ENV PYTHONHASHSEED=0 SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt UV_LINK_MODE=copy UV_NO_PROGRESS=1
COPY tools/image/install_compiler.sh tools/image/
RUN --mount=type=secret,id=authorities,target=/etc/ssl/certs/ca-certificates.crt \
    sh tools/image/install_compiler.sh "${BUILDARCH}" "${TARGETARCH}"
COPY requirements requirements
RUN --mount=type=secret,id=authorities,target=/etc/ssl/certs/ca-certificates.crt \
    --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    python3 -m venv tools/venv \
    && tools/venv/bin/pip install --quiet --no-cache-dir --require-hashes --requirement requirements/image.txt
COPY tools/image/assemble.py tools/image/
RUN --mount=type=secret,id=authorities,target=/etc/ssl/certs/ca-certificates.crt \
    --mount=type=secret,id=uv.toml,target=/etc/uv/uv.toml \
    --mount=type=cache,target=/root/.cache/uv \
    --mount=type=bind,from=python,source=/,target=/python \
    python3 -m venv --without-pip /opt/gpusharing \
    && tools/venv/bin/uv pip install --quiet --require-hashes --only-binary :all: \
        --python /opt/gpusharing --python-platform "$(cat machine)-manylinux_2_28" \
        --requirement requirements/operator.txt --requirement requirements/agent.txt \
        --requirement requirements/cli.txt \
    && python3 tools/image/assemble.py environment --machine "$(cat machine)" --python-root /python \
        --environment /opt/gpusharing --output /image \
    && rm -r /opt/gpusharing/lib/python*/site-packages/*

FROM ${ENVIRONMENT} AS build
COPY pyproject.toml LICENSE ./
COPY operator operator
# What people read there is no part of the image.
RUN touch README.md \
    && HATCH_BUILD_NO_HOOKS=1 tools/venv/bin/hatchling build --target wheel \
    && tools/venv/bin/uv pip install --quiet --offline --no-cache --no-deps --python /opt/gpusharing --target application \
        dist/*.whl \
    && export CC="$(cat machine)-linux-gnu-gcc" PYTHONPATH=application \
    && python3 -m gpusharing.agent.walls.build application/gpusharing/agent/walls/gpusharing-wall \
    && python3 -c "from pathlib import Path; from gpusharing.sim import build; build.package(Path('simulation'))" \
    && unset PYTHONPATH \
    && python3 tools/image/assemble.py application --application application --simulation simulation --output /image

FROM scratch AS assembled
COPY --from=build /image /

FROM ${ASSEMBLED} AS layers

# What changes least comes first: nodes that have an older image fetch the last layer only.
FROM scratch AS interpreter
COPY --from=layers /interpreter /

FROM interpreter AS dependencies
COPY --from=layers /dependencies /

FROM dependencies AS runtime
ARG VERSION=0
ARG REVISION=unknown
COPY --from=layers /application /
ENV PATH=/opt/gpusharing/bin:/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
LABEL org.opencontainers.image.title="gpusharing" \
    org.opencontainers.image.description="GPU sharing for Kubernetes' Dynamic Resource Allocation" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}"
# By number, so that Kubernetes can see that it is not root. The agent's pod says that it is.
USER 65532:65532
ENTRYPOINT ["/opt/gpusharing/bin/gpusharing"]
CMD ["--help"]

# Nodes of GPUs that are not there, for clusters without any.
FROM ${RUNTIME} AS simulated-node
COPY --from=layers /simulation /
LABEL org.opencontainers.image.title="gpusharing-simulated-node" \
    org.opencontainers.image.description="Simulated GPU nodes, for clusters without GPUs"

# The last stage is the one that is built if none is named.
FROM runtime
