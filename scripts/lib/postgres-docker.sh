# shellcheck shell=bash
# shellcheck disable=SC2154 # scripts/postgres sets the other variables
#
# PostgreSQL in a Docker container, with its data in a volume. Sourced by scripts/postgres.

# The names of the container and of its volume depend on the folder, so that each folder has separate data.
container=oselya-postgres-17-$(printf %s "$folder" | cksum | cut -d ' ' -f 1)
if [[ $server != oselya ]]; then container=$container-$server; fi

# Prints the total memory of the machine that runs the containers, in MiB.
docker_memory_mb() { echo $(($(docker info --format '{{.MemTotal}}') / 1048576)); }

docker_start() {
  # A stopped container keeps its old port, so a new container is created. The data are in the volume.
  docker rm "$container" >/dev/null 2>&1 || true
  # The image requires a password for the superuser, who signs in from inside the container without it.
  POSTGRES_PASSWORD=$(random_password) POSTGRES_INITDB_ARGS="${initdb_options[*]}" \
    docker run --detach --name "$container" --publish "127.0.0.1:$1:5432" \
    --volume "$container:/var/lib/postgresql/data" \
    --env POSTGRES_PASSWORD --env POSTGRES_INITDB_ARGS \
    pgvector/pgvector:pg17 postgres "${server_settings[@]}" >/dev/null
  # If the container has already stopped, wait_until_ready prints its log.
  docker exec "$container" sh -c "$trust_vector" || true
}

# Prints the port on this machine; fails if the container does not run.
docker_port() {
  local address
  address=$(docker port "$container" 5432/tcp 2>/dev/null) && [[ -n $address ]] || return 1
  printf '%s\n' "${address##*:}"
}

docker_psql() {
  local terminal=--interactive
  [[ -t 0 && -t 1 ]] && terminal=-it
  # During its first start, the image runs a temporary server that listens only on a socket; TCP
  # reaches the final server.
  docker exec "$terminal" "$container" psql --host=127.0.0.1 --username="$1" --dbname="$2" "${@:3}"
}

docker_stop() { docker stop -t 60 "$container" >/dev/null; }

# SIGINT requests a fast shutdown and SIGQUIT an immediate one, as with pg_ctl.
docker_restart() {
  local signal=INT
  if [[ $1 == immediate ]]; then signal=QUIT; fi
  docker kill --signal "$signal" "$container" >/dev/null
  docker wait "$container" >/dev/null
  docker start "$container" >/dev/null
}

docker_log() { docker logs --tail 20 "$container" 2>&1; }

docker_remove_data() {
  docker rm --force "$container" >/dev/null 2>&1 || true
  docker volume rm --force "$container" >/dev/null
}
