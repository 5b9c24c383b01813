#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# The verifier finds a difference.
echo differ >/sys/kernel/debug/superpmap/do
