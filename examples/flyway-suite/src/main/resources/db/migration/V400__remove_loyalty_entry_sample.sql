DELETE FROM loyalty_entry WHERE name = 'sample';
