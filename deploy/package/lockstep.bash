# Completion for lockstep and lockstep-agent. Commands and options are what the programs' own --help says,
# so that none is forgotten here and none stays that has gone.

# Prints the options of "$@ --help", one a line, those that take a value with a '=' behind.
_lockstep_options() {
    "$@" --help 2>/dev/null | sed -n 's/^ *\(-[a-zA-Z], *\)\{0,1\}\(--[a-z0-9-]*\) \([A-Za-z_|=]\{1,\}\).*/\2=/p
        t
        s/^ *\(-[a-zA-Z], *\)\{0,1\}\(--[a-z0-9-]*\).*/\2/p'
}

_lockstep() {
    local program=$1 word=$2 before=$3 call=("$1") options
    COMPREPLY=()
    case ${program##*/} in
    lockstep)
        if [ "$COMP_CWORD" -eq 1 ]; then
            mapfile -t COMPREPLY < <(compgen -W "$("$program" --help 2>/dev/null |
                sed -n 's/^  \([a-z]\{1,\}\) .*/\1/p') --help --version" -- "$word")
            return
        fi
        call+=("${COMP_WORDS[1]}")
        if [ "${COMP_WORDS[1]}" = pki ]; then
            if [ "$COMP_CWORD" -eq 2 ]; then
                mapfile -t COMPREPLY < <(compgen -W "init issue revoke show --help" -- "$word")
                return
            fi
            call+=("${COMP_WORDS[2]}")
        fi
        ;;
    *)
        if [ "${COMP_WORDS[1]}" = respond ] && [ "$COMP_CWORD" -gt 1 ]; then
            call+=(respond)
        fi
        ;;
    esac
    options=$(_lockstep_options "${call[@]}")
    case $before in
    --role) mapfile -t COMPREPLY < <(compgen -W 'client server' -- "$word") ;;
    --format) mapfile -t COMPREPLY < <(compgen -W 'text json csv markdown' -- "$word") ;;
    *)
        case $word in
        -*) mapfile -t COMPREPLY < <(compgen -W "${options//=/}" -- "$word") ;;
        *) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
        esac
        ;;
    esac
}

complete -o filenames -F _lockstep lockstep lockstep-agent
