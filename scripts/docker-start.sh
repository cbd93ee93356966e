#!/usr/bin/env bash
# Starts a Docker engine of its own for a CI run, and stops it:
#
#   docker-start.sh start DIR   everything of the engine lives in DIR; DIR/env sets DOCKER_HOST
#   docker-start.sh stop DIR    ends it and unmounts what it left
#
# An engine that already answers is used as it is and never stopped. As root and with
# apt-get, missing packages are installed: only CI is meant to run this.
set -euo pipefail

usage() { echo "usage: docker-start.sh start|stop DIR" >&2; exit 2; }
[ $# -eq 2 ] || usage
verb="$1" dir="$2"

install_engine() {
  local missing=()
  command -v dockerd >/dev/null || missing+=(docker.io)
  command -v iptables >/dev/null || missing+=(iptables)
  if [ "${#missing[@]}" -gt 0 ]; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
  fi
  # Newer Debian releases ship the client in a package of its own.
  command -v docker >/dev/null ||
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker-cli >&2
}

start() {
  mkdir -p "$dir"
  if command -v docker >/dev/null && timeout 10 docker version >/dev/null 2>&1; then
    echo "docker-start: an engine answers already" >&2
    : >"$dir/env"
    return
  fi
  install_engine
  # Ports are published on loopback only, also where a test names no address.
  nohup dockerd --ip 127.0.0.1 --host "unix://$dir/docker.sock" \
    --data-root "$dir/data" --exec-root "$dir/exec" --pidfile "$dir/dockerd.pid" \
    >"$dir/dockerd.log" 2>&1 </dev/null &
  local engine=$! waited=0
  echo "$engine" >"$dir/started.pid"
  until timeout 5 docker --host "unix://$dir/docker.sock" version >/dev/null 2>&1; do
    waited=$((waited + 1))
    if ! kill -0 "$engine" 2>/dev/null || [ "$waited" -gt 120 ]; then
      echo "docker-start: the engine did not come up:" >&2
      tail -n 30 "$dir/dockerd.log" >&2
      exit 1
    fi
    sleep 0.5
  done
  echo "export DOCKER_HOST=unix://$dir/docker.sock" >"$dir/env"
  echo "docker-start: engine $(docker --host "unix://$dir/docker.sock" version --format '{{.Server.Version}}') is up" >&2
}

stop() {
  [ -f "$dir/started.pid" ] || return 0
  local engine waited=0
  engine="$(cat "$dir/started.pid")"
  if kill -TERM "$engine" 2>/dev/null; then
    while kill -0 "$engine" 2>/dev/null && [ "$waited" -lt 60 ]; do
      waited=$((waited + 1))
      sleep 0.5
    done
    kill -KILL "$engine" 2>/dev/null || true
  fi
  # Layers and namespaces of containers that were still there stay mounted otherwise.
  awk -v under="$dir/" 'index($2, under) == 1 {print $2}' /proc/mounts | sort -r |
    while read -r mount; do umount -l "$mount" || true; done
  rm -rf "$dir"
}

case "$verb" in
  start) start ;;
  stop) stop ;;
  *) usage ;;
esac
