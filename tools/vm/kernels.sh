# SPDX-License-Identifier: GPL-2.0-only
#
# kernels.sh: the kernels of the tests, by the names that KERNEL= takes, and where the cache keeps them.
# Sourced after lib.sh and apt.sh.

# shellcheck disable=SC2034 # used by those who source this
KERNELS="debug 7.3 7.2"
ON_REQUEST="kcsan"	# not part of the run of everything
SOURCE_SERIES=7.3	# the kernels of our own are built from this series

# safe VERSION: a version as part of a file name that make can handle.
safe()
{
	printf '%s\n' "$1" | tr '~:+' '...'
}

source_dir()
{
	printf '%s/src/linux-%s\n' "$CACHE" "$(safe "$(apt_version "linux-source-$SOURCE_SERIES")")"
}

# own KERNEL: is it one that we build ourselves?
own()
{
	[ "$1" = debug ] || [ "$1" = kcsan ]
}

# own_config KERNEL: the fragments of its configuration, without their comments; of two lines for one option the later.
own_config()
{
	local fragments="base checks disk kasan mm observe" fragment
	[ "$1" = debug ] || fragments="base checks disk mm observe $1"
	for fragment in $fragments; do
		cat "$VM/config/$fragment.config"
	done | awk -F = '!/^#/ { line[NR] = $0; if ($1 in last) delete line[last[$1]]; last[$1] = NR }
			 END { for (i = 1; i <= NR; i++) if (i in line) print line[i] }'
}

# own_dir KERNEL: where it is built.
own_dir()
{
	local version
	version=$(safe "$(apt_version "linux-source-$SOURCE_SERIES")")
	printf '%s/kernel/%s-%s-%s\n' "$CACHE" "$1" "$version" \
	       "$({ echo "$version gcc-$(gcc -dumpfullversion)"; own_config "$1"; } | digest)"
}

stock_dir()
{
	printf '%s/stock/%s\n' "$CACHE" "$(apt_newest "$1")"
}

# The root in which the modules for the stock kernels are built: one for both kernels and the tools.
root_packages()
{
	printf '%s\n' base-files bash coreutils dash diffutils findutils gcc grep kmod libc6-dev make mawk pahole \
		perl-base sed xz-utils "linux-headers-$(apt_newest 7.3)" "linux-headers-$(apt_newest 7.2)"
}

root_dir()
{
	printf '%s/root/build-%s\n' "$CACHE" "$(root_packages | digest)"
}

# The root that the guest uses to run bpftrace.
trace_packages()
{
	printf '%s\n' base-files bash coreutils bpftrace dash findutils grep kmod mawk mount procps sed util-linux \
		"linux-headers-$(apt_newest 7.3)"
}

trace_image()
{
	printf '%s/root/trace-%s.ext4\n' "$CACHE" "$(trace_packages | digest)"
}

# kernel_dir KERNEL: the folder to build a module against.
kernel_dir()
{
	if own "$1"; then
		own_dir "$1"
	else
		printf '/usr/src/linux-headers-%s\n' "$(apt_newest "$1")"
	fi
}

# check_kernel KERNEL: stop unless the name is one of ours.
check_kernel()
{
	case " $KERNELS $ON_REQUEST " in
	*" $1 "*) ;;
	*) die "KERNEL=$1 is unknown: choose one of: $KERNELS $ON_REQUEST" ;;
	esac
}
