# SPDX-License-Identifier: GPL-2.0-only
#
# races.awk: sort the reports of the race detector (KCSAN) in a kernel log. Reports that are the core's own are taken out,
# and their titles go to the file "core". All else is printed as it is, reports of the module included. A report is the
# core's if it has no function of the module in a stack, or if the access that raced is that of a function in the file
# "known".

BEGIN {
	while ((getline line <known) > 0)
		if (line !~ /^#/)
			by_design[line] = 1
}

# is_core: the title names the functions that raced, "A / B" or "A+0x1/0x2".
function is_core(	name, n, i)
{
	if (report !~ /\[superpmap/)
		return 1
	if (title ~ /\[superpmap/)
		return 0
	n = split(title, name, /[ +]/)
	for (i = 1; i <= n; i++)
		if (name[i] in by_design)
			return 1
	return 0
}

function finish()
{
	if (title == "")
		return
	if (is_core())
		print title (report ~ /\[superpmap/ ? " (called by the module)" : "") >core
	else
		printf "%s", report
	report = title = ""
}

/BUG: KCSAN:/ {
	finish()
	title = $0
	sub(/.*BUG: KCSAN: /, "", title)
}
title != "" {
	report = report $0 "\n"
	if (/==================================================/)
		finish()
	next
}
/==================================================/ { next }
{ print }
END { finish() }
