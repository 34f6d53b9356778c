DELETE FROM purchase_item WHERE name = 'sample';
