#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Property: a module parameter that makes no sense is refused with EINVAL and a
# line in the kernel log that names it, at load and later through sysfs, and
# nothing is left behind or changed.
# Guards against: values that wrap around or are cut off, settings that are
# accepted and ignored, refusals that do not say why, and half-loaded modules.
#
# spm-test: module=self timeout=300 full=debug

MODULE=${SPM_MODULE:-/spm/superpmap.ko}
SYS=/sys/module/superpmap
TMP=/tmp/bad-parameters
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

nodes()
{
	for node in /dev/superpmap*; do
		[ ! -e "$node" ] || basename "$node"
	done | xargs
}

# At load: EINVAL, one line or more that name the parameter, nothing there.
refused_load()	# PARAMETER VALUE
{
	status=0
	echo "<6>bad-parameters: mark" >/dev/kmsg
	if insmod "$MODULE" "$1=$2" 2>$TMP/err; then
		echo "# loaded"
		rmmod superpmap
		status=1
	fi
	grep -q "Invalid argument" $TMP/err || { sed 's/^/# /' $TMP/err; status=1; }
	dmesg | awk '/bad-parameters: mark/ { text = ""; next } { text = text $0 "\n" } END { printf "%s", text }' >$TMP/log
	grep "superpmap" $TMP/log | grep -q "$1" || {
		echo "# the kernel log does not name $1:"
		sed 's/^/# /' $TMP/log
		status=1
	}
	if [ -n "$(nodes)" ] || [ -d $SYS ] || [ -d /sys/kernel/debug/superpmap ]; then
		echo "# left behind: $(nodes)"
		status=1
	fi
	result $status "load with $1=$2 is refused"
}

# While loaded: EINVAL, and the value stays.
refused_write()	# PARAMETER VALUE
{
	status=0
	was=$(cat $SYS/parameters/"$1")
	echo "<6>bad-parameters: mark" >/dev/kmsg
	if printf '%s\n' "$2" | dd of=$SYS/parameters/"$1" conv=notrunc 2>$TMP/err; then
		echo "# accepted"
		status=1
	fi
	grep -q "[Ii]nvalid argument" $TMP/err || { sed 's/^/# /' $TMP/err; status=1; }
	dmesg | awk '/bad-parameters: mark/ { text = ""; next } { text = text $0 "\n" } END { printf "%s", text }' >$TMP/log
	grep "superpmap" $TMP/log | grep -q "$1" || {
		echo "# the kernel log does not name $1:"
		sed 's/^/# /' $TMP/log
		status=1
	}
	is=$(cat $SYS/parameters/"$1")
	[ "$is" = "$was" ] || { echo "# $1 was $was, is $is"; status=1; }
	result $status "writing \"$2\" to $1 is refused"
}

accepted()	# PARAMETER VALUE [WHAT-IS-READ]
{
	status=0
	printf '%s\n' "$2" >$SYS/parameters/"$1" || status=1
	is=$(cat $SYS/parameters/"$1")
	[ "$is" = "${3:-$2}" ] || { echo "# reads $is"; status=1; }
	result $status "writing \"$2\" to $1 is accepted"
}

loads()		# REGIONS NODES
{
	status=0
	if insmod "$MODULE" "regions=$1" 2>$TMP/err; then
		[ "$(nodes)" = "$2" ] || { echo "# nodes: $(nodes)"; status=1; }
		rmmod superpmap || status=1
	else
		sed 's/^/# /' $TMP/err
		status=1
	fi
	result $status "load with regions=$1 gives $2"
}

many()		# N: that many sizes
{
	for _ in $(seq "$1"); do
		printf '4K,'
	done | sed 's/,$//'
}

mkdir -p $TMP

# Sizes: 0, negative, not multiples of a page, not numbers, unknown suffixes,
# beyond what an offset can be, beyond 64 bits, empty places in the list.
for value in 0 0M 4095 4097 1 -1 -4096 -1M abc M 4096x 4KB 1.5M \
	     8E 9223372036854775808 16E 18446744073709551616 99999999999999999999G \
	     ',' '4M,' ',4M' '4M,,4M' '4M,0' '4M,abc' 0x1000000000000000000 4M:8M; do
	refused_load regions "$value"
done
refused_load regions "$(many 65)"

# The same code reads a value at load and later, so a few will do at load.
for value in -1 abc 4294967297 0 513; do
	refused_load populate_threshold "$value"
done
for value in -1 512 18446744073709551616; do
	refused_load dirty_threshold "$value"
done
for value in -1 65 1.5; do
	refused_load prefault_pages "$value"
done
for value in 2 maybe; do
	refused_load pg_ps_enabled "$value"
done

# What is good at the edges
loads "" "superpmap"
loads 4K "superpmap superpmap0"
loads 4096 "superpmap superpmap0"
loads 1G,4K,2M "superpmap superpmap0 superpmap1 superpmap2"
status=0
insmod "$MODULE" "regions=$(many 64)" || status=1
[ "$(nodes | wc -w)" = 65 ] || status=1
rmmod superpmap || status=1
result $status "load with 64 regions gives 65 nodes"

insmod "$MODULE" populate_threshold=1 dirty_threshold=0 prefault_pages=0 pg_ps_enabled=0
result $? "load with the smallest values"

NUMBERS="-1 abc 1x 4294967296 4294967297 18446744073709551616 99999999999999999999999 1.5"
for value in $NUMBERS 0 513 100000 ""; do
	refused_write populate_threshold "$value"
done
for value in $NUMBERS 512 100000; do
	refused_write dirty_threshold "$value"
done
for value in $NUMBERS 65 100000; do
	refused_write prefault_pages "$value"
done
for value in -1 abc 1.5 65537 ""; do
	refused_write worker_rate "$value"
done
for value in -1 0 513; do
	refused_write worker_fill "$value"
done
for value in -1 0 86401; do
	refused_write worker_age "$value"
done
for value in 2 -1 maybe 99; do
	refused_write pg_ps_enabled "$value"
done
for value in 8K 2m "" 1; do
	refused_write dirty_grain "$value"
done
for value in 4K 2M auto; do
	accepted dirty_grain $value
done
accepted populate_threshold 512
accepted populate_threshold 1
accepted dirty_threshold 511
accepted dirty_threshold 0
accepted prefault_pages 64
accepted prefault_pages 0
accepted worker_fill 512
accepted worker_age 86400
accepted worker_rate 65536
accepted worker_rate 0
accepted pg_ps_enabled 1 Y
accepted pg_ps_enabled n N
status=0
if printf '8M\n' 2>/dev/null >$SYS/parameters/regions; then
	status=1
fi
result $status "regions cannot be changed while loaded"
rmmod superpmap
result $? "unloads"
insmod "$MODULE"
result $? "loads with defaults after all this"
for pair in pg_ps_enabled=Y populate_threshold=512 dirty_threshold=511 prefault_pages=4 regions=64M \
	cow_size=4K dirty_grain=4K worker_rate=0 worker_fill=64 worker_age=10; do
	[ "$(cat $SYS/parameters/"${pair%%=*}")" = "${pair#*=}" ]
	result $? "default: $pair"
done
rmmod superpmap
result $? "unloads again"

rm -rf $TMP
echo "1..$NR"
exit $BAD
