#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Memory is lost; the test passes, and kmemleak at the end does not.
# spm-test: kernels=debug
echo leak >/sys/kernel/debug/superpmap/do
