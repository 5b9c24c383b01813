#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Property: the module can be loaded and unloaded any number of times, never
# while somebody uses it, and leaves nothing behind.
# Guards against: leftover nodes and folders, use counts that do not follow
# descriptors and mappings, memory that is freed under a mapping, and a second
# load that half succeeds.
#
# spm-test: module=self timeout=300 full=7.3

MODULE=${SPM_MODULE:-/spm/superpmap.ko}
SYS=/sys/module/superpmap
TMP=/tmp/load-unload
ROUNDS=200
SECONDS_ALLOWED=150
NR=0
BAD=0

check()		# DESCRIPTION COMMAND...: the command must succeed
{
	what=$1
	shift
	NR=$((NR + 1))
	if "$@" >$TMP/check 2>&1; then
		echo "ok $NR $what"
	else
		BAD=1
		echo "not ok $NR $what"
		head -n 20 $TMP/check | sed 's/^/# /'
	fi
}

is()		# GOT WANT
{
	echo "got '$1', expected '$2'"
	[ "$1" = "$2" ]
}

fails()		# COMMAND...
{
	! "$@"
}

nodes()
{
	for node in /dev/superpmap*; do
		[ ! -e "$node" ] || basename "$node"
	done | xargs
}

now()
{
	cut -d . -f 1 /proc/uptime
}

nothing_left()
{
	is "$(nodes)" "" &&
	[ ! -d $SYS ] && [ ! -d /sys/kernel/debug/superpmap ] &&
	[ ! -d /sys/kernel/tracing/events/superpmap ] &&
	! grep -q superpmap /proc/devices /proc/misc /proc/modules 2>/dev/null
}

# hold HOW NODE: in the background, until release
hold()
{
	rm -f $TMP/ready $TMP/pipe
	mkfifo $TMP/pipe
	/spm/bin/helper_hold "$@" <$TMP/pipe >$TMP/ready 2>&1 &
	HOLDER=$!
	exec 9>$TMP/pipe
	for _ in $(seq 200); do
		grep -q ready $TMP/ready && return
		sleep 0.05
	done
	echo "# helper_hold: $(cat $TMP/ready)"
}

release()
{
	exec 9>&-
	wait $HOLDER
}

refcnt()
{
	cat $SYS/refcnt
}

mkdir -p $TMP

# -- what is there when it is loaded

check "nothing there before" nothing_left
check "loads" insmod "$MODULE" regions=8M,2M,4K
check "a node for each region and one for new regions" \
	is "$(nodes)" "superpmap superpmap0 superpmap1 superpmap2"
for node in /dev/superpmap /dev/superpmap0 /dev/superpmap1 /dev/superpmap2; do
	check "$node is not for everybody" is "$(stat -c %a $node)" 660
	check "$node is a character device" [ -c $node ]
done
check "use count is 0" is "$(refcnt)" 0
insmod "$MODULE" 2>$TMP/err
check "a second load is refused" [ $? != 0 ]
check "... as existing" grep -q "File exists" $TMP/err
cp "$MODULE" $TMP/other_name.ko
check "so is one of a copy with another file name" fails insmod $TMP/other_name.ko
check "and the nodes are still there" \
	is "$(nodes)" "superpmap superpmap0 superpmap1 superpmap2"
check "it still works" /spm/bin/demo_shm

# -- not while it is used

for node in /dev/superpmap /dev/superpmap0; do
	for how in open map both; do
		hold $how $node
		# A mapping holds the file, so each is one use.
		check "$node, $how: use count is 1" is "$(refcnt)" 1
		check "$node, $how: cannot be unloaded" fails rmmod superpmap
		check "$node, $how: and is still loaded" [ -d $SYS ]
		release
		check "$node, $how: use count is 0 again" is "$(refcnt)" 0
	done
done
hold map /dev/superpmap0
kill -9 $HOLDER
exec 9>&-
wait $HOLDER 2>/dev/null
check "the user was killed: use count is 0" is "$(refcnt)" 0

check "unloads" rmmod superpmap
check "nothing left" nothing_left

# -- with memory in it: a persistent region outlives its users, not the module

check "loads again" insmod "$MODULE" regions=16M
hold map /dev/superpmap0
release
check "the region holds pages" fails grep -qx "vm.pages.held: 0" /sys/kernel/debug/superpmap/gauges
check "unloads with pages in a region" rmmod superpmap
check "nothing left" nothing_left
check "loads a third time" insmod "$MODULE" regions=16M
check "the region is empty again" grep -qx "vm.pages.held: 0" /sys/kernel/debug/superpmap/gauges
check "unloads" rmmod superpmap

# -- many times

start=$(now)
round=0
bad_rounds=0
while [ $round -lt $ROUNDS ] && [ $(($(now) - start)) -lt $SECONDS_ALLOWED ]; do
	round=$((round + 1))
	insmod "$MODULE" regions=$((round % 5 + 1))M,4K 2>$TMP/err || break
	if [ $((round % 8)) = 0 ]; then
		hold both /dev/superpmap
		release
	fi
	rmmod superpmap 2>$TMP/err || break
	nothing_left >/dev/null || bad_rounds=$((bad_rounds + 1))
	: >$TMP/err
done
check "$round rounds of load and unload" [ ! -s $TMP/err ]
check "nothing left after each of them" is $bad_rounds 0
check "nothing left" nothing_left
[ ! -d $SYS ] || rmmod superpmap

rm -rf $TMP
echo "1..$NR"
exit $BAD
