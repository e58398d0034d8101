#!/bin/sh
# A target for tests: nginx in the foreground; when it is told to end, by USR1, it prints how many
# requests nginx itself has counted, less the one that asks. USR1, because every process of a target
# gets the signal, and to nginx that one only means to open its log again.
#
#   counting_nginx.sh FOLDER PORT HARNESS
#
# The counter is served on the next port but one, from a server of its own.
set -eu
folder=$1
port=$2
harness=$3
cat >"$folder/nginx.conf" <<CONF
daemon off;
worker_processes 1;
pid nginx.pid;
error_log stderr;
events { worker_connections 1024; }
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    keepalive_requests 1000000000;
    server {
        listen 127.0.0.1:$port;
        location / { default_type text/plain; return 200 "Hello, World!"; }
    }
    server {
        listen 127.0.0.1:$((port + 2));
        location / { stub_status; }
    }
}
CONF

# "server accepts handled requests" and, in the next line, three numbers.
told_to_end() {
    "$harness" get $((port + 2)) / | awk 'NR == 3 { printf "nginx counted %d\n", $3 - 1 }'
    kill -QUIT "$nginx"
    wait "$nginx" || :
    exit 0
}
trap told_to_end USR1

nginx -p "$folder" -c "$folder/nginx.conf" &
nginx=$!
# A signal ends the wait, and the trap runs.
wait "$nginx"
