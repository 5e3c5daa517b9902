# PostgreSQL on the mount `mnt` below the working directory. $1: make | load | commit | check; $LOAD_SECONDS.
set -eu
room=$PWD; data=$room/mnt/pg
bin=$(dirname "$(ls /usr/lib/postgresql/*/bin/initdb | tail -1)")

owner="setpriv --reuid=postgres --regid=postgres --init-groups env HOME=$room/run LC_ALL=C PATH=$bin:$PATH"
start() {
    $owner "$bin/postgres" -D "$data" -k "$room/run" -c listen_addresses= -c shared_buffers=32MB > server.log 2>&1 &
    server=$!
    for _ in $(seq 600); do
        $owner "$bin/psql" -qAtX -h "$room/run" -c 'select 1' postgres > ping.log 2>&1 && return
        kill -0 $server || break
        sleep 0.1
    done
    cat ping.log server.log >&2
    exit 1
}
stop() {
    kill -INT $server
    wait $server
}
sql() { $owner "$bin/psql" -qAtX -v ON_ERROR_STOP=1 -h "$room/run" postgres "$@"; }

case $1 in
make)
    mkdir -p run "$data"; chown postgres: run "$data"
    $owner "$bin/initdb" --data-checksums -D "$data" > install.log 2>&1 || { cat install.log >&2; exit 1; }
    start; sql -c 'create table acked (n int primary key)'; stop ;;
load)
    start
    $owner "$bin/pgbench" -h "$room/run" -i -q postgres 2> prepare.log
    $owner "$bin/pgbench" -h "$room/run" -c 4 -T "$LOAD_SECONDS" postgres
    stop ;;
commit) # Commits numbers, and prints each when it is durable, until it is killed.
    start
    trap 'kill -9 $server; wait' EXIT
    for n in $(seq "$2" 1000000); do echo "insert into acked values ($n); select $n;"; done | sql ;;
check) # Prints the greatest number.
    start
    sql -c 'create extension if not exists amcheck'
    indexes="select bt_index_check(oid, true) from pg_class where relkind = 'i' and relam = 403"
    sql -c "select count(*) from ($indexes) c" >&2
    sql -c 'select (count(*) = coalesce(max(n), 0))::int, coalesce(max(n), 0) from acked' | tr '|' '\t'
    stop
    $owner "$bin/pg_checksums" --check -D "$data" >&2 ;;
esac
