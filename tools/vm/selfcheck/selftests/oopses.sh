#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# The kernel dies.
echo oops >/sys/kernel/debug/superpmap/do
