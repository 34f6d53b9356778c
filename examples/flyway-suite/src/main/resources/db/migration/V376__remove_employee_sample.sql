DELETE FROM employee WHERE name = 'sample';
