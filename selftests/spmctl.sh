#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Property: spmctl shows the module's own numbers, machine-readable where that
# is asked for, and says cause and remedy when it cannot.
# Guards against: a tool that prints something else than the kernel counts, is
# silent about trouble, or succeeds in a script although nothing was read.
#
# spm-test: module=self timeout=240

SPMCTL=/spm/bin/spmctl
MODULE=${SPM_MODULE:-/spm/superpmap.ko}
DEBUGFS=/sys/kernel/debug
STATE=$DEBUGFS/superpmap
TMP=/tmp/spmctl-test
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

# The command fails with status 2, prints nothing to standard output, and its
# message begins with the program's name and holds each of the words.
refuses()	# COMMAND-LINE WORD...
{
	command=$1
	shift
	sh -c "$command" >$TMP/stdout 2>$TMP/stderr
	status=$?
	cat $TMP/stdout $TMP/stderr
	is $status 2 || return
	[ ! -s $TMP/stdout ] || return
	grep -q '^spmctl: ' $TMP/stderr || return
	for word; do
		grep -q -- "$word" $TMP/stderr || { echo "no '$word'"; return 1; }
	done
}

# One flat JSON object of numbers, strings, true, false and lists of numbers or
# of pairs of numbers; prints "name: value" lines. Fails on anything that is not JSON of that kind.
json_lines()
{
	awk '
	function bad(why) { print "line " NR ": " why ": " $0; failed = 1; exit 1 }
	NR == 1 { if ($0 != "{") bad("no {"); next }
	closed { bad("text after the end") }
	$0 == "}" { if (comma) bad("comma before }"); closed = 1; next }
	NR > 2 && !comma { bad("no comma before") }
	{
		line = $0
		comma = sub(/,$/, "", line)
		if (line !~ /^  "[a-z0-9_.]+": ([0-9]+|true|false|"[^"\\]*"|\[[0-9]+(, [0-9]+)*\]|\[\[[0-9]+, [0-9]+\](, \[[0-9]+, [0-9]+\])*\]|\[\])$/)
			bad("not a member")
		sub(/^  "/, "", line)
		sub(/": /, ": ", line)
		print line
	}
	END { if (!failed && !closed) { print "no }"; exit 1 } }' "$1"
}

json_equals()	# JSON LINES
{
	json_lines "$1" >$TMP/lines || { cat $TMP/lines; return 1; }
	diff "$2" $TMP/lines
}

value()		# FILE NAME
{
	awk -v name="$2:" '$1 == name { print $2 }' "$1"
}

mkdir -p $TMP

# -- without the module

check "not loaded: stat names the remedy" \
	refuses "$SPMCTL stat" "not loaded" "modprobe"
check "not loaded: verify names the remedy" \
	refuses "$SPMCTL verify" "not loaded" "modprobe"
check "not loaded: info names the remedy" \
	refuses "$SPMCTL info /dev/superpmap0" "not loaded" "modprobe"
check "not loaded: params names the remedy" \
	refuses "$SPMCTL params" "not loaded" "modprobe"

# -- with it

check "module loads" insmod "$MODULE" regions=16M,8M
/spm/bin/demo_shm >$TMP/demo 2>&1
check "demonstration runs, so that counters are not all 0" is $? 0

cat $STATE/counters >$TMP/counters
$SPMCTL stat >$TMP/stat
check "stat succeeds" is $? 0
check "stat prints what debugfs prints" diff $TMP/counters $TMP/stat
$SPMCTL stat --all >$TMP/stat
check "--all is the default" diff $TMP/counters $TMP/stat
check "promotions were counted" [ "$(value $TMP/stat vm.pmap.pde.promotions)" -gt 0 ]
$SPMCTL stat --json >$TMP/json
check "stat --json is JSON with the same numbers" json_equals $TMP/json $TMP/counters

$SPMCTL stat --region /dev/superpmap0 >$TMP/region0
check "stat --region succeeds" is $? 0
$SPMCTL stat --region=/dev/superpmap1 >$TMP/region1
check "region 0 did the promotions" is "$(value $TMP/region0 vm.pmap.pde.promotions)" \
	"$(value $TMP/stat vm.pmap.pde.promotions)"
check "region 1 did none" is "$(value $TMP/region1 vm.pmap.pde.promotions)" 0
$SPMCTL stat -j -r /dev/superpmap0 >$TMP/json
check "stat --json --region is JSON with the same numbers" json_equals $TMP/json $TMP/region0
cat $STATE/counters >$TMP/after
check "looking changes no counter" diff $TMP/counters $TMP/after

$SPMCTL verify >$TMP/verify
check "verify succeeds" is $? 0
check "verify ends with the number of differences" is "$(tail -n 1 $TMP/verify)" "differences: 0"
check "verify --quiet succeeds" $SPMCTL verify --quiet
check "verify --quiet prints nothing" is "$($SPMCTL verify --quiet 2>&1)" ""

$SPMCTL info /dev/superpmap1 >$TMP/info
check "info succeeds" is $? 0
check "info knows the size" grep -q '^size: 8388608 (fixed)$' $TMP/info
check "info knows the page sizes" grep -q '^page sizes: 4096 2097152$' $TMP/info
check "info knows that superpages are on" grep -q '^superpages: on$' $TMP/info
$SPMCTL info --json /dev/superpmap1 >$TMP/json
json_lines $TMP/json >$TMP/lines
check "info --json is JSON" is $? 0
check "info --json knows the size" is "$(value $TMP/lines size)" 8388608
check "info --json knows that it is persistent" is "$(value $TMP/lines persistent)" true
$SPMCTL info --json /dev/superpmap >$TMP/json
json_lines $TMP/json >$TMP/lines
check "info of the anonymous node: size 0" is "$(value $TMP/lines size)" 0
check "info of the anonymous node: not persistent" is "$(value $TMP/lines persistent)" false

for file in /sys/module/superpmap/parameters/*; do
	echo "$(basename "$file"): $(cat "$file")"
done >$TMP/params
$SPMCTL params >$TMP/shown
check "params succeeds" is $? 0
check "params shows what sysfs shows" diff $TMP/params $TMP/shown
check "params sets a tunable" $SPMCTL params prefault_pages=7
check "... in the module" is "$(cat /sys/module/superpmap/parameters/prefault_pages)" 7
check "params shows one tunable" is "$($SPMCTL params prefault_pages)" "prefault_pages: 7"
check "params: a bad value is refused with a hint" \
	refuses "$SPMCTL params prefault_pages=65" prefault_pages dmesg
check "... and nothing changed" is "$(cat /sys/module/superpmap/parameters/prefault_pages)" 7
check "params: regions cannot be set now" \
	refuses "$SPMCTL params regions=4M" regions "when the module is loaded"
check "params: no such tunable" refuses "$SPMCTL params no_such=1" no_such
check "params: no way out of the folder" refuses "$SPMCTL params ../refcnt" "not the name"

# -- dirty pages of a region, and its policy

STORE=/spm/bin/helper_store
NODE=/dev/superpmap1

told()		# OUTPUT: "FROM-TO ..." and the number of pages that the totals say
{
	awk '$1 ~ /^(0|0x)/ { printf "%s-%s ", $1, $2; n += $3 }
	     $1 == "pages:" { print (n == $2 ? $2 : "wrong total " $2 " of " n) }' "$1"
}

$SPMCTL dirty $NODE >$TMP/dirty
check "dirty of a region that nobody touched succeeds" is $? 0
check "... and tells nothing" is "$(told $TMP/dirty)" 0
exec 3<>$NODE
$STORE 3 0 4096 12288 2097152
$SPMCTL dirty $NODE >$TMP/dirty
check "dirty tells what was stored to" is "$(told $TMP/dirty)" \
	"0-0x2000 0x3000-0x4000 0x200000-0x201000 4"
check "... and how far it looked" grep -q '^looked at: 0 to 0x800000$' $TMP/dirty
$SPMCTL dirty --json --fd 3 >$TMP/json
json_lines $TMP/json >$TMP/lines
check "dirty --json is JSON" is $? 0
check "... with the same ranges" is "$(grep '^ranges: ' $TMP/lines)" \
	"ranges: [[0, 8192], [12288, 16384], [2097152, 2101248]]"
check "... and number of pages" is "$(value $TMP/lines pages)" 4
$SPMCTL dirty --offset 4K --len 2M $NODE >$TMP/dirty
check "dirty of a part" is "$(told $TMP/dirty)" "0x1000-0x2000 0x3000-0x4000 0x200000-0x201000 3"
$SPMCTL dirty --clear --len 0x3000 $NODE >$TMP/dirty
check "dirty --clear of a part" is "$(told $TMP/dirty)" "0-0x2000 2"
$SPMCTL dirty --clear $NODE >$TMP/dirty
check "dirty --clear of the rest" is "$(told $TMP/dirty)" "0x3000-0x4000 0x200000-0x201000 2"
$SPMCTL dirty --json $NODE >$TMP/json
check "... nothing is left, as JSON" is "$(json_lines $TMP/json | head -n 1)" "ranges: []"
$STORE 3 4194304 --snapshot 4 -- \
	sh -c "$STORE 3 8192; $SPMCTL dirty --fd 3 --since 4" >$TMP/dirty
check "dirty --since tells what changed since a snapshot" is "$(told $TMP/dirty)" "0x2000-0x3000 1"
$STORE 3 4194304 --snapshot 4 -- sh -c "$SPMCTL dirty --fd 4" >$TMP/dirty
check "a snapshot is dirty where its source was" is "$(told $TMP/dirty)" \
	"0x2000-0x3000 0x400000-0x401000 2"
$STORE 3 4194304 -- $SPMCTL dirty --referenced --fd 3 >$TMP/dirty
check "dirty --referenced tells what is mapped and was touched" \
	sh -c "grep -q '^ *0x400000 ' $TMP/dirty"
# more ranges than one request takes: every second page of 64 MB
exec 5<>/dev/superpmap
$STORE 5 $(seq 0 8192 67108863)
$SPMCTL dirty --fd 5 >$TMP/dirty
check "many ranges, by several requests" grep -qx "ranges: 8192" $TMP/dirty
check "... each is printed" is "$(told $TMP/dirty | wc -w)" 8193
exec 5>&-

$SPMCTL policy $NODE >$TMP/policy
check "policy succeeds" is $? 0
check "everything is inherited at first" is "$(grep -c ': inherit$' $TMP/policy)" 6
for name in pg_ps_enabled populate_threshold dirty_threshold prefault_pages cow_size dirty_grain; do
	case $name in
	pg_ps_enabled)	echo "$name: 1" ;;
	*)		$SPMCTL params $name ;;
	esac
done >$TMP/params
$SPMCTL policy --effective $NODE >$TMP/policy
check "policy --effective is what the module has" diff $TMP/params $TMP/policy
check "policy sets tunables" $SPMCTL policy $NODE dirty_grain=auto prefault_pages=9
check "... of this region" is "$($SPMCTL policy --fd 3 dirty_grain prefault_pages cow_size)" \
	"dirty_grain: auto
prefault_pages: 9
cow_size: inherit"
check "... and not of another" is "$($SPMCTL policy /dev/superpmap0 dirty_grain)" "dirty_grain: inherit"
$SPMCTL policy --effective --json $NODE >$TMP/json
json_lines $TMP/json >$TMP/lines
check "policy --json is JSON" is $? 0
check "... with the same values" is "$(value $TMP/lines dirty_grain) $(value $TMP/lines prefault_pages)" '"auto" 9'
check "policy: one wrong value" refuses "$SPMCTL policy $NODE cow_size=2M prefault_pages=65" \
	"prefault_pages takes 0 to 64" inherit
check "... changes nothing" is "$($SPMCTL policy $NODE cow_size)" "cow_size: inherit"
check "policy: inherit" $SPMCTL policy $NODE dirty_grain=inherit prefault_pages=inherit
check "... is back to the module's" is "$($SPMCTL policy $NODE dirty_grain)" "dirty_grain: inherit"
exec 3>&-

exec 3<$NODE
check "dirty --clear with a descriptor for reading" refuses "$SPMCTL dirty --clear --fd 3" "not open for writing"
check "policy with a descriptor for reading" refuses "$SPMCTL policy --fd 3 dirty_grain=2M" "not open for writing"
check "dirty --since another region" \
	refuses "$SPMCTL dirty --fd 3 --since 4 4</dev/superpmap0" "--since 4" "snapshot"
check "dirty --since nothing of ours" refuses "$SPMCTL dirty --fd 3 --since 4 4</dev/null" "since 4"
exec 3<&-

# -- where its memory lies

sum()		# COLUMN: over the nodes
{
	awk -v c="$1" '$1 ~ /^[0-9]+$/ { n += $c } END { print n + 0 }' $TMP/nodes
}

$SPMCTL stat --region $NODE >$TMP/stat
$SPMCTL nodes $NODE >$TMP/nodes
check "nodes succeeds" is $? 0
check "... with all pages of the region" is "$(sum 2)" "$(value $TMP/stat vm.pages.held)"
check "... its reservations" is "$(sum 4)" "$(value $TMP/stat vm.reserv.live)"
check "... which are not all 0" [ "$(sum 4)" -gt 0 ]
check "... and what is empty of them" is "$(sum 7)" "$(value $TMP/stat vm.reserv.empty_pages)"
$SPMCTL nodes --json $NODE >$TMP/json
json_lines $TMP/json >$TMP/lines
check "nodes --json is JSON" is $? 0
check "... with a list for each column" is "$(cut -d: -f1 $TMP/lines | tr '\n' ' ')" \
	"$(head -n 1 $TMP/nodes | sed 's/  */ /g') "
exec 3<>/dev/superpmap
check "nodes of an empty region" is "$($SPMCTL nodes --json --fd 3 | grep -c ': \[\]')" 7
exec 3>&-
check "nodes without a node" refuses "$SPMCTL nodes" "path" "--fd"
check "nodes of the anonymous node" refuses "$SPMCTL nodes /dev/superpmap" "new region" "--fd"
check "nodes: two regions" refuses "$SPMCTL nodes $NODE /dev/superpmap0" "too much"
check "nodes: not a node of ours" refuses "$SPMCTL nodes /dev/null" "/dev/null" "not a node"

check "dirty without a node" refuses "$SPMCTL dirty" "path" "--fd"
check "dirty: a descriptor that is not open" refuses "$SPMCTL dirty --fd 7" "not an open descriptor" "exec"
check "dirty: not a descriptor" refuses "$SPMCTL dirty --fd x" '"x"'
check "dirty of the anonymous node" refuses "$SPMCTL dirty /dev/superpmap" "new region" "--fd"
check "policy of the anonymous node" refuses "$SPMCTL policy /dev/superpmap" "new region" "--fd"
check "dirty: unaligned" refuses "$SPMCTL dirty --offset 100 $NODE" "--offset" "multiple of 4096"
check "dirty: not a number" refuses "$SPMCTL dirty --len 4X $NODE" "--len" '"4X"'
check "dirty: too large a number" refuses "$SPMCTL dirty --len 99999999999G $NODE" "--len"
check "dirty: beyond the region" refuses "$SPMCTL dirty --offset 16M $NODE" "beyond" 8388608
check "dirty: --since and --clear" refuses "$SPMCTL dirty --clear --since 0 $NODE" "neither"
check "dirty: two nodes" refuses "$SPMCTL dirty $NODE /dev/superpmap0" "too much"
check "dirty: not a node of ours" refuses "$SPMCTL dirty /dev/null" "/dev/null" "not a node"
check "dirty: no such node" refuses "$SPMCTL dirty /dev/superpmap9" "No such file"
check "policy: no such tunable" refuses "$SPMCTL policy $NODE regions=4M" "not a tunable" "regions"
check "policy: no such word" refuses "$SPMCTL policy $NODE dirty_grain=8K" "4K, 2M, auto"
check "policy: setting and showing" refuses "$SPMCTL policy $NODE cow_size dirty_grain=4K" "no value"
check "policy: --json while setting" refuses "$SPMCTL policy --json $NODE dirty_grain=4K" "for showing"
check "not permitted: dirty" \
	refuses "su nobody -c '$SPMCTL dirty $NODE'" "Permission denied" "group"

# -- wrong usage and trouble

check "--help succeeds" $SPMCTL --help
check "--help names each command" sh -c "$SPMCTL --help | grep -c -E '^  (stat|verify|dirty|policy|nodes|info|params) ' | grep -qx 7"
check "--version succeeds" $SPMCTL --version
$SPMCTL >/dev/null 2>&1
check "no command: status 2" is $? 2
$SPMCTL stat --no-such >/dev/null 2>&1
check "unknown option: status 2" is $? 2
check "unknown command" refuses "$SPMCTL stats" "not a command" "help"
check "option of another command" refuses "$SPMCTL info -q /dev/superpmap0" "info" "-q"
check "too many arguments" refuses "$SPMCTL stat /dev/superpmap0" "/dev/superpmap0"
check "--all and --region exclude each other" \
	refuses "$SPMCTL stat --all --region /dev/superpmap0" "exclude"
check "info without a node" refuses "$SPMCTL info" "path"
check "no such node" refuses "$SPMCTL info /dev/superpmap9" "/dev/superpmap9" "No such file"
check "not a node of ours" refuses "$SPMCTL info /dev/null" "/dev/null" "not a node"
check "not a node of ours: stat" refuses "$SPMCTL stat --region /dev/zero" "/dev/zero" "not a node"

check "not permitted: info" \
	refuses "su nobody -c '$SPMCTL info /dev/superpmap0'" "Permission denied" "group"
check "not permitted: stat" \
	refuses "su nobody -c '$SPMCTL stat'" "Permission denied" "group"
check "not permitted: verify" \
	refuses "su nobody -c '$SPMCTL verify'" "Permission denied" "as root"

umount $DEBUGFS
check "debugfs not mounted" refuses "$SPMCTL verify" "not mounted" "mount -t debugfs"
check "stat needs no debugfs" $SPMCTL stat
mount -t debugfs debugfs $DEBUGFS

check "module unloads" rmmod superpmap

# -- no persistent region: counters of all regions come from a region of our own
check "module loads without regions" insmod "$MODULE" regions=
cat $STATE/counters >$TMP/counters
$SPMCTL stat >$TMP/stat
check "stat without persistent regions prints what debugfs prints" diff $TMP/counters $TMP/stat
check "module unloads again" rmmod superpmap

rm -rf $TMP
echo "1..$NR"
exit $BAD
