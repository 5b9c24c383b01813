# SPDX-License-Identifier: GPL-2.0-only
#
# races.awk: sort the reports of the race detector (KCSAN) in a kernel log. A report that has no function of the module
# in either of its two stacks is the core's own: it is taken out, and its title goes to the file "core". All else is
# printed as it is, reports of the module included.

function finish()
{
	if (report ~ /\[superpmap/)
		printf "%s", report
	else if (title != "")
		print title >core
	report = title = ""
}

/BUG: KCSAN:/ {
	finish()
	title = $0
	sub(/.*BUG: KCSAN: /, "", title)
}
title != "" {
	report = report $0 "\n"
	if (/=================================================/)
		finish()
	next
}
/=================================================/ { next }
{ print }
END { finish() }
