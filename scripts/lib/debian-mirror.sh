# shellcheck shell=bash
#
# Sourced by the scripts that run a server from Debian's packages.

# Prints the Debian mirror that apt uses on this machine, or nothing.
debian_mirror() {
  local uri
  # shellcheck disable=SC2016 # apt-get expands these names itself
  uri=$(apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 2>/dev/null |
    awk -F '|' '$1 == "Debian" && $2 == "Debian" && !found++ { print $3 }')
  # Cloud images use a file with a list of mirrors; debootstrap needs one mirror.
  if [[ $uri == mirror+file:* ]]; then
    uri=${uri#mirror+file:}
    uri=$(awk '/^[a-z]+:/ && !found++ { print $1 }' "${uri%/}")
  fi
  printf '%s\n' "$uri"
}
