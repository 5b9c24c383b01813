#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# The test and a child in another session never end.
# spm-test: timeout=4
setsid sleep 1000 &
sleep 1000
