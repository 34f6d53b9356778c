DROP INDEX ix_role_name ON role;
