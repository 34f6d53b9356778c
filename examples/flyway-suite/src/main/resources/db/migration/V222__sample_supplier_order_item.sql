INSERT INTO supplier_order_item (name) VALUES ('sample');
