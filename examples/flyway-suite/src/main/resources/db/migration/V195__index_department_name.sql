CREATE INDEX ix_department_name ON department (name, status);
