#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Nothing is wrong; the parameter arrives.
# spm-test: params="regions=8M,4M"
echo 1..1
[ "$(cat /sys/module/superpmap/parameters/regions)" = 8M,4M ] && echo ok 1 parameters
