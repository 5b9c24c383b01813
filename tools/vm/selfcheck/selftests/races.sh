#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Two threads of the module change one word; only a kernel with the race detector notices.
echo race >/sys/kernel/debug/superpmap/do
