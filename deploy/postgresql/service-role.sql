-- What the services need in a database that another role owns, and no more: they cannot alter a table, take a trigger
-- off, or remove and rewrite records of the operations log. The owner runs this once, and `gateway migrate` from then on:
--
--   psql --set service=gateway_service --file service-role.sql "$OWNERS_DATABASE_URL"
\set ON_ERROR_STOP on
BEGIN;
REVOKE CREATE ON SCHEMA public FROM PUBLIC, :"service";
GRANT USAGE ON SCHEMA public TO :"service";
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO :"service";
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO :"service";
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO :"service";
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO :"service";

REVOKE INSERT, UPDATE, DELETE ON django_migrations FROM :"service";
REVOKE UPDATE, DELETE ON audit_operationrecord, audit_logseal FROM :"service";
REVOKE INSERT, UPDATE, DELETE ON audit_changeclaim FROM :"service";
GRANT UPDATE (
    outcome, completed_at, code, settle_at, settle_attempts,  -- a change is completed
    server, target_id, target_dn,                             -- and what was not known yet is filled in
    seal, sealed_as                                           -- a record is sealed
) ON audit_operationrecord TO :"service";
-- The months of the log are read and written as parts of it.
SELECT format('REVOKE ALL ON %s FROM %I', inhrelid::regclass, :'service')
FROM pg_inherits WHERE inhparent = 'audit_operationrecord'::regclass \gexec
COMMIT;
