#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Lock order is violated; the tests after this one need a new boot.
# spm-test: kernels=debug
echo deadlock >/sys/kernel/debug/superpmap/do
