# shellcheck shell=bash
# shellcheck disable=SC2154 # scripts/postgres sets the variables that nothing here sets
#
# PostgreSQL in a Docker container, with its data in a volume. Read by scripts/postgres.

# One folder is one server, so the name of the container and of its volume follows the folder.
container=oselya-postgres-17-$(printf %s "$folder" | cksum | cut -d ' ' -f 1)
if [[ $server != oselya ]]; then container=$container-$server; fi

# Of the machine on which containers run, which need not be this one.
docker_memory_mb() { echo $(($(docker info --format '{{.MemTotal}}') / 1048576)); }

docker_start() {
  # A stopped container keeps its old port, so a new one is made; the data are in the volume.
  docker rm "$container" >/dev/null 2>&1 || true
  # The image insists on a password for the superuser, who signs in from inside without it.
  POSTGRES_PASSWORD=$(random_password) POSTGRES_INITDB_ARGS="${initdb_options[*]}" \
    docker run --detach --name "$container" --publish "127.0.0.1:$1:5432" \
    --volume "$container:/var/lib/postgresql/data" \
    --env POSTGRES_PASSWORD --env POSTGRES_INITDB_ARGS \
    pgvector/pgvector:pg17 postgres "${server_settings[@]}" >/dev/null
  # Should the container have died already, wait_until_ready shows its log.
  docker exec "$container" sh -c "$trust_vector" || true
}

# Prints the port on this machine; fails when the container does not run.
docker_port() {
  local address
  address=$(docker port "$container" 5432/tcp 2>/dev/null) && [[ -n $address ]] || return 1
  printf '%s\n' "${address##*:}"
}

docker_psql() {
  local terminal=--interactive
  [[ -t 0 && -t 1 ]] && terminal=-it
  # During its first start the image runs a server that only listens on a socket; over TCP the
  # final one answers.
  docker exec "$terminal" "$container" psql --host=127.0.0.1 --username="$1" --dbname="$2" "${@:3}"
}

docker_stop() { docker stop -t 60 "$container" >/dev/null; }

# The server takes SIGINT for a fast end and SIGQUIT for an immediate one, as from pg_ctl.
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
