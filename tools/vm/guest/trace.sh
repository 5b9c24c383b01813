#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# trace.sh: bpftrace in the guest, from the Debian root that is mounted at /disk. With /spm/bpftrace/script.bt it runs
# the demonstration under that script and prints what both say; without, it compares what the project's own scripts
# see with what the module counts.

root=/disk
[ -x $root/usr/bin/bpftrace ] || { echo "Bail out! no bpftrace on the disk"; exit 1; }
mkdir -p $root/spm $root/proc $root/sys $root/dev $root/tmp
mount --bind /spm $root/spm
mount -t proc proc $root/proc
mount --rbind /sys $root/sys
mount --rbind /dev $root/dev
mount -t tmpfs tmpfs $root/tmp

PATH=/usr/bin:/usr/sbin:/spm/bin:/bin:/sbin

insmod /spm/superpmap.ko regions=8M || exit 1
if [ -e /spm/bpftrace/script.bt ]; then
	chroot $root bpftrace -B line /spm/bpftrace/script.bt >/tmp/trace 2>&1 &
	pid=$!
	# It says "Attaching" first; what a script prints in its BEGIN block comes when all probes are in place. A script
	# without that is given half a minute.
	tries=0
	until awk '/^Attaching/ { on = 1; next } on && NF { found = 1 } END { exit !found }' /tmp/trace ||
	      ! kill -0 $pid 2>/dev/null; do
		tries=$((tries + 1))
		[ $tries -lt 30 ] || ! grep -q '^Attaching' /tmp/trace || break
		[ $tries -lt 240 ] || break
		sleep 1
	done
	status=0
	/spm/bin/demo_shm || status=1
	echo
	/spm/bin/demo_cow || status=1
	# the shell starts it deaf to this signal; it listens when it has started
	tries=0
	while kill -INT $pid 2>/dev/null && [ $tries -lt 120 ]; do
		tries=$((tries + 1))
		sleep 1
	done
	kill -KILL $pid 2>/dev/null
	wait $pid
	echo
	echo "bpftrace says:"
	# a line that begins with "@" would be taken for one of the harness
	sed 's/^@/ @/' /tmp/trace
else
	chroot $root sh /spm/bpftrace/compare.sh
	status=$?
fi
rmmod superpmap || status=1
exit $status
