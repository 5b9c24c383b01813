# SPDX-License-Identifier: GPL-2.0-only
#
# Makefile: the commands of the project; "make help" lists them. The module itself is described in Kbuild, the test
# machine in tools/vm (see docs/testing.md).

KVERSION ?= $(shell uname -r)
KDIR     ?= /lib/modules/$(KVERSION)/build
PREFIX   ?= /usr/local
OUT      := $(CURDIR)/build/$(notdir $(patsubst %/build,%,$(abspath $(KDIR))))
VM       := tools/vm
quiet    := $(if $(V),,-s)

export V SMP ACCEL TESTENV TESTFILES JSON

modules:
	@$(VM)/kernel-fits '$(KDIR)'
	@mkdir -p $(OUT) build/tools
	@$(MAKE) $(quiet) -C '$(KDIR)' M=$(CURDIR) MO=$(OUT) modules
	@echo "built $(OUT)/superpmap.ko"

install: modules
	$(MAKE) $(quiet) -C '$(KDIR)' M=$(CURDIR) MO=$(OUT) modules_install
	install -D -m 644 include/uapi/linux/superpmap.h $(DESTDIR)$(PREFIX)/include/linux/superpmap.h
	install -d $(DESTDIR)/usr/lib/udev/rules.d
	install -m 644 $(wildcard tools/udev/*.rules) $(DESTDIR)/usr/lib/udev/rules.d/
	install -D -m 644 tools/udev/superpmap.conf $(DESTDIR)/usr/lib/sysusers.d/superpmap.conf
	$(MAKE) $(quiet) -C tools/spmctl OUT=$(CURDIR)/build/tools DESTDIR=$(DESTDIR) PREFIX=$(PREFIX) install

run:
	@$(VM)/demo $(if $(KERNEL),--kernel $(KERNEL))

check:
	@$(VM)/check $(if $(KERNEL),--kernel $(KERNEL)) $(if $(TEST),--test $(TEST))

check-harness:
	@$(VM)/setup host source $(or $(KERNEL),debug)
	@$(VM)/check-harness $(if $(KERNEL),--kernel $(KERNEL))

bench:
	@$(VM)/bench $(if $(KERNEL),--kernel $(KERNEL))

scaling:
	@$(VM)/scaling $(if $(KERNEL),--kernel $(KERNEL))

trace:
	@$(VM)/trace $(if $(SCRIPT),--script $(SCRIPT))

style:
	@$(VM)/setup host source
	@$(VM)/style

clean:
	rm -rf build

help:
	@echo 'make                       build the module for the running kernel, or for KDIR=...'
	@echo 'make install               install it with spmctl, the udev rule and the header for programs'
	@echo 'make run                   set up a virtual machine, load the module in it and show what it does'
	@echo 'make check                 run every test, on the debug kernel and on the stock kernels'
	@echo 'make check-harness         test the harness of the tests itself'
	@echo 'make bench                 what dirty tracking costs, in instructions, beside other memory (JSON=1: as JSON)'
	@echo 'make scaling               faults per second of 1, 2 and 4 processors, and who waits for locks (JSON=1: as JSON)'
	@echo 'make trace SCRIPT=file.bt  run the demonstration under a bpftrace script'
	@echo 'make style                 check the style of the source'
	@echo 'make clean                 remove build/ (kernels and tools stay in ~/.cache/superpmap)'
	@echo
	@echo 'Options of the commands that use the virtual machine:'
	@echo '  KERNEL=debug|7.3|7.2     one kernel only; kcsan, which looks for races, only on request'
	@echo '  TEST=name[,name...]      these tests only (see selftests/)'
	@echo '  TESTENV="NAME=value ..." environment of the tests; TESTFILES="file ..." go to /spm/files there'
	@echo '  SMP=n                    processors of the machine'
	@echo '  ACCEL=tcg|kvm            emulate (default), or use the hardware'
	@echo '  V=1                      show the commands of the build'

.PHONY: modules install run check check-harness bench scaling trace style clean help
.DEFAULT_GOAL := modules
