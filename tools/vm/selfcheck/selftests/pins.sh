#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# The module cannot be unloaded; the tests after this one need a new boot.
echo pin >/sys/kernel/debug/superpmap/do
