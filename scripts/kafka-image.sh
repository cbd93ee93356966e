#!/usr/bin/env bash
# Makes sure that the Docker engine has the image apache/kafka of the pinned version:
# present, else pulled, else built here from the broker's jars and a jlink runtime.
# The local image understands the same KAFKA_* variables and keeps the same start
# command as the published one, so tests do not know which they run on.
#
#   kafka-image.sh           make sure it is there
#   kafka-image.sh --build   build it here even if it is there
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version="$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' integration/servers/kafka/pom.xml)"
image="apache/kafka:$version"

if [ "${1:-}" != "--build" ]; then
  if docker image inspect "$image" >/dev/null 2>&1; then
    echo "kafka-image: $image is present"
    exit 0
  fi
  if timeout 300 docker pull -q "$image" >/dev/null 2>&1; then
    echo "kafka-image: $image pulled"
    exit 0
  fi
  echo "kafka-image: $image cannot be pulled; building it here"
fi

for tool in java jlink ldd; do
  if ! command -v "$tool" >/dev/null; then
    echo "kafka-image: building $image needs $tool (a JDK 17 or newer on Linux)" >&2
    exit 1
  fi
done

libs="$(scripts/kafka-jars.sh)"
root="$(mktemp -d)"
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,usr/bin,tmp,etc/kafka/docker,mnt/shared/config,opt/kafka/libs,opt/kafka/config,var/lib/kafka/data}
chmod 1777 "$root/tmp"

jlink --output "$root/opt/java" --no-header-files --no-man-pages --strip-java-debug-attributes \
  --add-modules java.base,java.desktop,java.logging,java.management,java.naming,java.rmi,java.security.jgss,java.security.sasl,java.sql,java.xml,jdk.crypto.ec,jdk.jfr,jdk.management,jdk.management.agent,jdk.net,jdk.security.auth,jdk.security.jgss,jdk.unsupported,jdk.zipfs
cp "$libs"/*.jar "$root/opt/kafka/libs/"
cp "$(command -v bash)" "$root/bin/bash"
ln -s bash "$root/bin/sh"

# The C libraries that the runtime and bash load. Native parts of jars (zstd, snappy)
# name libraries that glibc has since merged into libc: their stubs must be there.
needed_libraries() {
  local binary
  for binary in "$root/bin/bash" "$root/opt/java/bin/java" "$root"/opt/java/lib/*.so "$root"/opt/java/lib/server/libjvm.so; do
    ldd "$binary" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// {print $3} $1 ~ /^\// {print $1}'
  done
  local near name
  near="$(dirname "$(ldd "$root/bin/bash" | awk '$1 == "libc.so.6" {print $3}')")"
  for name in libpthread.so.0 libdl.so.2 librt.so.1 libm.so.6 libgcc_s.so.1; do
    [ ! -e "$near/$name" ] || echo "$near/$name"
  done
}
needed_libraries | sort -u | while read -r library; do
  case "$library" in "$root"/*) continue ;; esac
  mkdir -p "$root$(dirname "$library")"
  cp -L "$library" "$root$library"
done

cat >"$root/etc/kafka/docker/run" <<'RUN'
#!/bin/bash
# The wrapper turns KAFKA_* variables into properties and formats a new data folder.
set -e
export CLUSTER_ID="${CLUSTER_ID:-tidegate-test-cluster0}"
java=/opt/java/bin/java
# After a restart the folder is formatted already, which the wrapper takes for a failure.
setup="$($java -Xmx128m -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp '/opt/kafka/libs/*' \
  kafka.docker.KafkaDockerWrapper setup --default-configs-dir /etc/kafka/docker \
  --mounted-configs-dir /mnt/shared/config --final-configs-dir /opt/kafka/config 2>&1)" ||
  case "$setup" in
    *"already formatted"*) ;;
    *) echo "$setup" >&2; exit 1 ;;
  esac
exec $java ${KAFKA_HEAP_OPTS:--Xmx1g} -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:+ExitOnOutOfMemoryError \
  -cp '/opt/kafka/libs/*' kafka.Kafka /opt/kafka/config/server.properties
RUN
chmod 755 "$root/etc/kafka/docker/run"
cat >"$root/etc/kafka/docker/server.properties" <<'PROPERTIES'
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
advertised.listeners=PLAINTEXT://localhost:9092
controller.listener.names=CONTROLLER
controller.quorum.voters=1@localhost:9093
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=/tmp/kraft-combined-logs
PROPERTIES
cat >"$root/etc/kafka/docker/log4j2.yaml" <<'LOG4J'
Configuration:
  Appenders:
    Console:
      name: STDOUT
      PatternLayout:
        pattern: "[%d] %p %m (%c)%n"
  Loggers:
    Root:
      level: INFO
      AppenderRef:
        - ref: STDOUT
LOG4J
cp "$root/etc/kafka/docker/log4j2.yaml" "$root/etc/kafka/docker/tools-log4j2.yaml"

tar -C "$root" -c . | docker import \
  --change 'ENV PATH=/opt/java/bin:/bin:/usr/bin' \
  --change 'ENV JAVA_HOME=/opt/java' \
  --change 'EXPOSE 9092' \
  --change 'CMD ["/etc/kafka/docker/run"]' \
  --message 'tidegate test broker' - "$image" >/dev/null
echo "kafka-image: $image built, $(docker image inspect --format '{{.Size}}' "$image" | awk '{printf "%d MB", $1 / 1e6}')"
