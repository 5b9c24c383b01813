#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# compare.sh - do the bpftrace scripts see what the module counts?
#
# Usage: compare.sh [COMMAND [ARGUMENT]...]
#   Runs COMMAND under faults.bt, promotions.bt, cow.bt, dirty.bt and reclaim.bt in
#   turn, and compares their totals with how far the counters in debugfs went in the
#   meantime.  Without COMMAND: demo_shm, demo_cow for cow.bt, and stores and
#   clears of the first region for dirty.bt, and a few pages and a request to the
#   shrinkers for reclaim.bt, by programs from the PATH or from /spm/bin.  Nothing else may use superpmap regions meanwhile.  Root only;
#   prints TAP.
#
# Exit status: 0 all totals agree, 1 some do not, 4 bpftrace is not there.

DIR=$(cd "$(dirname "$0")" && pwd)
COUNTERS=/sys/kernel/debug/superpmap/counters
TMP=$(mktemp -d)
PID=
NR=0
BAD=0

finish()
{
	[ -z "$PID" ] || kill "$PID" 2>/dev/null
	rm -rf "$TMP"
}
trap finish EXIT

result()	# STATUS DESCRIPTION
{
	NR=$((NR + 1))
	if [ "$1" = 0 ]; then
		echo "ok $NR $2"
	else
		BAD=1
		echo "not ok $NR $2"
	fi
}

counter()	# FILE NAME
{
	awk -v name="$2:" '$1 == name { print $2; found = 1 }
			   END { if (!found) print "no-such-counter" }' "$1"
}

total()		# FILE NAME
{
	awk -v prefix="total $2: " 'index($0, prefix) == 1 { print $NF; found = 1 }
				    END { if (!found) print "no-such-total" }' "$1"
}

# Start a script and wait until its probes are in place.
start()		# SCRIPT
{
	bpftrace "$DIR/$1" >"$TMP/out" 2>"$TMP/err" &
	PID=$!
	for _ in $(seq 120); do
		grep -q '^counting' "$TMP/out" && return 0
		kill -0 "$PID" 2>/dev/null || break
		sleep 1
	done
	sed 's/^/# /' "$TMP/err"
	return 1
}

stop()
{
	kill -INT "$PID"
	wait "$PID"
	PID=
	sed 's/^/# /' "$TMP/out" "$TMP/err"
}

compare()	# TOTAL COUNTER
{
	was=$(counter "$TMP/before" "$2")
	is=$(counter "$TMP/after" "$2")
	seen=$(total "$TMP/out" "$1")
	case "$was$is$seen" in
	*no-such*)
		result 1 "$1: script says $seen, counter $2 was $was, is $is"
		return ;;
	esac
	[ "$seen" = $((is - was)) ]
	result $? "$1: script says $seen, $2 went from $was to $is"
}

run()		# SCRIPT, then COMMAND
{
	script=$1
	shift
	start "$script"
	status=$?
	result $status "$script starts"
	[ $status = 0 ] || return
	cat $COUNTERS >"$TMP/before"
	"$@" >"$TMP/command" 2>&1
	status=$?
	cat $COUNTERS >"$TMP/after"
	stop
	[ $status = 0 ] || sed 's/^/# /' "$TMP/command"
	result $status "$* under $script"
}

if ! command -v bpftrace >/dev/null; then
	echo "1..0 # SKIP no bpftrace"
	exit 4
fi
if [ ! -r $COUNTERS ]; then
	echo "Bail out! cannot read $COUNTERS: module not loaded, debugfs not mounted or not root"
	exit 1
fi
SHM=$(command -v demo_shm || echo /spm/bin/demo_shm)
COW=$(command -v demo_cow || echo /spm/bin/demo_cow)
STORE=$(command -v helper_store || echo /spm/bin/helper_store)
SPMCTL=$(command -v spmctl || echo /spm/bin/spmctl)

# Stores to some pages of two slots and then to all of one, and clears.
track()
{
	exec 3<>/dev/superpmap0
	$STORE 3 0 4096 2097152 -- $SPMCTL dirty --fd 3 --referenced --clear || return
	$SPMCTL dirty --fd 3 --clear || return
	# shellcheck disable=SC2046 # a list of numbers
	$STORE 3 8192 $(seq 2097152 4096 4194303) || return
	$SPMCTL dirty --fd 3 --clear
	status=$?
	exec 3>&-
	return $status
}

# Pages here and there, broken, and then all of them.
squeeze()
{
	exec 3<>/dev/superpmap0
	$STORE 3 0 4096 4194304 || return
	echo 2 >/proc/sys/vm/drop_caches
	# shellcheck disable=SC2046 # a list of numbers
	$STORE 3 $(seq 0 4096 2097151)
	status=$?
	exec 3>&-
	return $status
}

run faults.bt "${@:-$SHM}"
compare faults vm.stats.vm.v_vm_faults

run promotions.bt "${@:-$SHM}"
compare promoted vm.pmap.pde.promotions
compare mapped vm.pmap.pde.mappings
compare upgraded vm.pmap.pde.upgrades
compare failed vm.pmap.pde.p_failures
compare demoted vm.pmap.pde.demotions
compare aborted vm.pmap.pde.aborts

run cow.bt "${@:-$COW}"
compare stores vm.stats.vm.v_cow_faults
compare copied vm.cow.copied_pages
compare snapshots vm.cow.snapshots
compare forks vm.cow.forks
compare early vm.cow.early_pages
compare collapses vm.cow.collapses
compare handed vm.stats.vm.v_cow_optim
compare merged vm.cow.merged_pages

run dirty.bt "${@:-track}"
compare protected vm.track.wrprotects
compare cleared vm.track.cleared_pages
compare kept vm.track.kept_dirty_pages
compare accessed vm.track.accessed
compare forgotten vm.track.accessed_cleared

run reclaim.bt "${@:-squeeze}"
compare broken vm.reserv.broken
compare evacuated vm.reserv.evacuated_pages
compare held vm.reserv.evacuate_held
compare nomem vm.reserv.evacuate_nomem
compare reassembled vm.reserv.reassembled

echo "1..$NR"
exit $BAD
