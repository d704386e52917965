# Redis from Debian, for hosts that reach no image registry. Same user id and
# data folder as the official image.
ARG BASE=debian:trixie-slim
FROM ${BASE}
RUN apt-get update \
 && apt-get install --yes --no-install-recommends redis-server redis-tools \
 && rm -rf /var/lib/apt/lists/* \
 && install -d -o 999 -g 999 /data
VOLUME /data
WORKDIR /data
USER 999:999
CMD ["redis-server"]
