#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Property: a virtual machine monitor can use a node as the memory of a guest: it learns the size from the descriptor,
# maps it, shared or private, and fills it; a size that is not there is refused in words.
#
# Kind of bug: a device that maps, but whose size programs cannot find out, or learn wrong.
#
# spm-test: module=self needs=qemu kernels=debug,7.3 timeout=240

PATH=$PATH:/usr/bin
n=0
bad=0

check()
{
	what=$1
	shift
	n=$((n + 1))
	if "$@"; then
		echo "ok $n $what"
	else
		echo "not ok $n $what"
		echo "$out" | sed 's/^/# /'
		bad=1
	fi
}

# vmm NODE SIZE OPTIONS: a machine without processor, with that memory, which is shown and ended
vmm()
{
	out=$(printf 'info memdev\nquit\n' | qemu-system-x86_64 -M none -nodefaults -display none -S -monitor stdio \
		-object "memory-backend-file,id=m,mem-path=$1,size=$2,$3" 2>&1)
}

says()
{
	echo "$out" | grep -q "$1"
}

held()
{
	out=$(spmctl stat --region "$1")
	says "^vm.pages.held: $2$"
}

insmod "$SPM_MODULE" regions=8M,12M || exit 1
for region in 0:8388608 1:12582912; do
	node=/dev/superpmap${region%:*}
	size=${region#*:}
	vmm $node "$size" share=on,prealloc=on
	check "$node: all of it is memory" says "size: *$size"
	check "$node: and was filled" held $node $((size / 4096))
	vmm $node $((size * 2)) share=on
	check "$node: twice its size is refused" says "does not match 'size'"
	vmm $node "$size" share=off
	check "$node: private memory" says "size: *$size"
done
out=$(spmctl verify)
check "the books are right" [ $? = 0 ]
out=$(rmmod superpmap 2>&1)
check "nothing is left in use" [ $? = 0 ]
echo "1..$n"
exit $bad
