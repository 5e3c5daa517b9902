# MariaDB on the mount `mnt` below the working directory. $1: make | load | commit | check; $DOUBLEWRITE: 0 or 1;
# $LOAD_SECONDS; $TABLE_ROWS (2000).
set -eu
room=$PWD; data=$room/mnt/db; socket=$room/run/s

start() {
    mariadbd --no-defaults --user=mysql --datadir="$data" --skip-networking --socket="$socket" \
        --pid-file="$room/run/pid" --innodb-doublewrite="$DOUBLEWRITE" --innodb-buffer-pool-size=32M \
        --innodb-log-file-size=16M --innodb-flush-log-at-trx-commit=1 > "$room/server.log" 2>&1 &
    server=$!
    for _ in $(seq 600); do
        mariadb-admin --no-defaults -uroot -S "$socket" ping > "$room/ping.log" 2>&1 && return
        kill -0 $server || break
        sleep 0.1
    done
    cat "$room/ping.log" "$room/server.log" >&2
    exit 1
}
stop() {
    mariadb-admin --no-defaults -uroot -S "$socket" shutdown
    wait $server
}
sql() { mariadb --no-defaults -uroot -S "$socket" --batch --skip-column-names "$@"; }
bench() {
    sysbench oltp_read_write --db-driver=mysql --mysql-socket="$socket" --mysql-user=root --mysql-db=bench --tables=2 \
        --table-size="${TABLE_ROWS:-2000}" --threads=4 --time="$LOAD_SECONDS" "$1"
}

case $1 in
make)
    mkdir -p run "$data"; chown mysql: run "$data"
    mariadb-install-db --no-defaults --user=mysql --datadir="$data" --skip-test-db --innodb-log-file-size=16M \
        --auth-root-authentication-method=normal > install.log 2>&1 || { cat install.log >&2; exit 1; }
    start; sql -e 'create database bench; create table bench.acked (n int primary key) engine=innodb'; stop ;;
load)
    start; bench prepare > prepare.log; bench run; stop ;;
commit) # Commits numbers, and prints each when it is durable, until it is killed.
    start
    trap 'kill -9 $server; wait' EXIT
    for n in $(seq "$2" 1000000); do echo "insert into acked values ($n); select $n;"; done | sql --unbuffered bench ;;
check) # Prints the greatest number.
    start
    mariadb-check --no-defaults -uroot -S "$socket" --extended --silent --databases bench mysql >&2
    sql bench -e 'select count(*) = coalesce(max(n), 0), coalesce(max(n), 0) from acked'
    stop ;;
esac
