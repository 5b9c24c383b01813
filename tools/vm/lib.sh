# SPDX-License-Identifier: GPL-2.0-only
#
# lib.sh: what every script of the harness shares: where things are, how to report progress, how to fail,
# and how a set-up step is done once and only once. Sourced by bash scripts, never run.

set -euo pipefail

VM=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$VM/../.." && pwd)
TOP=${SPM_TOP:-$ROOT}	# another project folder: the harness's own test
BUILD=${SPM_BUILD:-$TOP/build}
CACHE=${XDG_CACHE_HOME:-${HOME:?set HOME or XDG_CACHE_HOME}/.cache}/superpmap
LOGS=$BUILD/logs
JOBS=${JOBS:-$(nproc)}
export LC_ALL=C

say()
{
	printf '%s\n' "$*" >&2
}

# die MESSAGE: one line that says what to do, and a failing exit status.
die()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# usage: print the script's own header comment, which is its --help text.
usage()
{
	sed -n '/^# [^S]/,/^[^#]/{/^#/{s/^# \{0,1\}//;p}}' "$0"
}

# step WHAT COMMAND...: run a step of the set-up; its output goes to a log that is shown when it fails.
step()
{
	local what=$1 start=$SECONDS rc log
	shift
	mkdir -p "$CACHE/log"
	log=$CACHE/log/$(printf '%s' "$what" | tr -cs 'A-Za-z0-9.+\n' -).log
	say "set-up: $what ..."
	set +e
	(set -e; "$@") >"$log" 2>&1
	rc=$?
	set -e
	if [ $rc -ne 0 ]; then
		tail -n 15 "$log" >&2
		die "'$what' failed; the whole log is $log; run the same command again to resume"
	fi
	[ $((SECONDS - start)) -lt 2 ] || say "set-up: $what: $((SECONDS - start)) s"
}

# lock NAME: keep other runs out until this process ends.
lock()
{
	mkdir -p "$CACHE"
	exec 9>"$CACHE/$1.lock"
	if ! flock -n 9; then
		say "waiting for another run ($1) to finish ..."
		flock 9
	fi
}

# digest: a short name for what is read from standard input.
digest()
{
	sha256sum | cut -c1-12
}

# hint MESSAGE...: a remark on the step that follows.
hint()
{
	say "        ($*)"
}
