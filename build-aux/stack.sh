# shellcheck shell=bash
# The processes and files of one Waybill in one folder: what ./run is made of.
# SPDX-License-Identifier: Apache-2.0
#
# Reads $root, $var, $port, $admin_port, $workers, $job_workers and $programs,
# which ./run has checked. In that order:
#
#	stack_files    makes folders, secrets, certificates and configuration
#	stack_start    starts all of it and waits until it is ready
#	stack_ready, stack_pid, stack_ports, stack_ctl, demo_command
#	stack_stop     stops all of it, also what a killed supervisord left
#
# stack_start leaves by `exit 1` after a sentence; its caller cleans up.
supervisord=
: "${root:?}" "${var:?}" "${port:?}" "${admin_port:?}" "${workers:?}" \
	"${job_workers:?}"

say()
{
	printf 'run: %s\n' "$*" >&2
}

die()
{
	say "$*"
	exit 1
}

# A socket's path may be 107 bytes; supervisord's first name for its own has a
# pid behind it. Deep folders get theirs in /tmp, in a folder only we can enter.
sockets()
{
	local sum
	if [ "$(printf %s "$var" | wc -c)" -le 80 ]; then
		echo "$var/run"
		return
	fi
	sum=$(printf %s "$var" | sha256sum | cut -c1-16)
	echo "/tmp/waybill-$(id -u)-$sum"
}

check_owner()
{
	local thing
	for thing in "$var/secret" "$var/db/data"; do
		if [ -e "$thing" ] && [ ! -O "$thing" ]; then
			die "$thing belongs to $(stat -c %U "$thing") and not" \
				"to $(id -un): run as that user, or set" \
				"WAYBILL_VAR to another folder"
		fi
	done
}

check_port() # NAME PORT
{
	local said
	said=$(/usr/bin/python3 - "$2" 2>&1 <<-'END'
	import errno, socket, sys
	s = socket.socket()
	s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
	try:
	    s.bind(("127.0.0.1", int(sys.argv[1])))
	    s.listen(1)
	except OSError as e:
	    words = {errno.EADDRINUSE: "is in use by another program",
	             errno.EACCES: "needs root (it is below 1024)"}
	    sys.exit(words.get(e.errno, "cannot be had: " + e.strerror))
	END
	) || die "port $2 $said: set $1 to a free port"
}

random_file() # FILE BYTES
{
	[ -s "$1" ] && return
	openssl rand -hex "$2" | tr -d '\n' >"$1.new"
	mv "$1.new" "$1"
}

# A CA of this folder and a server certificate signed by it, remade a month
# before either ends.
certificates()
{
	local month=$((30 * 86400)) tls=$var/tls
	local new=(-newkey ec -pkeyopt 'ec_paramgen_curve:prime256v1' -nodes)
	if ! openssl x509 -in "$tls/ca.pem" -checkend $month -noout ||
		[ ! -s "$tls/ca.key" ]; then
		openssl req -x509 "${new[@]}" -days 3650 \
			-subj "/CN=Waybill CA of $(hostname | cut -c1-40)" \
			-addext 'keyUsage=critical,keyCertSign,cRLSign' \
			-keyout "$tls/ca.key" -out "$tls/ca.pem" &&
			rm -f "$tls/server.pem"
	fi
	openssl x509 -in "$tls/server.pem" -checkend $month -noout &&
		[ -s "$tls/server.key" ] && return
	openssl req "${new[@]}" -subj /CN=localhost \
		-addext 'subjectAltName=DNS:localhost,IP:127.0.0.1' \
		-addext 'basicConstraints=critical,CA:FALSE' \
		-addext 'keyUsage=critical,digitalSignature' \
		-addext 'extendedKeyUsage=serverAuth' \
		-keyout "$tls/server.key" -out "$tls/server.csr" &&
		openssl x509 -req -in "$tls/server.csr" -days 800 \
			-copy_extensions copy -CA "$tls/ca.pem" \
			-CAkey "$tls/ca.key" -CAcreateserial \
			-out "$tls/server.pem"
}

# The last line that sets a key is the one that holds.
setting() # KEY
{
	sed -n "s/^[[:space:]]*$1[[:space:]]*=[[:space:]]*//p" \
		"$var/waybill.conf" | sed -n '$s/[[:space:]]*$//p'
}

own_database()
{
	! grep -qs '^[[:space:]]*db_\(socket\|host\)[[:space:]]*=' \
		"$var/local.conf"
}

