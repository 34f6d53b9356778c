DELETE FROM price WHERE name = 'sample';
