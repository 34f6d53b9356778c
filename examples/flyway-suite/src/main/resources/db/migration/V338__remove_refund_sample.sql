DELETE FROM refund WHERE name = 'sample';