waybill_conf()
{
	echo "# Made by ./run at every start; your own settings go to local.conf."
	if own_database; then
		echo "db_socket = $run/db.sock"
		echo "db_password_file = $var/secret/db_service"
		echo "db_owner_password_file = $var/secret/db_owner"
	fi
	echo "workers = $workers"
	echo "key_pepper_file = $var/secret/key_pepper"
	echo "metrics_file = $run/metrics"
	echo "inflight_file = $run/inflight"
	echo "limit_file = $run/limit"
	if [ -e "$var/local.conf" ]; then
		echo "# From local.conf:"
		cat "$var/local.conf"
	fi
}

# test.env holds NAME=value lines for the programs; only the tests make one.
test_env()
{
	local line
	[ -e "$var/test.env" ] || return 0
	while read -r line; do
		[ -n "$line" ] || continue
		printf '%s="%s",' "${line%%=*}" "${line#*=}"
	done <"$var/test.env" | sed 's/%/%%/g; s/,$//'
}

fill() # TEMPLATE FILE
{
	local text as_root='' db_user=''
	[ "$(id -u)" != 0 ] || db_user=--user=root
	case $1 in
	*nginx*) [ -z "$db_user" ] || as_root='user root;' ;;
	*) [ -z "$db_user" ] || as_root='user=root' ;;
	esac
	text=$(cat "$root/$1"; echo .)
	text=${text%.}
	text=${text//@MARIADB@/"$mariadb_section"}
	text=${text//@AS_ROOT@/"$as_root"}
	text=${text//@DB_USER@/"$db_user"}
	text=${text//@TEST_ENV@/"$(test_env)"}
	text=${text//@ROOT@/"$root"}
	text=${text//@VAR@/"$var"}
	text=${text//@RUN@/"$run"}
	text=${text//@BIN@/"$programs"}
	text=${text//@JOB_WORKERS@/"$job_workers"}
	text=${text//@PORT@/"$port"}
	text=${text//@ADMIN_PORT@/"$admin_port"}
	printf %s "$text" >"$2"
}

stack_files()
{
	run=$(sockets)
	chmod 700 "$var"
	if ! mkdir -p "$var"/{db/tmp,log,tls,tmp,secret} "$run" ||
		! chmod 700 "$run" "$var"/{db,log,tls,tmp,secret}; then
		die "the folders in $var and $run cannot be made:" \
			"see that they are yours and that the disk is not full"
	fi
	random_file "$var/secret/db_owner" 24
	random_file "$var/secret/db_service" 24
	random_file "$var/secret/key_pepper" 32
	certificates >"$var/log/openssl.log" 2>&1 ||
		die "openssl made no certificate; see $var/log/openssl.log"
	waybill_conf >"$var/waybill.conf"
	echo "$port $admin_port" >"$run/ports"
	mariadb_section=
	! own_database || mariadb_section=$(cat "$root/supervisor/mariadb.conf.in")
	fill supervisor/supervisord.conf.in "$var/supervisord.conf"
	fill nginx/nginx.conf.in "$var/nginx.conf"
	fill supervisor/mariadb.cnf.in "$var/mariadb.cnf"
	[ ! -e "$var/mariadb-local.cnf" ] ||
		cat "$var/mariadb-local.cnf" >>"$var/mariadb.cnf"
}

# The ports of what runs, which need not be those of our own environment.
stack_ports()
{
	read -r port admin_port <"$(sockets)/ports"
}

stack_ctl()
{
	supervisorctl -c "$var/supervisord.conf" "$@" 9>&-
}

# The pid of our supervisord, if it lives. A pid alone may be somebody else's
# by now; its command line names our configuration. The pid file comes late in
# its start, so one without is looked for, too.
stack_pid()
{
	local pid
	for pid in $(cat "$(sockets)/supervisord.pid" 2>/dev/null) '' ; do
		[ -n "$pid" ] || pid=$(left supervisord | head -n 1)
		if tr '\0' '\n' 2>/dev/null <"/proc/$pid/cmdline" |
			grep -qxF -- "$var/supervisord.conf"; then
			echo "$pid"
			return 0
		fi
	done 2>/dev/null
	return 1
}

stack_ready()
{
	curl -s -f --noproxy '*' --max-time 5 -o "$var/tmp/readyz" \
		"http://127.0.0.1:$admin_port/readyz"
}

# Our processes of one name: those that sit in our folder or, where we may not
# see that (a program that keeps secrets), that have our configuration. For
# what a killed supervisord left behind.
left() # NAME...
{
	local proc name cwd
	for proc in /proc/[0-9]*; do
		read -r name 2>/dev/null <"$proc/comm" || continue
		case " $* " in *" $name "*) ;; *) continue ;; esac
		cwd=$(readlink "$proc/cwd") ||
			cwd=$(tr '\0' '\n' <"$proc/cmdline" |
				grep -xF -- "$var/waybill.conf") || continue
		case $cwd in "$var" | "$var"/*) echo "${proc#/proc/}" ;; esac
	done 2>/dev/null
}

end() # NAME...
{
	local pids i
	for i in {1..300}; do
		pids=$(left "$@")
		[ -n "$pids" ] || return 0
		# shellcheck disable=SC2086 # one a word
		case $i in
		1) kill -TERM $pids 2>/dev/null || : ;;
		290) kill -KILL $pids 2>/dev/null || : ;;
		esac
		sleep 0.1
	done
}

stack_stop()
{
	local pid i
	# One that we began a moment ago may not have its name yet.
	if pid=$(stack_pid) || pid=$supervisord; [ -n "$pid" ]; then
		kill -TERM "$pid" 2>/dev/null || :
		for i in {1..1800}; do
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.1
		done
	fi
	supervisord=
	end nginx
	end waybill-fcgi waybill-worker waybill
	end mariadbd
	rm -rf "$(sockets)"/{supervisord.pid,ctl.sock,fcgi.sock,db.sock}
}

sql()
{
	mariadb --no-defaults -uroot -S "$run/db.sock" --connect-timeout=5 \
		--batch "$@"
}

# Made aside and moved: there is never half a data folder, and
# mariadb-install-db cannot take a path with a space.
make_database()
{
	local new
	[ ! -d "$var/db/data" ] || return 0
	say "making a database in $var/db"
	new=$(mktemp -d /tmp/waybill-db.XXXXXX)
	rm -rf "$var/db/data.new"
	# Its temporary files are named by pid alone, and /tmp may be shared by
	# containers whose pids are the same.
	TMPDIR=$var/db/tmp mariadb-install-db --no-defaults \
		--user="$(id -un)" --datadir="$new" \
		--auth-root-authentication-method=normal --skip-test-db \
		--skip-name-resolve --force --innodb-log-file-size=16M \
		>"$var/log/mariadb_install.log" 2>&1 </dev/null &&
		mv "$new" "$var/db/data.new" &&
		mv "$var/db/data.new" "$var/db/data" && return 0
	rm -rf "$new"
	tail -n 20 "$var/log/mariadb_install.log" >&2
	die "no database could be made in $var/db; the reason is above"
}

supervisord_alive()
{
	! stack_pid >/dev/null || return 0
	tail -n 5 "$var/log/supervisord_start.log" >&2
	die "supervisord ended; its words are above," \
		"and in $var/log/supervisord.log"
}

database_broken()
{
	tail -n 15 "$var/log/mariadb.log" "$var/log/mariadb_start.log" >&2 || :
	die "the database in $var/db does not start; its log is above" \
		"($var/log/mariadb.log). If the folder is damaged, put a backup" \
		"of $var/db/data in its place, or move it away to begin with" \
		"an empty one"
}

wait_database()
{
	local until=$((SECONDS + 120)) look=$((SECONDS + 1)) deaths=0
	while [ $SECONDS -lt $until ] && [ $deaths -lt 2 ]; do
		! sql -e 'DO 1' >/dev/null 2>&1 || return 0
		if [ $SECONDS -ge $look ]; then
			supervisord_alive
			case $(stack_ctl status mariadb) in
			*BACKOFF* | *EXITED* | *FATAL*) deaths=$((deaths + 1)) ;;
			esac
			look=$((SECONDS + 1))
		fi
		sleep 0.1
	done
	database_broken
}

# The three accounts of sql/accounts.sql, on our own server.
make_accounts()
{
	local text
	text=$(cat "$root/sql/accounts.sql")
	text=${text//@OWNER_PASSWORD@/"$(cat "$var/secret/db_owner")"}
	text=${text//@SERVICE_PASSWORD@/"$(cat "$var/secret/db_service")"}
	text=${text//@RO_PASSWORD@/}
	sql >"$var/log/accounts.log" 2>&1 <<<"$text" ||
		die "the database accounts could not be made:" \
			"$(tail -n 1 "$var/log/accounts.log")"
}

waybill()
{
	"$programs/waybill" --conf "$var/waybill.conf" "$@"
}

wait_ready()
{
	local until=$((SECONDS + 60)) look=$((SECONDS + 3))
	while [ $SECONDS -lt $until ]; do
		! stack_ready || return 0
		if [ $SECONDS -ge $look ]; then
			case $(stack_ctl status nginx) in *FATAL*) break ;; esac
			look=$((SECONDS + 3))
		fi
		sleep 0.1
	done
	stack_ctl status >&2 || :
	tail -n 5 "$var"/log/{nginx,nginx_start,fcgi_0,fcgi_1}.log >&2 || :
	die "Waybill does not become ready; the ends of its logs are above, all" \
		"of them are in $var/log"
}

# A key of DEMO that works. It is made once; a new one only if the database no
# longer knows it.
demo_key()
{
	local key=$var/secret/demo_key said
	said=$(waybill partner add DEMO 2>&1) ||
		case $said in *exists* | *onflict* | *lready*) ;;
		*) die "the partner DEMO could not be made: $said" ;; esac
	[ ! -s "$key" ] || ! demo_key_works || return 0
	waybill key create DEMO >"$key.new" ||
		die "no key could be made for the partner DEMO"
	tr -d '\n' <"$key.new" >"$key"
	rm -f "$key.new"
}

demo_key_works()
{
	local code
	code=$(printf 'header = "Authorization: Bearer %s"\n' \
		"$(cat "$var/secret/demo_key")" | curl -s -K - --noproxy '*' \
		--cacert "$var/tls/ca.pem" -o "$var/tmp/demo" \
		-w '%{http_code}' --max-time 10 \
		"https://127.0.0.1:$port/wms-ingest/v1/capabilities")
	[ "$code" = 200 ]
}

demo_command() # CURL-OPTIONS
{
	printf "curl%s --cacert '%s' -H 'Authorization: Bearer %s' %s\n" "$1" \
		"$var/tls/ca.pem" "$(cat "$var/secret/demo_key")" \
		"'https://127.0.0.1:$port/wms-ingest/v1/capabilities'"
}

demo_env()
{
	local ro=
	ro=$(setting db_ro_account)
	cat >"$var/demo.env.new" <<-END
	export WAYBILL_URL='https://127.0.0.1:$port'
	export WAYBILL_ADMIN_URL='http://127.0.0.1:$admin_port'
	export WAYBILL_CA='$var/tls/ca.pem'
	export WAYBILL_PARTNER='DEMO'
	export WAYBILL_KEY='$(cat "$var/secret/demo_key")'
	export WAYBILL_CONF='$var/waybill.conf'
	export WAYBILL_DB_SOCKET='$(setting db_socket)'
	export WAYBILL_DB_NAME='$(name=$(setting db_name); echo "${name:-waybill}")'
	export WAYBILL_DB_RO_USER='$(ro=${ro%@*}; echo "${ro:-waybill_ro}")'
	export WAYBILL_BIN='$programs'
	export PATH="\$WAYBILL_BIN:\$PATH"
	END
	chmod 600 "$var/demo.env.new"
	mv "$var/demo.env.new" "$var/demo.env"
}

# With somebody else's database nothing else waits for it, and a schema that is
# current is migrated in no time.
wait_supervisord()
{
	local i
	for i in {1..600}; do
		[ ! -S "$run/ctl.sock" ] || return 0
		[ $((i % 20)) != 0 ] || supervisord_alive
		sleep 0.1
	done
}

stack_start()
{
	stack_stop
	check_port WAYBILL_PORT "$port"
	check_port WAYBILL_ADMIN_PORT "$admin_port"
	! own_database || make_database
	# Connections need descriptors; take what may be had.
	ulimit -n "$(ulimit -Hn)" 2>/dev/null || :
	# A session of its own: Ctrl-C at our terminal is not for it. In our
	# folder: that is how left() knows its own.
	(
		cd "$var" || exit
		exec setsid supervisord -c "$var/supervisord.conf" 9>&-
	) >"$var/log/supervisord_start.log" 2>&1 </dev/null &
	supervisord=$!
	if own_database; then
		wait_database
		make_accounts
	fi
	waybill migrate >"$var/log/migrate.log" 2>&1 || die "the schema could" \
		"not be migrated: $(tail -n 3 "$var/log/migrate.log")"
	wait_supervisord
	stack_ctl start fcgi:'*' worker:'*' retention nginx \
		>"$var/log/start.log" 2>&1 || :
	wait_ready
	demo_key
	demo_env
}
