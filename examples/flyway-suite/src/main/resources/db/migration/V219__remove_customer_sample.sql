DELETE FROM customer WHERE name = 'sample';
