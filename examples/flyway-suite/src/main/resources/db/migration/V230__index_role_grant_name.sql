CREATE INDEX ix_role_grant_name ON role_grant (name, status);
