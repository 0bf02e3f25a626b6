# Make the table of statements out of sql/statements/*.sql.
#
#	awk -v want=ids|table -f statements.awk FILE...
#
# An entry:
#
#	-- name: credential_find
#	-- rows: what the affected or returned rows mean (required)
#	-- row: (?, ?, NOW(3))        the template {row} in the text stands for
#	-- literals: '1970-01-01'     quoted texts beside words like 'ACTIVE'
#	-- only: mariadb              other servers do not know this statement
#	-- protocol: text             cannot be prepared, has no arguments
#	-- day: PARTITION p{day} ...   what {days} repeats, with {day} and {next}
#	SELECT ... ;
#
# Other lines that begin with `--` are comments. What could hide a mistake is
# refused: see check().
# SPDX-License-Identifier: Apache-2.0

function refuse(why) {
	printf "%s:%d: %s\n", FILENAME, FNR, why > "/dev/stderr"
	failed = 1
	exit 1
}

function trim(s) {
	sub(/^[ \t]+/, "", s)
	sub(/[ \t]+$/, "", s)
	return s
}

function count(s, c,    n, i) {
	n = 0
	for (i = 1; i <= length(s); i++)
		if (substr(s, i, 1) == c)
			n++
	return n
}

function c_string(s) {
	gsub(/\\/, "\\\\", s)
	gsub(/"/, "\\\"", s)
	return "\"" s "\""
}

# Values are bound. A quoted text is a word of ours, or is declared.
function check_literals(s,    at, rest, end, word) {
	if (index(s, "\""))
		refuse("double quotes in " name)
	rest = s
	while ((at = index(rest, "'")) > 0) {
		rest = substr(rest, at + 1)
		end = index(rest, "'")
		if (!end)
			refuse("a quote is left open in " name)
		word = substr(rest, 1, end - 1)
		rest = substr(rest, end + 1)
		if (word !~ /^[A-Z_]+$/ && !index(literals, "'" word "'"))
			refuse("undeclared literal '" word "' in " name)
	}
}

function check_shape(    at) {
	shape = "STMT_PLAIN"
	if ((at = index(text, "{row}"))) {
		shape = "STMT_ROWS"
		if (row == "")
			refuse(name " has {row} but no template")
		if (row !~ /^\(.*\)$/ || !index(row, "?"))
			refuse("the row template of " name " is not (?, ...)")
		if (index(text, "?"))
			refuse(name " has arguments outside {row}")
	} else if (index(text, "{days}")) {
		shape = "STMT_DAYS"
		if (!index(day, "{day}") || !index(day, "{next}"))
			refuse(name " has {days} but no template of a day")
		if (protocol != "text" || row != "")
			refuse(name " has {days}: it is sent as text")
		row = day
	} else if (row != "")
		refuse(name " has a row template but no {row}")
	if (day != "" && shape != "STMT_DAYS")
		refuse(name " has a template of a day but no {days}")
	if ((at = index(text, "{list}"))) {
		if (shape != "STMT_PLAIN")
			refuse(name " has both {row} and {list}")
		shape = "STMT_LIST"
		if (index(substr(text, at), "?"))
			refuse(name " has arguments after {list}")
	}
	if (text ~ /\{.*\{/)
		refuse(name " has more than one place to fill in")
	if (protocol == "text" && (index(text, "?") ||
	    (shape != "STMT_PLAIN" && shape != "STMT_DAYS")))
		refuse(name " is sent as text and cannot have arguments")
}

function check() {
	if (rows == "")
		refuse(name " does not say what its rows mean (-- rows:)")
	if (index(text, ";"))
		refuse("a semicolon inside " name)
	if (toupper(text) ~ /SELECT +(DISTINCT +)?\*/ || text ~ /[a-z]\.\*/)
		refuse(name " selects *: name the columns")
	if (count(text, "?") > 64)
		refuse(name " has more than 64 arguments")
	check_literals(text)
	check_literals(row)
	check_shape()
}

function finish() {
	check()
	seen[name] = 1
	names[++n] = name
	entry[n] = sprintf("\t[STMT_%s] = {%s, %s,\n\t\t%s,\n\t\t%s, %s, %d, %d, %s, %s},",
		toupper(name), c_string(name), c_string(FILENAME),
		c_string(text), shape, row == "" ? "NULL" : c_string(row),
		count(text, "?"), count(row, "?"),
		"STMT_ON_" (only == "" ? "ALL" : toupper(only)),
		protocol == "text" ? "true" : "false")
	name = ""
}

FNR == 1 && name != "" { refuse("the file before ends inside " name) }

/^-- name:/ {
	if (name != "")
		refuse(name " does not end with a semicolon")
	name = trim(substr($0, 9))
	if (name !~ /^[a-z][a-z0-9_]*$/)
		refuse("bad name " name)
	if (name in seen)
		refuse(name " is there twice")
	text = rows = row = day = literals = only = protocol = ""
	next
}
/^-- rows:/ { rows = trim(substr($0, 9)); next }
/^-- row:/ { row = trim(substr($0, 8)); next }
/^-- day:/ { day = trim(substr($0, 8)); next }
/^-- literals:/ { literals = literals substr($0, 13); next }
/^-- only:/ {
	only = trim(substr($0, 9))
	if (only != "mariadb" && only != "mysql")
		refuse("only: mariadb or mysql")
	next
}
/^-- protocol:/ {
	protocol = trim(substr($0, 13))
	if (protocol != "text")
		refuse("protocol: text, or leave it out")
	next
}
/^[ \t]*--/ || /^[ \t]*$/ { next }
{
	if (name == "")
		refuse("text outside an entry")
	line = trim($0)
	done = sub(/;$/, "", line)
	text = text (text == "" ? "" : " ") line
	if (done)
		finish()
}

END {
	if (failed)
		exit 1
	if (name != "")
		refuse(name " does not end with a semicolon")
	print "/* Made by build-aux/statements.awk. */"
	if (want == "ids") {
		print "#ifndef WAYBILL_STMT_IDS_H\n#define WAYBILL_STMT_IDS_H\n"
		print "enum stmt {"
		for (i = 1; i <= n; i++)
			printf "\tSTMT_%s,\n", toupper(names[i])
		print "\tSTMT_COUNT\n};\n\n#endif"
	} else {
		print "#include \"db/stmt_table.h\"\n"
		print "const struct stmt_def STMT_TABLE[STMT_COUNT] = {"
		for (i = 1; i <= n; i++)
			print entry[i]
		print "};"
	}
}
