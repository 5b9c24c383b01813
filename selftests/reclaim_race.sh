#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Property: while the kernel asks for memory again and again, and the worker
# breaks, fills and mends reservations as fast as it can, everything that other
# tests do to regions at the same time goes as it does without.
# Guards against: races of breaking and of getting a block again with faults,
# promotion, demotion, copies on write, forks, snapshots, discards, collecting
# and clearing of dirty state, unmapping and exit.
#
# Each of the tests runs for SPM_RECLAIM_SECONDS, by default 15.
#
# spm-test: timeout=1800 smp=4 full=debug with=race_all,cow_race,dirty_oracle,cow_model,concurrent_faults

SECONDS_EACH=${SPM_RECLAIM_SECONDS:-15}
PARAM=/sys/module/superpmap/parameters
COUNTERS=/sys/kernel/debug/superpmap/counters
TESTS="race_all cow_race dirty_oracle cow_model concurrent_faults"
NR=0
BAD=0

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

counter()	# NAME
{
	sed -n "s/^$1[: =]*//p" $COUNTERS
}

pressure()
{
	while :; do
		echo 2 >/proc/sys/vm/drop_caches
		sleep 0.05
	done
}

mountpoint -q /sys/kernel/debug 2>/dev/null ||
	mount -t debugfs none /sys/kernel/debug 2>/dev/null
echo "1..$(($(echo $TESTS | wc -w) + 3))"
broken=$(counter vm.reserv.broken)
mended=$(counter vm.reserv.reassembled)
filled=$(counter vm.worker.filled_pages)
echo 1 >$PARAM/worker_age
echo 32 >$PARAM/worker_fill
echo 1024 >$PARAM/worker_rate
pressure &
LOOP=$!
export SPM_RACE_SECONDS="$SECONDS_EACH" SPM_ORACLE_SECONDS="$SECONDS_EACH"
export SPM_MODEL_SECONDS="$SECONDS_EACH"
for t in $TESTS; do
	/spm/bin/"$t" 2>&1 | tee /tmp/reclaim-race.log | sed 's/^/# /'
	# Not what the pipe's end says: every case has to have passed.
	grep -q '^# PASSED' /tmp/reclaim-race.log
	result $? "$t under pressure"
done
kill $LOOP
wait $LOOP 2>/dev/null
echo 0 >$PARAM/worker_rate
echo 64 >$PARAM/worker_fill
echo 10 >$PARAM/worker_age
broken=$(($(counter vm.reserv.broken) - broken))
mended=$(($(counter vm.reserv.reassembled) - mended))
filled=$(($(counter vm.worker.filled_pages) - filled))
echo "# $broken reservations broken, $mended got a block again, $filled pages filled in idle time"
[ "$broken" -gt 0 ]
result $? "reservations were broken meanwhile"
[ "$mended" -gt 0 ]
result $? "slots got blocks again meanwhile"
[ "$filled" -gt 0 ]
result $? "the worker filled reservations meanwhile"
exit $BAD
