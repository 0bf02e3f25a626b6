#!/bin/sh
# get-parson.sh PREFIX: put parson (include, lib, its licence) under PREFIX.
# SPDX-License-Identifier: Apache-2.0
#
# parson is no Debian binary package, but Debian's source package slirp4netns
# carries upstream's 1.5.2 unchanged, with its licence, in a 65 kB tarball. The
# archives are those this machine's apt knows; both tarball and the two files
# are compared with the checksums below, so it does not matter whose they are.
set -eu

version=1.5.2
c_sha=690c15276df905618bb958d262044b41d573ae7ed7294640934b6b223583190a
h_sha=4541045531850208b2c8d52807d9aba1d3a78188d690df324c100d570af1d165
pool=pool/main/s/slirp4netns
tarballs="
slirp4netns_1.2.1.orig.tar.gz 51aa240e1e29905ed35b449ca718539a01221aab3b6d291c4dc6777f0eb9d7d9
slirp4netns_1.3.3.orig.tar.gz 2422cd6869da0374943ba8f01425fe50a49a29138ddead0e0fedbe3aa22aa483
"

die()
{
	echo "get-parson: $*" >&2
	exit 1
}

same() # SHA FILE
{
	[ -f "$2" ] && echo "$1  $2" | sha256sum -c --status -
}

# The two files and the licence, out of one tarball, into $work/parson.
unpack()
{
	rm -rf "$work/parson"
	mkdir "$work/parson"
	tar -xzf "$1" -C "$work/parson" --strip-components=3 \
		--wildcards '*/vendor/parson/*' &&
		same $c_sha "$work/parson/parson.c" &&
		same $h_sha "$work/parson/parson.h"
}

# Every archive apt knows. --no-release-info answers before the first update,
# and indextargets reads .list and .sources files alike.
archives()
{
	# shellcheck disable=SC2016 # apt expands it
	apt-get indextargets --no-release-info --format '$(REPO_URI)' \
		'Created-By: Packages' | LC_ALL=C sort -ru
}

# apt's own downloader fetches the file straight from the pool: no index.
from_pool()
{
	for uri in $(archives); do
		while read -r name sha; do
			[ -n "$name" ] || continue
			# shellcheck disable=SC2086 # options, or nothing
			/usr/lib/apt/apt-helper $apt_user \
				-o Acquire::Retries=2 download-file \
				"${uri%/}/$pool/$name" "$work/t" \
				"SHA256:$sha" >>"$work/log" 2>&1 || continue
			unpack "$work/t" && return 0
		done <<-END
		$tarballs
		END
	done
	return 1
}

# If the pool has moved on: a source index of a suite that has the package, in
# an apt folder of our own (12 MB).
from_index()
{
	for suite in trixie sid; do
		apt=$work/apt-$suite
		mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" \
			"$apt/sources"
		: >"$apt/status"
		key=/usr/share/keyrings/debian-archive-keyring.gpg
		[ -f "$key" ] && key="[signed-by=$key] " || key=
		archives | grep -v -- -security |
			sed "s|.*|deb-src $key& $suite main|" \
				>"$apt/sources/parson.list"
		cat >"$apt/apt.conf" <<-END
		Dir::Etc::sourcelist "/dev/null";
		Dir::Etc::sourceparts "$apt/sources";
		Dir::State::lists "$apt/lists";
		Dir::State::status "$apt/status";
		Dir::Cache "$apt/cache";
		Acquire::Languages "none";
		Acquire::GzipIndexes "true";
		Acquire::Retries "2";
		END
		(
			cd "$apt"
			export APT_CONFIG="$apt/apt.conf"
			# shellcheck disable=SC2086 # options, or nothing
			apt-get -q $apt_user update && apt-get -q $apt_user \
				source --tar-only --download-only slirp4netns
		) >>"$work/log" 2>&1 || continue
		for tarball in "$apt"/slirp4netns_*.orig.tar.gz; do
			unpack "$tarball" && return 0
		done
	done
	return 1
}

compile()
{
	cd "$work/parson"
	${CC:-cc} -std=c99 -O2 -g -fPIC -Wall "-ffile-prefix-map=$PWD=." \
		-c parson.c -o parson.o
	${AR:-ar} rcs libparson.a parson.o
	mkdir -p "$prefix/include" "$prefix/lib" "$prefix/share/doc/parson"
	install -m 644 LICENSE "$prefix/share/doc/parson/"
	install -m 644 parson.h "$prefix/include/"
	install -m 644 libparson.a "$prefix/lib/"
}

[ $# = 1 ] || die "usage: get-parson.sh PREFIX"
mkdir -p "$1" || die "cannot make the folder $1"
prefix=$(cd "$1" && pwd)
if [ -f "$prefix/lib/libparson.a" ] && same $h_sha "$prefix/include/parson.h"
then
	exit 0
fi
[ -x /usr/lib/apt/apt-helper ] || die "no apt here: install parson $version" \
	"yourself and give configure --with-parson=DIR"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
# As root apt would drop to _apt, which may not write into our folder.
apt_user=
[ "$(id -u)" != 0 ] || apt_user='-o APT::Sandbox::User=root'
if ! from_pool && ! from_index; then
	tail -n 20 "$work/log" >&2
	die "could not be fetched through apt; without a network, install" \
		"parson $version and give configure --with-parson=DIR"
fi
compile
