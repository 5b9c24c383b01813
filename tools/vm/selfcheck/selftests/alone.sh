#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# The module is not loaded, other processors and another command line.
# spm-test: module=self smp=3 cmdline="superpmap.word=1"
[ ! -d /sys/module/superpmap ] || exit 1
grep -q superpmap.word=1 /proc/cmdline || exit 1
[ "$(grep -c ^processor /proc/cpuinfo)" = 3 ] || exit 1
