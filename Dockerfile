# syntax=docker/dockerfile:1

# Both images are pinned by the digest of their list of platforms (amd64, arm64): another content cannot come under it.
# The first has the Node of package-lock.json. New digests: docker buildx imagetools inspect NAME:TAG
# What is built runs on any platform, so the builder's own builds it for all.
FROM --platform=$BUILDPLATFORM node:26.10.0-bookworm-slim@sha256:662933cf47f013bc8e4beb31a6116448427a82057ba7c42c97e4c5ba766504c2 AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
# No package of the lock file has a script that is needed to build: none is run.
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY src src
RUN npm run build
RUN npm prune --omit=dev --ignore-scripts --no-audit --no-fund
# Nothing at run time reads types, source maps, documents or tests of packages: half of their size. Licences stay.
# OpenTelemetry's packages come as ES modules and as CommonJS, of which prom-client alone loads its API's.
RUN find node_modules -type f ! -iname 'licen[cs]e*' ! -iname 'notice*' \
    \( -name '*.ts' -o -name '*.[cm]ts' -o -name '*.map' -o -name '*.md' \) -delete \
  && find node_modules -type d \( -name test -o -name tests -o -name 'benchmark*' -o -name docs -o -name examples \) \
    -prune -exec rm -r {} + \
  && find node_modules/@opentelemetry \
    \( -name '*.cjs' ! -path '*/api/*' -o -name 'experimental_*' -o -name 'index-incubating*' \) -delete

# A volume that is mounted there takes its owner over.
RUN mkdir cache

# No shell, no package manager; the user is 65532.
FROM gcr.io/distroless/nodejs26-debian13:nonroot@sha256:2ee7b2c54a3e37dfc248af81c9f6bcdcaa50abe4af44aa47a3388431031b9283
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
LABEL org.opencontainers.image.title="Ledgergate" \
  org.opencontainers.image.description="Caching read-through gateway in front of a fleet of ledger nodes" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}" \
  org.opencontainers.image.created="${CREATED}" \
  org.opencontainers.image.base.name="gcr.io/distroless/nodejs26-debian13:nonroot"
ENV NODE_ENV=production
WORKDIR /app
# Owned by root: the gateway cannot change itself.
COPY package.json LICENSE ./
COPY docs/runbook.md docs/
COPY bin bin
COPY --from=build /build/node_modules node_modules
COPY --from=build /build/dist dist
COPY --from=build --chown=65532:65532 /build/cache /var/cache/ledgergate
USER 65532:65532
EXPOSE 8080 9090
STOPSIGNAL SIGTERM
# Reads the operations port from the default, LEDGERGATE_OPERATIONS_HOST and _PORT, or the file of LEDGERGATE_CONFIG.
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
  CMD ["/nodejs/bin/node", "/app/bin/ledgergate.js", "health"]
ENTRYPOINT ["/nodejs/bin/node", "/app/bin/ledgergate.js"]
