#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# A disk is there.
# spm-test: needs=disk
grep -q " /disk ext4 " /proc/mounts || exit 1
echo 1 >/disk/file
