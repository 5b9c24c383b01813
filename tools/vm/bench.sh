#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# bench.sh: the comparison of "make bench", as the guest runs it.

insmod /spm/superpmap.ko || exit 1
status=0
/spm/bin/demo_dirty ${JSON:+--json} || status=1
rmmod superpmap || status=1
exit $status
