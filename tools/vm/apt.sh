# SPDX-License-Identifier: GPL-2.0-only
#
# apt.sh: a private apt configuration in the cache that sees trixie and trixie-backports on the mirror that the
# host itself uses. It can look up, resolve and download packages; it never installs anything and needs no root.
# Sourced after lib.sh.

APT=$CACHE/apt

# apt_mirror: the address of the host's Debian mirror (not of its security archive).
apt_mirror()
{
	local uri
	uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
	      grep -v security | sort | uniq -c | sort -rn | awk 'NR == 1 { print $2 }')
	[ -n "$uri" ] || die "apt knows no Debian mirror: put one into /etc/apt/sources.list"
	printf '%s\n' "$uri"
}

apt_write_config()
{
	local mirror keyring=/usr/share/keyrings/debian-archive-keyring.gpg
	[ -e "$keyring" ] || die "missing $keyring: apt-get install debian-archive-keyring"
	mirror=$(apt_mirror)
	mkdir -p "$APT"/lists/partial "$APT"/cache/archives/partial "$APT"/state
	: >"$APT/status"
	cat >"$APT/sources.list" <<-EOF
	deb [signed-by=$keyring] $mirror trixie main
	deb [signed-by=$keyring] $mirror trixie-backports main
	EOF
	cat >"$APT/conf" <<-EOF
	Dir::Etc::sourcelist "$APT/sources.list";
	Dir::Etc::sourceparts "/dev/null";
	Dir::Etc::preferences "/dev/null";
	Dir::Etc::preferencesparts "/dev/null";
	Dir::State "$APT/state";
	Dir::State::lists "$APT/lists";
	Dir::State::status "$APT/status";
	Dir::Cache "$APT/cache";
	APT::Architecture "amd64";
	APT::Architectures { "amd64"; };
	APT::Sandbox::User "$(id -un)";
	APT::Install-Recommends "false";
	Acquire::Languages "none";
	Acquire::Retries "3";
	EOF
}

# apt_update: fetch the package lists, unless that was done in the last week.
apt_update()
{
	local stamp=$APT/updated start=$SECONDS
	if [ -e "$stamp" ] && [ -z "${SPM_UPDATE:-}" ] && [ -z "$(find "$stamp" -mtime +7)" ]; then
		return
	fi
	mkdir -p "$APT"
	say "set-up: package lists of trixie ..."
	apt_write_config
	if apt-get -c "$APT/conf" -qq update >"$APT/update.log" 2>&1 &&
	   ! grep -q '^[EW]:.*Failed to fetch' "$APT/update.log"; then
		touch "$stamp"
		[ $((SECONDS - start)) -lt 2 ] || say "set-up: package lists of trixie: $((SECONDS - start)) s"
		rm -f "$APT"/resolved-*
	elif [ -e "$stamp" ]; then
		say "set-up: the mirror cannot be reached: going on with the package lists of $(date -r "$stamp" +%F)"
	else
		die "the Debian mirror cannot be reached (see $APT/update.log): connect to a network and run again"
	fi
}

# apt_newest SERIES: the newest kernel of a series, "7.3" -> "7.3.4+deb13-amd64".
apt_newest()
{
	local file=$APT/resolved-$1 found
	if [ ! -s "$file" ]; then
		found=$(apt-cache -c "$APT/conf" pkgnames "linux-headers-$1." |
			sed -n 's/^linux-headers-\([0-9.]*+deb[0-9]*-amd64\)$/\1/p' | sort -V | tail -n 1)
		[ -n "$found" ] || die "trixie-backports has no kernel $1 any more: change the series in tools/vm/kernels.sh"
		printf '%s\n' "$found" >"$file"
	fi
	cat "$file"
}

# apt_version PACKAGE: the newest version of a package.
apt_version()
{
	local found
	found=$(apt-cache -c "$APT/conf" show --no-all-versions "$1" 2>/dev/null | sed -n 's/^Version: //p' | head -n 1)
	[ -n "$found" ] || die "the mirror has no package $1: run 'tools/vm/setup --update'"
	printf '%s\n' "$found"
}

# apt_fetch DIR PACKAGE...: download package files into a folder, without what they depend on.
apt_fetch()
{
	local dir=$1
	shift
	mkdir -p "$dir"
	(cd "$dir" && apt-get -c "$APT/conf" -q download "$@")
}

# apt_unpack_with_dependencies DIR PACKAGE...: make a root folder of packages and all they depend on. The files are
# only unpacked: no maintainer script runs, so neither root nor a matching host system is needed.
apt_unpack_with_dependencies()
{
	local dir=$1 deb
	shift
	apt-get -c "$APT/conf" -q -y --download-only -o "Dir::Cache::archives=$dir.debs" install "$@"
	mkdir -p "$dir"
	# base-files first: it makes /bin, /lib and so on links into /usr
	for deb in "$dir".debs/base-files_*.deb "$dir".debs/*.deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$dir" --keep-directory-symlink
	done
	rm -rf "$dir.debs"
}
