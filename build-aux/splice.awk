# Put a generated block into a file, between its two marker lines.
#
#	awk -v name=NAME -v block=BLOCK_FILE -f splice.awk FILE >NEW
#	awk -v name=NAME -v show=1 -f splice.awk FILE	prints the block alone
#
# The markers are lines that hold "(generated: begin NAME)" and "(generated:
# end NAME)"; they stay. Without both, once each and in order, it fails.
# SPDX-License-Identifier: Apache-2.0
index($0, "(generated: end " name ")") {
	ends++
	inside = 0
}
show && inside { print }
!show && !inside { print }
index($0, "(generated: begin " name ")") {
	begins++
	inside = 1
	while (!show && (got = (getline line < block)) > 0)
		print line
	if (got < 0) {
		print "splice: cannot read " block > "/dev/stderr"
		failed = 1
	}
}
END {
	if (begins != 1 || ends != 1 || inside) {
		print "splice: the markers of " name " are not there once each" \
			> "/dev/stderr"
		failed = 1
	}
	exit failed
}
