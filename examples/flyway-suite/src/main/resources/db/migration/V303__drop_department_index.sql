DROP INDEX ix_department_name ON department;
