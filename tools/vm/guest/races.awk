# SPDX-License-Identifier: GPL-2.0-only
#
# races.awk: sort the reports of the race detector (KCSAN) in a kernel log. Reports that are the core's own are taken out,
# and their titles go to the file "core". All else is printed as it is, reports of the module included. A report is the
# core's if it has no function of the module in a stack, down to where an interrupt came (what that interrupted has no
# part in it), or if the access that raced is that of a function in the file
# "known".

BEGIN {
	while ((getline line <known) > 0)
		if (line !~ /^#/)
			by_design[line] = 1
}

# is_core: the title names the functions that raced, "A / B" or "A+0x1/0x2".
function is_core(	name, n, i)
{
	if (!ours)
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
		print title (ours ? " (called by the module)" : "") >core
	else
		printf "%s", report
	report = title = ""
	ours = below = 0
}

/BUG: KCSAN:/ {
	finish()
	title = $0
	sub(/.*BUG: KCSAN: /, "", title)
}
# A stack begins with "read to ...", "write to ..." and the like, and below an interrupt is what it interrupted.
title != "" && / (by|interrupt on) (task|interrupt|cpu) / { below = 0 }
title != "" && /asm_(sysvec_|common_interrupt)/ { below = 1 }
title != "" && !below && /\[superpmap/ { ours = 1 }
title != "" {
	report = report $0 "\n"
	if (/==================================================/)
		finish()
	next
}
/==================================================/ { next }
{ print }
END { finish() }
