#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# The kernel warns, and the test does not notice.
echo warn >/sys/kernel/debug/superpmap/do
