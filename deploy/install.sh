#!/bin/sh
# Installs what a group of deploy/packages.txt needs and is not there yet.
#
#   sh deploy/install.sh [--list] GROUP...
#
# As root, or through sudo. With nothing missing it asks no package source and changes nothing.
# --list only prints the names of all packages of the groups.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
list=$here/packages.txt
guard=/usr/sbin/policy-rc.d
guard_mark='made by lockstep deploy/install.sh'

die() {
    printf 'install: %s\n' "$*" >&2
    exit 1
}

# Prints "package options" of every line of the list that belongs to one of the groups.
wanted() {
    awk -v groups="$*" '
        BEGIN { n = split(groups, want, " ") }
        /^[[:space:]]*(#|$)/ { next }
        {
            m = split($2, has, ",")
            for (i = 1; i <= n; i++)
                for (j = 1; j <= m; j++)
                    if (want[i] == has[j]) {
                        options = ""
                        for (k = 3; k <= NF; k++) options = options " " $k
                        print $1 options
                        next
                    }
        }' "$list"
}

# The value of option $1 among the rest, or nothing.
option() {
    name=$1
    shift
    for word in "$@"; do
        case $word in
        "$name":*) printf '%s' "${word#*:}" ;;
        esac
    done
}

# Of the lines on stdin, those whose package is not installed and not excused by unless:COMMAND.
missing() {
    while read -r package options; do
        # shellcheck disable=SC2086 # options are words
        command=$(option unless $options)
        [ -n "$command" ] && command -v "$command" >/dev/null 2>&1 && continue
        case "$installed" in
        *" $package "*) ;;
        *) printf '%s %s\n' "$package" "$options" ;;
        esac
    done
}

# Debian's packages start their services and enable them for the next boot; a load tester that
# leaves a web server on port 80 behind would be a nuisance. policy-rc.d is Debian's own way to
# forbid the start. A guard that somebody else put there stays as it is.
guard_up() {
    if [ ! -e "$guard" ] || grep -q "$guard_mark" "$guard"; then
        printf '#!/bin/sh\n# %s: it is removed when the installation ends\nexit 101\n' \
            "$guard_mark" >"$guard"
        chmod 755 "$guard"
    fi
}

clean_up() {
    rm -f "$log"
    if [ -e "$guard" ] && grep -q "$guard_mark" "$guard"; then
        rm -f "$guard"
    fi
}

only_list=no
if [ "${1:-}" = --list ]; then
    only_list=yes
    shift
fi
[ $# -gt 0 ] || die "say for what: sh deploy/install.sh build run test ci (see deploy/packages.txt)"
for group in "$@"; do
    [ -n "$(wanted "$group")" ] || die "deploy/packages.txt knows no group '$group'"
done
all=$(wanted "$@")
if [ "$only_list" = yes ]; then
    printf '%s\n' "$all" | awk '{ print $1 }'
    exit 0
fi

names=$(printf '%s\n' "$all" | awk '{ printf "%s ", $1 }')
for tool in dpkg-query apt-get; do
    command -v "$tool" >/dev/null 2>&1 ||
        die "this is not a Debian system: install what these packages of Debian 12 hold: $names"
done
# shellcheck disable=SC2086 # names are words; unknown ones are exactly what is missing
installed=" $(dpkg-query -W -f '${Package} ${db:Status-Status}\n' $names 2>/dev/null |
    awk '$2 == "installed" { printf "%s ", $1 }')"
missing=$(printf '%s\n' "$all" | missing)
if [ -z "$missing" ]; then
    printf 'install: nothing to do for %s\n' "$*"
    exit 0
fi
names=$(printf '%s\n' "$missing" | awk '{ printf "%s ", $1 }')

if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 ||
        die "no sudo here; as root run: apt-get install --no-install-recommends $names"
    printf 'install: %swith sudo\n' "$names"
    exec sudo sh "$here/install.sh" "$@"
fi

printf 'install: %s\n' "$names"
DEBIAN_FRONTEND=noninteractive
export DEBIAN_FRONTEND
log=$(mktemp)
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
# Of an old package list the files may be gone from the archive: refresh it first. A source of
# somebody else that does not answer need not keep ours from being installed.
apt-get -qq -o DPkg::Lock::Timeout=300 update </dev/null >"$log" 2>&1 ||
    printf 'install: not every package source answered, going on\n' >&2
guard_up
# shellcheck disable=SC2086 # names are words
apt-get -qq -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 --no-install-recommends \
    install $names </dev/null >>"$log" 2>&1 || {
    cat "$log" >&2
    die "apt-get could not install: $names- its message above says why"
}

printf '%s\n' "$missing" | while read -r package options; do
    # shellcheck disable=SC2086 # options are words
    service=$(option service $options)
    if [ -n "$service" ]; then
        # Also what systemd would start at the next boot. Not fatal: it does not run now.
        update-rc.d "$service" disable >/dev/null 2>&1 ||
            printf 'install: could not disable the service of %s\n' "$package" >&2
    fi
done
