#!/usr/bin/env bash
# Brings the jars of a complete Kafka broker (integration/servers/kafka/pom.xml) into
# the user's cache folder with Maven, once, and prints the folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

pom=integration/servers/kafka/pom.xml
version="$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$pom")"
cache="${TIDEGATE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tidegate}"
# The name holds the pom's checksum: a changed pom brings its own jars.
libs="$cache/kafka-$version-$(cksum <"$pom" | cut -d' ' -f1)"

if [ ! -d "$libs" ]; then
  if ! command -v mvn >/dev/null; then
    echo "kafka-jars: Maven is needed once to fetch the broker; install it or set TIDEGATE_KAFKA_BROKERS" >&2
    exit 1
  fi
  mkdir -p "$cache"
  fresh="$(mktemp -d "$cache/kafka-incoming.XXXXXX")"
  trap 'rm -rf "$fresh"' EXIT
  chmod 755 "$fresh"
  mvn -B -q -f "$pom" dependency:copy-dependencies -DincludeScope=runtime "-DoutputDirectory=$fresh" >&2
  # Two callers may get here together; the rename of the second fails and changes nothing.
  mv -T "$fresh" "$libs" 2>/dev/null || mv "$fresh" "$libs" 2>/dev/null || [ -d "$libs" ]
fi
echo "$libs"
