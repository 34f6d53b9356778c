DELETE FROM address WHERE name = 'sample';
