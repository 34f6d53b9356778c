CREATE INDEX ix_role_name ON role (name, status);
