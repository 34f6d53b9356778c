DELETE FROM parcel WHERE name = 'sample';
