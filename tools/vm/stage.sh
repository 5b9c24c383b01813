# SPDX-License-Identifier: GPL-2.0-only
#
# stage.sh: put together the initramfs of a boot: busybox, the module, the kernel's own modules that are needed,
# the programs and just the tests of this boot. Sourced after kernels.sh.

# test_file NAME: the file that a test is written in.
test_file()
{
	local file
	for file in "$TOP/selftests/$1.c" "$TOP/selftests/$1.sh"; do
		if [ -e "$file" ]; then
			printf '%s\n' "$file"
			return
		fi
	done
	die "there is no test called $1 in selftests/"
}

# stage_kernel_modules DIR KERNEL MODULE...: modules of a stock kernel and those that they depend on, unpacked. What is
# no module there is built in.
stage_kernel_modules()
{
	local dir=$1/spm/modules stock version module
	mkdir -p "$dir"
	: >"$dir/list"
	! own "$2" || return 0
	stock=$(stock_dir "$2")
	version=$(basename "$stock")
	shift 2
	for module; do
		[ -n "$(find "$stock/usr/lib/modules" -name "$module.ko*")" ] || continue
		modprobe -d "$stock/usr" -S "$version" --show-depends "$module"
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r module; do
		case $module in
		*.xz)	xz -dc "$module" >"$dir/$(basename "$module" .xz)" ;;
		*)	cp "$module" "$dir/" ;;
		esac
		basename "$module" .xz >>"$dir/list"
	done
}

# stage_base DIR KERNEL: everything but tests and manifest.
stage_base()
{
	local dir=$1 kernel=$2 applet file word
	rm -rf "$dir"
	mkdir -p "$dir"/{bin,sbin,proc,sys,dev,tmp,etc,spm/bin,spm/lib,spm/tests}
	cp /bin/busybox "$dir/bin/"
	for applet in $(/bin/busybox --list); do
		[ "$applet" = busybox ] || ln -s busybox "$dir/bin/$applet"
	done
	printf 'root:x:0:0:root:/tmp:/bin/sh\nnobody:x:65534:65534::/tmp:/bin/sh\n' >"$dir/etc/passwd"
	printf 'root:x:0:\nnogroup:x:65534:\n' >"$dir/etc/group"
	install -m 755 "$VM/guest/init" "$dir/init"
	cp "$VM"/guest/{run-test,races.awk,races.known,load-modules} "$dir/spm/lib/"
	install -m 755 "$VM/demo.sh" "$dir/spm/run-demo"
	install -m 755 "$VM/bench.sh" "$dir/spm/run-bench"
	cp "$BUILD/guest/runtest" "$dir/spm/bin/"
	for file in "$BUILD"/selftests/bin/*; do
		[ ! -e "$file" ] || cp "$file" "$dir/spm/bin/"
	done
	for file in superpmap superpmap_kunit; do
		[ ! -e "$BUILD/$kernel/$file.ko" ] ||
			strip --strip-debug -o "$dir/spm/$file.ko" "$BUILD/$kernel/$file.ko"
	done
	printf 'SPM_KERNEL=%s\nexport SPM_KERNEL\n' "$kernel" >"$dir/spm/lib/environment"
	for word in ${TESTENV:-}; do
		printf 'export %s\n' "$word"
	done >>"$dir/spm/lib/environment"
	for file in ${TESTFILES:-}; do
		install -D -m 644 -t "$dir/spm/files" "$file"
	done
	stage_kernel_modules "$dir" "$kernel" virtio_console
}

# stage_test DIR NAME: the program or script of one test.
stage_test()
{
	local file
	file=$(test_file "$2")
	case $file in
	*.sh)	install -m 755 "$file" "$1/spm/tests/$2" ;;
	*)	cp "$BUILD/selftests/tests/$2" "$1/spm/tests/$2" ;;
	esac
}

# stage_qemu DIR: QEMU of this machine with its emulator and the libraries that they are linked to.
stage_qemu()
{
	local dir=$1 program emulator file
	program=$(command -v qemu-system-x86_64)
	emulator=$(dpkg -L qemu-system-common qemu-system-x86 2>/dev/null | grep '/accel-tcg-x86_64\.so$' || true)
	for file in "$program" $emulator $(ldd "$program" | grep -o '/[^ )]*'); do
		mkdir -p "$dir$(dirname "$file")"
		cp -L "$file" "$dir$file"
	done
}

# stage_trace DIR SCRIPT: bpftrace with the script of the user, or with the scripts of the project.
stage_trace()
{
	mkdir -p "$1/spm/bpftrace"
	cp "$ROOT"/tools/bpftrace/* "$1/spm/bpftrace/"
	[ -z "$2" ] || cp "$2" "$1/spm/bpftrace/script.bt"
	install -m 755 "$VM/guest/trace.sh" "$1/spm/tests/trace"
}

# pack DIR FILE: uncompressed, which is what unpacks fastest in the emulator.
pack()
{
	(cd "$1" && find . | cpio -o -H newc --owner 0:0 --quiet) >"$2"
}
