DELETE FROM supplier_order WHERE name = 'sample';
