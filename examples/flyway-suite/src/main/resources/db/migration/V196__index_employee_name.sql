CREATE INDEX ix_employee_name ON employee (name, status);
