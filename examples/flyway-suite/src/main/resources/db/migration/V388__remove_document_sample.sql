DELETE FROM document WHERE name = 'sample';
