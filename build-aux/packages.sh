# shellcheck shell=bash
# The Debian packages ./run and ./check need, and how they get here.
# SPDX-License-Identifier: Apache-2.0
#
#	. build-aux/packages.sh
#	packages_ensure run        what it takes to build and run
#	packages_ensure check      that, and what the tests take
#	packages_ensure fuzz       the first, and what fuzzing takes
#
# A row is: set, package, and what shows that it is there: a command (cmd:), a
# pkg-config module (pc:), a file (file:) or a library of clang's own (clang:).
# The thing is looked for rather than the package, so that nginx-full does as
# well as nginx-light, and a machine that has all of it needs no apt and no
# root.
packages_table='
run	gcc				cmd:gcc
run	libc6-dev			file:/usr/include/stdio.h
run	make				cmd:make
run	autoconf			cmd:autoreconf
run	automake			cmd:automake
run	pkg-config			cmd:pkg-config
run	libfcgi-dev			pc:fcgi
run	default-libmysqlclient-dev	pc:mysqlclient
run	uuid-dev			pc:uuid
run	libssl-dev			pc:libcrypto
run	zlib1g-dev			pc:zlib
run	libcunit1-dev			pc:cunit
run	libcurl4-openssl-dev		pc:libcurl
run	nginx-light			cmd:nginx
run	supervisor			cmd:supervisord
run	mariadb-server-core		cmd:mariadbd
run	mariadb-client-core		cmd:mariadb
run	openssl				cmd:openssl
run	curl				cmd:curl
check	clang-format			cmd:clang-format
check	shellcheck			cmd:shellcheck
check	mandoc				cmd:mandoc
check	python3				cmd:/usr/bin/python3
fuzz	clang				cmd:clang
fuzz	libclang-rt-dev			clang:fuzzer
'

packages_clang() # LIBRARY
{
	local dir
	dir=$(clang -print-runtime-dir 2>/dev/null) &&
		compgen -G "$dir/libclang_rt.$1*.a" >/dev/null
}

packages_there()
{
	case $1 in
	cmd:*) command -v "${1#cmd:}" >/dev/null ;;
	pc:*) pkg-config --exists "${1#pc:}" 2>/dev/null ;;
	file:*) [ -e "${1#file:}" ] ;;
	clang:*) packages_clang "${1#clang:}" ;;
	esac
}

packages_missing()
{
	local set package probe
	while read -r set package probe; do
		[ -n "$set" ] || continue
		[ "$set" = run ] || [ "$set" = "$1" ] || continue
		packages_there "$probe" || printf '%s\n' "$package"
	done <<<"$packages_table"
}

# nginx-light and supervisor bring services that Debian starts at once and at
# every boot; ours are private, and the system's must not come up (on port 80)
# because somebody tried Waybill. policy-rc.d is Debian's way to say so; one
# that is there already is the administrator's and stays.
packages_install()
{
	local policy=/usr/sbin/policy-rc.d ours='' service rc=0
	export DEBIAN_FRONTEND=noninteractive
	if [ ! -e $policy ]; then
		printf '#!/bin/sh\nexit 101\n' >$policy
		chmod 755 $policy
		ours=1
	fi
	apt-get -q -o DPkg::Lock::Timeout=300 update &&
		apt-get -q -y -o DPkg::Lock::Timeout=300 install \
			--no-install-recommends "$@" || rc=$?
	[ -z "$ours" ] || rm -f $policy
	for service in nginx supervisor; do
		case " $* " in *" $service"*)
			systemctl disable "$service" >/dev/null 2>&1 || : ;;
		esac
	done
	return $rc
}

packages_ensure()
{
	local missing log
	mapfile -t missing < <(packages_missing "$1")
	[ ${#missing[@]} -gt 0 ] || return 0
	if ! command -v apt-get >/dev/null; then
		echo "these are missing, and there is no apt-get to install" \
			"them (the names are Debian's): ${missing[*]}" >&2
		return 1
	fi
	if [ "$(id -u)" != 0 ]; then
		echo "packages are missing; as root, run:" \
			"apt-get update && apt-get install" \
			"--no-install-recommends ${missing[*]}" >&2
		return 1
	fi
	echo "installing ${missing[*]}" >&2
	log=$(mktemp)
	if ! packages_install "${missing[@]}" >"$log" 2>&1 </dev/null; then
		tail -n 20 "$log" >&2
		rm -f "$log"
		echo "apt-get could not install ${missing[*]}; its last words" \
			"are above" >&2
		return 1
	fi
	rm -f "$log"
	hash -r
}
