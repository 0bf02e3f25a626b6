-- What an account may do in this schema, as the server has it. The owner may
-- read these three tables by sql/accounts.sql; the views of
-- information_schema would show it nobody's rights but its own.
-- SPDX-License-Identifier: Apache-2.0

-- Arguments: user, host; three times. Schema names are patterns there.
-- name: grant_held
-- rows: one a table, column or schema with rights: table, column, schema, rights with commas between
-- literals: '' 'Y' 'ALL PRIVILEGES' 'ALL PRIVILEGES,GRANT OPTION'
SELECT CAST(table_name AS CHAR(64)), '', '', CAST(table_priv AS CHAR(512))
FROM mysql.tables_priv
WHERE db = DATABASE() AND user = ? AND host = ?
UNION ALL
SELECT CAST(table_name AS CHAR(64)), CAST(column_name AS CHAR(64)), '',
	CAST(column_priv AS CHAR(512))
FROM mysql.columns_priv
WHERE db = DATABASE() AND user = ? AND host = ?
UNION ALL
SELECT '', '', CAST(db AS CHAR(64)),
	IF(grant_priv = 'Y', 'ALL PRIVILEGES,GRANT OPTION', 'ALL PRIVILEGES')
FROM mysql.db
WHERE DATABASE() LIKE db AND user = ? AND host = ?;
