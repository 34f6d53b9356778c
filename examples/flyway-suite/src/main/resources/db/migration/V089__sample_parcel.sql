INSERT INTO parcel (name) VALUES ('sample');
