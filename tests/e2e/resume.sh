#!/bin/sh
# A coordinator that is killed again and again in one campaign, and resumed: every trial is there,
# each once, with remote agents and with local ones. LS_E2E_LONG=1: twenty trials, killed four times.
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/agents.sh"
need node sha256sum

trials=6 kills=2
[ -z "${LS_E2E_LONG:-}" ] || { trials=20 kills=4; }

# has_begun FOLDER TRIAL: that trial is being measured, or was.
has_begun() {
    ls -d "$1/trials/$(printf '%03d' "$2")"-*
}

# campaign FOLDER [OPTION...]: begun, killed in the middle of a trial, resumed, and so on to the end.
campaign() {
    out=$1
    shift
    killed=0
    set -- plan.yaml --out "$out" --seed 7 "$@"
    while [ "$killed" -lt "$kills" ]; do
        killed=$((killed + 1))
        start run "$lockstep" run "$@"
        wait_until 60 has_begun "$out" $((killed * trials / (kills + 1)))
        kill -9 "$pid"
        wait "$pid" 2>/dev/null || :
        holds "$out/result.json" 'r.status === "incomplete" && r.exit_status === 3 && r.trials.length < '$trials
        set -- --resume "$out"
    done
    expect '0 4' "$lockstep" run --resume "$out" --json
    holds out "r.status === 'complete' && r.resumed === $kills && r.seed === 7 &&
        r.trials.map((t) => t.index).join() === Array.from({length: $trials}, (_, i) => i + 1).join() &&
        r.trials.every((t) => t.status === 'done') && r.hosts.length === 3"
    # The order is that of a run that nobody has killed.
    "$lockstep" check plan.yaml --seed 7 --json >planned.json
    same order "$(json planned.json 'r.trials.map((t) => t.target + t.repetition).join()')" \
        "$(json out 'r.trials.map((t) => t.target + t.repetition).join()')"
    (cd "$out" && sha256sum --quiet -c SHA256SUMS) || fail 'a file is not what SHA256SUMS says'
    same 'folders of trials' "$trials" "$(find "$out/trials" -mindepth 1 -maxdepth 1 | wc -l)"
    books_balance out
    counts_agree "$out" 'r.trials'
    # There is nothing left to do, and that is no harm.
    cp "$out/result.json" before.json
    expect '0 4' "$lockstep" run --resume "$out" --json
    cmp before.json "$out/result.json" || fail 'a result that is complete was changed'
}

fleet_plan $((trials / 2)) 300ms
# A second target of the same kind, so that there is an order.
sed -i "s/^workloads:/  - name: other\n    command: [\"$(printf '%s' "$agent" | sed 's|/|\\/|g')\", respond, --listen, \"{host}:{port}\", --die-with-parent]\n    port: $target\n    stop: {grace: 2s}\nworkloads:/; s/^schedule: {/schedule: {order: shuffled, /" plan.yaml
three_agents
campaign remote --listen "$url"
same 'agents that were begun' 3 "$(nothing_is_left | grep -c lockstep-agent)"
kill -TERM "$server" "$first" "$second"
wait_until 30 nothing_is_left
campaign local

# What cannot be resumed, or not so.
expect 2 "$lockstep" run --resume nowhere
expect 2 "$lockstep" run --resume local --seed 8
says err '--resume'
fleet_plan 1 300ms
rm -rf begun
cp -r local begun
sed -i 's/"trials_planned": [0-9]*/"trials_planned": 99/' begun/result.json
expect 2 "$lockstep" run plan.yaml --resume begun
end_agents
