#!/bin/sh
# A wall clock that is off: whoever asks for agents is told whose, and whoever begins a run is before any load. What is
# measured does not depend on it.
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/agents.sh"
need node

cat >late-agent <<LATE
#!/bin/sh
LS_WALL_SHIFT=-50 LD_PRELOAD=$LS_BUILD/tests/support/libls_step_clock.so exec "$agent" "\$@"
LATE
chmod 755 late-agent
start late ./late-agent --dial "$url" --name c1 --role client --policy policy.yaml
first=$pid
start server "$agent" --dial "$url" --name s1 --role server --policy policy.yaml
server=$pid
expect 0 "$lockstep" agents --listen "$url" --expect 2 --wait 60s
grep -q '^c1: its wall clock is 50.0 s .* behind the coordinator.s: .*NTP' out || fail "no word of c1's wall clock: $(cat out)"
! grep -q '^s1: its wall clock' out || fail "the wall clock of s1 is right: $(cat out)"
fleet_plan 1 300ms
sed 's/clients: 2/clients: 1/' plan.yaml >one.yaml
expect '0 4' "$lockstep" run one.yaml --listen "$url" --wait 60s --out late-result --json
sed '/ measure /q' err | grep -q 'c1: its wall clock is 50.0 s' || fail "not said before the load: $(cat err)"
holds out 'Math.round(r.hosts.find((h) => h.agent === "c1").clock.wall_offset_ns / 1e9) === -50 && r.trials[0].status === "done"'
expect 0 "$lockstep" report late-result
says out 'c1: its wall clock is 50.0 s'
end_agents "$server" "$first"
nothing_left
