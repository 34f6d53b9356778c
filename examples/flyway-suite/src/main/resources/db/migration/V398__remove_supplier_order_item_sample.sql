DELETE FROM supplier_order_item WHERE name = 'sample';
