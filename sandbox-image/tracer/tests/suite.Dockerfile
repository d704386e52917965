# The sandbox image with CPython's own tests, which are a package of their own
# and must be of the interpreter's version. Built by deploy/setup/testsuite.sh.
ARG IMAGE=tracefleet/sandbox:latest
ARG BASE=debian:trixie-slim

FROM ${BASE} AS suite
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3 libpython3.13-testsuite \
 && rm -rf /var/lib/apt/lists/*

FROM ${IMAGE}
COPY --from=suite /usr/lib/python3.13/test /usr/lib/python3.13/test
