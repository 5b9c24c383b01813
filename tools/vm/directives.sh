# SPDX-License-Identifier: GPL-2.0-only
#
# directives.sh: read what a test file says about how it wants to be run (docs/testing.md lists the directives).
# Sourced after stage.sh.

DIRECTIVES="params timeout module kernels full smp needs with cmdline log bits"

# read_directives NAME: set the variables test_params, test_timeout, ... for this test.
read_directives()
{
	local text key value file=
	for key in $DIRECTIVES; do
		printf -v "test_$key" '%s' ''
	done
	test_timeout=120
	case $1 in
	boot_clean|kmemleak)	return ;;
	kunit)	test_timeout=600
		return ;;
	trace)	test_module=self test_needs=trace test_timeout=900 test_kernels=7.3,7.2
		return ;;
	demo|bench)	test_module=self test_timeout=300
		return ;;
	esac
	file=$(test_file "$1")
	text=$(sed -n '1,40s/.*spm-test://p' "$file" | tr '\n' ' ')
	while [[ $text =~ ^[[:space:]]*([a-z]+)=(\"([^\"]*)\"|([^[:space:]\"]*))(.*)$ ]]; do
		key=${BASH_REMATCH[1]}
		value=${BASH_REMATCH[3]}${BASH_REMATCH[4]}
		text=${BASH_REMATCH[5]}
		case " $DIRECTIVES " in
		*" $key "*)	printf -v "test_$key" '%s' "$value" ;;
		*)		die "$file: unknown directive $key" ;;
		esac
	done
	[ -z "${text// }" ] || [ "${text// }" = '*/' ] || die "$file: cannot read the directive '$text'"
}

# runs_on NAME KERNEL: is the test meant for this kernel? What is for debug is for the race detector, too.
runs_on()
{
	case $1 in
	boot_clean|kmemleak)	[ "$2" = debug ]; return ;;
	kunit)	own "$2"; return ;;
	esac
	read_directives "$1"
	[ -z "$test_kernels" ] || [[ ",$test_kernels," = *",$2,"* ]] ||
		{ [ "$2" = kcsan ] && [[ ",$test_kernels," = *,debug,* ]]; }
}

# in_full_run NAME KERNEL: does the run of everything include it there?
in_full_run()
{
	read_directives "$1"
	[ -z "$test_full" ] || [[ ",$test_full," = *",$2,"* ]]
}

# default_smp KERNEL: processors for tests that do not ask for a number. Those of our own kernels are threads of the
# emulator, and where there are more of them than processors of the host, they mostly wait for each other.
default_smp()
{
	own "$1" && echo 2 || echo 4
}

# built NAME: is there something to run?
built()
{
	case $1 in
	boot_clean|kmemleak|kunit|demo|bench|trace)	return ;;
	esac
	[[ $(test_file "$1") = *.sh ]] || [ -e "$BUILD/selftests/tests/$1" ]
}

# all_tests: the names of all tests in selftests/.
all_tests()
{
	local file name
	for file in "$TOP"/selftests/*.c "$TOP"/selftests/*.sh; do
		name=$(basename "${file%.*}")
		case $name in
		'*'|lib|helper_*|demo_*)	;;
		*)	printf '%s\n' "$name" ;;
		esac
	done
}
