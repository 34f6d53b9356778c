DELETE FROM payment WHERE name = 'sample';
