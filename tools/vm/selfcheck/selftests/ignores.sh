#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# The same warning, declared as expected.
# spm-test: log="WARNING: .*dummy|Call Trace"
echo warn >/sys/kernel/debug/superpmap/do
