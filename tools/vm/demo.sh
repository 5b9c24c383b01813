#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# demo.sh: the demonstration of "make run", as the guest runs it: load the module, let a program fill shared memory
# and show how it is mapped, let another one take images of memory and show what they cost, unload the module again.

insmod /spm/superpmap.ko regions=8M || exit 1
status=0
/spm/bin/demo_shm || status=1
echo
/spm/bin/demo_cow || status=1
rmmod superpmap || status=1
exit $status
