-- What the two accounts that do not own the schema may do, exactly. `waybill
-- migrate` runs this at the end, every time, as the owner, and then takes back
-- what an account has beyond it: {service} and {ro} are the accounts that
-- waybill.conf names (db_service_account, db_ro_account). A line stands for
-- one account; a line whose account is not set is left out.
-- SPDX-License-Identifier: Apache-2.0

-- The service: rows only, no DDL, and no DELETE unless a line says so.
GRANT SELECT ON schema_version TO {service};
GRANT SELECT ON partner TO {service};
GRANT SELECT, UPDATE (last_used_at) ON credential TO {service};
GRANT SELECT ON collection_name TO {service};
GRANT SELECT, INSERT, UPDATE ON request_key TO {service};
GRANT SELECT, INSERT ON response TO {service};
GRANT SELECT, INSERT, UPDATE ON batch TO {service};
GRANT SELECT, INSERT ON batch_item TO {service};
GRANT SELECT, INSERT, UPDATE ON item TO {service};
GRANT SELECT, INSERT ON item_history TO {service};
GRANT SELECT, INSERT, UPDATE ON quarantine TO {service};
GRANT SELECT, INSERT, DELETE ON quarantine_wait TO {service};
GRANT SELECT, INSERT, DELETE ON bom_edge TO {service};
GRANT SELECT, INSERT, UPDATE ON quota_use TO {service};
GRANT SELECT, INSERT, UPDATE ON lane TO {service};
GRANT SELECT, INSERT, UPDATE ON job TO {service};
GRANT SELECT, INSERT, UPDATE ON job_turn TO {service};
GRANT SELECT, INSERT, DELETE ON job_chunk TO {service};
GRANT SELECT, INSERT, UPDATE, DELETE ON refresh_name TO {service};

-- Scripts: the views alone.
GRANT SELECT ON v_partner TO {ro};
GRANT SELECT ON v_credential TO {ro};
GRANT SELECT ON v_audit TO {ro};
GRANT SELECT ON v_item TO {ro};
GRANT SELECT ON v_item_by_key TO {ro};
GRANT SELECT ON v_batch TO {ro};
GRANT SELECT ON v_batch_by_key TO {ro};
GRANT SELECT ON v_batch_item TO {ro};
GRANT SELECT ON v_batch_item_by_key TO {ro};
GRANT SELECT ON v_quarantine TO {ro};
GRANT SELECT ON v_quarantine_by_key TO {ro};
GRANT SELECT ON v_job TO {ro};
GRANT SELECT ON v_job_by_key TO {ro};
GRANT SELECT ON v_job_item TO {ro};
GRANT SELECT ON v_job_item_by_key TO {ro};
GRANT SELECT ON v_quota TO {ro};
GRANT SELECT ON v_request TO {ro};
GRANT SELECT ON v_request_by_key TO {ro};
