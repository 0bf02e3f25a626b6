# Make the table of migrations out of sql/migrations/NNNN_name.sql and
# sql/grants.sql.
#
#	awk -f migrations.awk FILE...
#
# A step ends with a semicolon at the end of a line. Comments are left out, so
# that mending one does not change a migration's checksum.
# SPDX-License-Identifier: Apache-2.0

function refuse(why) {
	printf "%s:%d: %s\n", FILENAME, FNR, why > "/dev/stderr"
	failed = 1
	exit 1
}

function c_string(s) {
	gsub(/\\/, "\\\\", s)
	gsub(/"/, "\\\"", s)
	return "\"" s "\""
}

function begin_file(    base, at) {
	if (text != "")
		refuse("the file before ends inside a step")
	base = FILENAME
	sub(/.*\//, "", base)
	sub(/\.sql$/, "", base)
	if (base == "grants") {
		in_grants = 1
		return
	}
	if (in_grants)
		refuse("grants.sql must be the last file")
	if (base !~ /^[0-9][0-9][0-9][0-9]_[a-z0-9_]+$/)
		refuse("not of the form NNNN_name.sql")
	if (substr(base, 1, 4) + 0 != n + 1)
		refuse("migrations must be numbered without a gap")
	names[++n] = substr(base, 6)
	steps[n] = 0
}

function finish() {
	if (in_grants)
		grant[++grants] = text
	else
		step[n, ++steps[n]] = text
	text = ""
}

FNR == 1 { begin_file() }
/^[ \t]*--/ || /^[ \t]*$/ { next }
{
	line = $0
	sub(/^[ \t]+/, "", line)
	done = sub(/;[ \t]*$/, "", line)
	text = text (text == "" ? "" : " ") line
	if (done)
		finish()
}

END {
	if (failed)
		exit 1
	if (text != "")
		refuse("the last step does not end with a semicolon")
	print "/* Made by build-aux/migrations.awk. */"
	print "#include \"db/migration_table.h\"\n"
	for (i = 1; i <= n; i++) {
		printf "static const char *const STEPS_%d[] = {\n", i
		for (j = 1; j <= steps[i]; j++)
			printf "\t%s,\n", c_string(step[i, j])
		print "};\n"
	}
	print "const struct migration MIGRATIONS[] = {"
	for (i = 1; i <= n; i++)
		printf "\t{%d, %s, STEPS_%d, %d},\n", i, c_string(names[i]), i,
			steps[i]
	print "};"
	printf "const unsigned MIGRATION_COUNT = %d;\n\n", n
	print "const char *const GRANTS[] = {"
	for (i = 1; i <= grants; i++)
		printf "\t%s,\n", c_string(grant[i])
	print "};"
	printf "const unsigned GRANT_COUNT = %d;\n", grants
}
