-- What `waybill doctor` asks.
-- SPDX-License-Identifier: Apache-2.0

-- The table is there, so this changes nothing; but only an account that may
-- create tables gets an answer to it.
-- name: doctor_ddl
-- rows: 0; refused without the right to create
CREATE TABLE IF NOT EXISTS partner (never INT NOT NULL);
