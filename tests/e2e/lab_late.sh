#!/bin/sh
# Connections are opened shortly before the start, however long the agents wait for it: a server that
# hangs up on idle ones after a second sees none hung up on.
. "$(dirname -- "$0")/lib.sh"
need node nginx

port=$(free_port)
cat >nginx.conf <<NGINX
daemon off;
pid nginx.pid;
error_log stderr;
events { worker_connections 256; }
http {
    access_log off;
    client_header_timeout 1s;
    keepalive_timeout 1s;
    client_body_temp_path b;
    proxy_temp_path p;
    fastcgi_temp_path f;
    uwsgi_temp_path u;
    scgi_temp_path s;
    server { listen 127.0.0.1:$port; location / { return 200 "here"; } }
}
NGINX
{
    plan_head late 2
    cat <<PLAN
targets:
  - name: nginx
    files: [nginx.conf]
    command: [nginx, -p, "{dir}", -c, nginx.conf, -e, stderr]
    port: $port
workloads:
  - name: w
    http: {requests: [{path: /, expect: {body: here}}]}
    connections: 20
    load: {constant: {rate: 400/s}}
    warmup: 0s
    measure: 500ms
schedule: {repetitions: 1}
PLAN
} | sed 's/allow_overlap: true}/&, max_start_skew: 10s, start_lead: 3s/' >plan.yaml
expect '0 4' "$lockstep" run plan.yaml --json --out result
books_balance out
holds out '(t => t.requests.ok === 200 && t.connections.failed === 0)(r.trials[0])'
# A machine that stood still for most of a second may have let one idle.
holds out '(t => t.connections.opened === 20 || t.clients.some((c) => c.cpu.stalled > 0))(r.trials[0])'
nothing_left
