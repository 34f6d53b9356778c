DELETE FROM invoice WHERE name = 'sample';
