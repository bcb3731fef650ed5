#!/bin/sh
# What streamckpt needs from the system, in one place, and a way to get it.
#
#   rocks/deps.sh [GROUP ...]     groups: build run test lint format; without one: build run test lint
#
# Looks for each thing itself (a header, a command, a Lua module), so what came by another way than
# apt counts too. What is missing is installed through apt-get where that is possible without a
# question (as root, or through sudo -n); else it is named with its Debian package, and the exit
# status is 1.
set -u
cc=${CC:-gcc} # may be several words, as in "ccache gcc"

list() {
  cat <<'LIST'
build  gcc             compiler C
build  libc6-dev       header stdlib.h
build  make            command make
build  lua5.4          command lua5.4
build  liblua5.4-dev   header lua.h
build  libmsgpack-dev  header msgpack.h
build  libxxhash-dev   header xxhash.h
run    lua-luv         module luv
test   lua-busted      module busted.runner
test   luarocks        command luarocks
lint   lua-check       command luacheck
lint   luarocks        command luarocks
format clang-format    command clang-format
LIST
}

# The compiler knows its folders best; without one, only Debian's own place is looked at.
has_header() {
  if command -v "${cc%% *}" >/dev/null 2>&1; then
    echo "#include <$1>" | $cc ${LUA_INCDIR:+-I"$LUA_INCDIR"} -I/usr/include/lua5.4 \
      -E -o /dev/null - 2>/dev/null
  else
    [ -e "/usr/include/$1" ]
  fi
}

is_there() {
  case $1 in
    compiler) command -v "${cc%% *}" >/dev/null 2>&1 ;;
    command) command -v "$2" >/dev/null 2>&1 ;;
    header) has_header "$2" ;;
    module) lua5.4 -e "assert(package.searchpath('$2', package.path)
                         or package.searchpath('$2', package.cpath))" >/dev/null 2>&1 ;;
  esac
}

# Prints "package<TAB>what" of everything in the groups that is not there.
missing() {
  list | while read -r group package kind name; do
    case " $groups " in
      *" $group "*) is_there "$kind" "$name" || printf '%s\t%s %s\n' "$package" "$kind" "$name" ;;
    esac
  done
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

can_install() {
  command -v apt-get >/dev/null 2>&1 || return 1
  [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null
}

install() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 update &&
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 install -y \
      --no-install-recommends "$@"
} </dev/null

groups=${*:-build run test lint}
gone=$(missing)
[ -z "$gone" ] && exit 0

packages=$(printf '%s\n' "$gone" | cut -f1 | sort -u | tr '\n' ' ')
if can_install; then
  echo "Installing what is missing: $packages"
  # shellcheck disable=SC2086 # the list is meant to become several words
  install $packages || echo "apt-get could not install all of: $packages" >&2
  gone=$(missing)
  [ -z "$gone" ] && exit 0
fi

{
  echo "streamckpt needs what this machine does not have:"
  printf '%s\n' "$gone" | while IFS="$(printf '\t')" read -r package what; do
    echo "  $what (Debian 12: the package $package)"
  done
  echo "On Debian 12, as root: apt-get install $packages"
} >&2
exit 1
