# shellcheck shell=bash
# shellcheck disable=SC2154 # scripts/postgres sets the other variables
#
# PostgreSQL from Debian's packages in a separate folder with its data, run with chroot. Needs root.
# Sourced by scripts/postgres.

root=$folder/root
home=/var/lib/postgresql # The home folder of the server's user, as seen inside the root.
data=$root$home/$server
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# setpriv runs inside the root, because the user's ID may differ there.
in_root() {
  chroot "$root" env HOME="$home" LC_ALL=C.UTF-8 PATH=/usr/lib/postgresql/17/bin:/usr/bin:/bin \
    setpriv --reuid=postgres --regid=postgres --init-groups "$@"
}

# apt-get update comes first, because a fresh container image has no package lists.
install_debootstrap() {
  command -v apt-get >/dev/null || fail "$unsupported"
  if command -v debootstrap >/dev/null && [[ -r $keyring && -n $(debian_mirror) ]]; then return; fi
  say 'installing debootstrap with apt-get'
  export DEBIAN_FRONTEND=noninteractive
  if ! { apt-get update && apt-get --option DPkg::Lock::Timeout=120 install --yes \
    --no-install-recommends debootstrap debian-archive-keyring; } >"$folder/apt.log" 2>&1; then
    tail -n 5 "$folder/apt.log" >&2
    fail "apt-get could not install debootstrap and debian-archive-keyring; see $folder/apt.log"
  fi
  [[ -n $(debian_mirror) ]] || fail "$unsupported"
}

# Builds in a temporary folder and renames it at the end, so that the final folder is complete.
install_packages() {
  [[ -d $root ]] && return
  install_debootstrap
  local building=$root.new isolated=() proxy=
  # debootstrap mounts /proc and /sys in the new root. A mount namespace unmounts them when it ends.
  if unshare --mount true 2>/dev/null; then isolated=(unshare --mount); fi
  eval "$(apt-config shell proxy Acquire::http::Proxy)"
  if [[ -n $proxy ]]; then export http_proxy=$proxy; fi

  rm -rf --one-file-system "$building"
  say "installing PostgreSQL 17 with pgvector from Debian in $root (about 600 MB, once)"
  if ! "${isolated[@]}" debootstrap --variant=minbase --include=postgresql-17-pgvector \
    --keyring="$keyring" trixie "$building" "$(debian_mirror)" >"$folder/debootstrap.log" 2>&1; then
    tail -n 5 "$folder/debootstrap.log" >&2
    fail "debootstrap failed; see $folder/debootstrap.log"
  fi
  chroot "$building" sh -c "$trust_vector"
  # Removes the downloaded archives and package lists, and the unused server that Debian prepares.
  rm -rf "$building"/var/{cache/apt/archives,lib/apt/lists}/* \
    "$building/var/lib/postgresql/17" "$building/etc/postgresql/17"
  mv "$building" "$root"
}

# The socket needs no password: it is in the data folder, so users who can reach it can read the data anyway.
create_data() {
  [[ -d $data ]] && return
  rm -rf "$data.new"
  in_root initdb --pgdata="$home/$server.new" "${initdb_options[@]}" \
    --auth-local=trust --auth-host=scram-sha-256 >/dev/null
  mv "$data.new" "$data"
}

debian_memory_mb() { awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo; }

# Checks that a process runs postgres in the data folder, because its ID may have been reused since a file named it.
is_ours() { [[ /proc/$1/cwd -ef $data && $(cat "/proc/$1/comm" 2>/dev/null) == postgres ]]; }

any_process() {
  local process
  for process in /proc/[0-9]*; do
    if is_ours "${process#/proc/}"; then return; fi
  done
  return 1
}

# Waits for the children of a killed server, which prevent a start. Then removes the lock files,
# which PostgreSQL would consider valid if another process of the user has the process ID.
clear_leftovers() {
  local deadline=$((SECONDS + 10))
  while any_process; do
    ((SECONDS < deadline)) || fail "processes of a killed server still use $data; end them and try again"
    sleep 0.1
  done
  rm -f "$data/postmaster.pid" "$data"/.s.PGSQL.*.lock
}

# Closes the lock and the pipes of the caller, which the server would keep open.
close_inherited_files() {
  local file
  for file in /proc/self/fd/*; do
    file=${file##*/}
    if ((file > 2)); then eval "exec $file>&-"; fi
  done
}

debian_start() {
  install_packages
  create_data
  clear_leftovers
  # Keeps only the log of the last start.
  rm -f "$root$home/$server.log"
  # pg_ctl detaches the server from this shell. wait_until_ready handles a failed or slow start.
  (
    close_inherited_files
    in_root pg_ctl start --wait --timeout=5 --pgdata="$home/$server" --log="$home/$server.log" \
      --options="-p $1 -c listen_addresses=127.0.0.1 -c unix_socket_directories=$home/$server \
        ${server_settings[*]}" </dev/null >/dev/null 2>&1
  ) || true
}

# Prints the port from the server's process file; fails if the server does not run.
debian_port() {
  local lines
  [[ -f $data/postmaster.pid ]] || return 1
  mapfile -t lines <"$data/postmaster.pid"
  is_ours "${lines[0]:-0}" && [[ -n ${lines[3]:-} ]] && printf '%s\n' "${lines[3]}"
}

debian_psql() {
  in_root psql --host="$home/$server" --port="$(debian_port)" --username="$1" --dbname="$2" "${@:3}"
}

debian_stop() {
  in_root pg_ctl stop --mode=fast --wait --timeout=60 --pgdata="$home/$server" >/dev/null
}

# pg_ctl restarts the server with the options of its last start.
debian_restart() {
  (
    close_inherited_files
    in_root pg_ctl restart --mode="$1" --wait --timeout=60 --pgdata="$home/$server" \
      --log="$home/$server.log" </dev/null >/dev/null
  )
}

debian_log() { tail -n 20 "$root$home/$server.log"; }

debian_remove_data() { rm -rf "$data" "$data.new" "$root$home/$server.log"; }
