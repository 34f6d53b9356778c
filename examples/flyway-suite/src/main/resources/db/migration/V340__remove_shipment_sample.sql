DELETE FROM shipment WHERE name = 'sample';
