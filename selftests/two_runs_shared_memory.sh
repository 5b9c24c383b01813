#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Property: memory that one process has filled costs the next one a fault for
# each 2 MB, writable at once; the program that demonstrates this says so in
# its exit status, for people and for programs.
# Guards against: superpages that come back read-only and are demoted by the
# first store; and a demonstration that succeeds whatever it measured.
#
# spm-test: params="regions=8M"

DEMO=/spm/bin/demo_shm
TMP=/tmp/two-runs
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

value()		# KEY MODE RUN: from the JSON text
{
	grep "\"mode\": \"$2" $TMP/json | grep "\"run\": $3," |
		sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p"
}

is()		# DESCRIPTION GOT WANT
{
	[ "$2" = "$3" ]
	result $? "$1: $2, expected $3"
}

mkdir -p $TMP
$DEMO >$TMP/table
result $? "demonstration"
sed 's/^/# /' $TMP/table
$DEMO --json >$TMP/json
result $? "demonstration, for programs"

is "8 MB in the first run, promoted" "$(value promotions defaults 1)" 4
is "8 MB in the second run, mapped directly" "$(value mappings defaults 2)" 4
is "faults of the second run" "$(value page_faults defaults 2)" 4
is "demotions of the second run" "$(value demotions defaults 2)" 0
is "sum of the second run" "$(value sum defaults 2)" 16777216
is "kB in 2 MB entries, second run" "$(value file_pmd_mapped_kb defaults 2)" 8192
is "kB in 2 MB entries without superpages" "$(value file_pmd_mapped_kb pg_ps_enabled=0 2)" 0

# It leaves the module as it was ...
is "tunable" "$(cat /sys/module/superpmap/parameters/pg_ps_enabled)" Y
grep -qx "vm.pages.held: 0" /sys/kernel/debug/superpmap/gauges
result $? "the region is empty again"

# ... and notices when the module does not do what is expected of it.
echo 0 >/sys/module/superpmap/parameters/pg_ps_enabled
$DEMO >$TMP/table
status=$?
echo 1 >/sys/module/superpmap/parameters/pg_ps_enabled
is "exit status without superpages" $status 1
grep -q "FAILED: defaults.*run 2: page faults" $TMP/table
result $? "... which names what failed"
$DEMO --region 99 2>/dev/null
is "exit status of wrong usage" $? 2

rm -rf $TMP
echo "1..$NR"
exit $BAD
