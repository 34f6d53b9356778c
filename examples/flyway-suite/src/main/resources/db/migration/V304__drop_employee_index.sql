DROP INDEX ix_employee_name ON employee;
