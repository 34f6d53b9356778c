-- Five years of schema history of a workshop that repairs and rents out bicycles, as an integration suite runs it
-- before its first test: tables, columns, indexes, foreign keys, seed data, and the corrections that came later.
-- Runs as it is on MySQL 5.7, 8.0 and 9.7 and on MariaDB 10.11 and 11.8, in an empty database.

-- V1: customers and their bicycles
CREATE TABLE country (
  code CHAR(2) NOT NULL PRIMARY KEY,
  title VARCHAR(80) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE customer (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  first_name VARCHAR(80) NOT NULL,
  last_name VARCHAR(80) NOT NULL,
  email VARCHAR(190) NOT NULL,
  created_at DATETIME NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE customer_address (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  customer_id BIGINT UNSIGNED NOT NULL,
  street VARCHAR(120) NOT NULL,
  city VARCHAR(80) NOT NULL,
  zip VARCHAR(16) NOT NULL,
  country_code CHAR(2) NOT NULL,
  KEY ix_customer_address_customer (customer_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE brand (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  title VARCHAR(80) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE bicycle (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  customer_id BIGINT UNSIGNED NOT NULL,
  brand_id INT UNSIGNED NOT NULL,
  model VARCHAR(80) NOT NULL,
  frame_number VARCHAR(40) NOT NULL,
  bought_on DATE NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE UNIQUE INDEX ux_customer_email ON customer (email);
CREATE UNIQUE INDEX ux_brand_title ON brand (title);
CREATE INDEX ix_bicycle_customer ON bicycle (customer_id);
CREATE INDEX ix_bicycle_brand ON bicycle (brand_id);
ALTER TABLE customer_address ADD CONSTRAINT fk_customer_address_customer FOREIGN KEY (customer_id) REFERENCES customer (id);
ALTER TABLE customer_address ADD CONSTRAINT fk_customer_address_country FOREIGN KEY (country_code) REFERENCES country (code);
ALTER TABLE bicycle ADD CONSTRAINT fk_bicycle_customer FOREIGN KEY (customer_id) REFERENCES customer (id);
ALTER TABLE bicycle ADD CONSTRAINT fk_bicycle_brand FOREIGN KEY (brand_id) REFERENCES brand (id);

-- V2: reference data
INSERT INTO country (code, title) VALUES ('AT', 'Austria'), ('BE', 'Belgium'), ('CH', 'Switzerland'), ('CZ', 'Czechia');
INSERT INTO country (code, title) VALUES ('DE', 'Germany'), ('DK', 'Denmark'), ('ES', 'Spain'), ('FI', 'Finland');
INSERT INTO country (code, title) VALUES ('FR', 'France'), ('IT', 'Italy'), ('LU', 'Luxembourg'), ('NL', 'Netherlands');
INSERT INTO country (code, title) VALUES ('NO', 'Norway'), ('PL', 'Poland'), ('PT', 'Portugal'), ('SE', 'Sweden');
INSERT INTO brand (title) VALUES ('Alder'), ('Birch'), ('Cedar'), ('Douglas');
INSERT INTO brand (title) VALUES ('Elm'), ('Fir'), ('Gingko'), ('Hazel');

-- V3: staff
CREATE TABLE employee (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  login VARCHAR(40) NOT NULL,
  full_name VARCHAR(120) NOT NULL,
  hired_on DATE NOT NULL,
  UNIQUE KEY ux_employee_login (login)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE staff_role (
  id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  title VARCHAR(40) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE employee_role (
  employee_id INT UNSIGNED NOT NULL,
  staff_role_id SMALLINT UNSIGNED NOT NULL,
  PRIMARY KEY (employee_id, staff_role_id),
  CONSTRAINT fk_employee_role_employee FOREIGN KEY (employee_id) REFERENCES employee (id) ON DELETE CASCADE,
  CONSTRAINT fk_employee_role_role FOREIGN KEY (staff_role_id) REFERENCES staff_role (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
INSERT INTO staff_role (title) VALUES ('mechanic'), ('counter'), ('manager'), ('apprentice');
INSERT INTO employee (login, full_name, hired_on) VALUES ('ada', 'Ada Amsel', '2015-03-01');
INSERT INTO employee (login, full_name, hired_on) VALUES ('bert', 'Bert Buche', '2015-06-15');
INSERT INTO employee (login, full_name, hired_on) VALUES ('cleo', 'Cleo Celan', '2016-01-07');
INSERT INTO employee (login, full_name, hired_on) VALUES ('dirk', 'Dirk Dorn', '2017-09-01');
INSERT INTO employee_role (employee_id, staff_role_id) SELECT e.id, r.id FROM employee e JOIN staff_role r ON r.title = 'mechanic';
INSERT INTO employee_role (employee_id, staff_role_id) SELECT e.id, r.id FROM employee e JOIN staff_role r ON r.title = 'manager' WHERE e.login = 'ada';

-- V4: repair orders
CREATE TABLE repair_order (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  bicycle_id BIGINT UNSIGNED NOT NULL,
  employee_id INT UNSIGNED NULL,
  state VARCHAR(16) NOT NULL DEFAULT 'open',
  complaint TEXT NULL,
  opened_at DATETIME NOT NULL,
  closed_at DATETIME NULL,
  KEY ix_repair_order_bicycle (bicycle_id),
  KEY ix_repair_order_employee (employee_id),
  CONSTRAINT fk_repair_order_bicycle FOREIGN KEY (bicycle_id) REFERENCES bicycle (id),
  CONSTRAINT fk_repair_order_employee FOREIGN KEY (employee_id) REFERENCES employee (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE repair_order_line (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  repair_order_id BIGINT UNSIGNED NOT NULL,
  position_number SMALLINT UNSIGNED NOT NULL,
  description VARCHAR(190) NOT NULL,
  quantity INT NOT NULL DEFAULT 1,
  unit_price DECIMAL(10,2) NOT NULL,
  UNIQUE KEY ux_repair_order_line_position (repair_order_id, position_number),
  CONSTRAINT fk_repair_order_line_order FOREIGN KEY (repair_order_id) REFERENCES repair_order (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE INDEX ix_repair_order_state ON repair_order (state, opened_at);
ALTER TABLE repair_order ADD COLUMN promised_for DATE NULL;
ALTER TABLE repair_order ADD COLUMN note_to_customer VARCHAR(255) NULL;

-- V5: spare parts and suppliers
CREATE TABLE supplier (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  title VARCHAR(120) NOT NULL,
  country_code CHAR(2) NOT NULL,
  CONSTRAINT fk_supplier_country FOREIGN KEY (country_code) REFERENCES country (code)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE part_category (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  parent_id INT UNSIGNED NULL,
  title VARCHAR(80) NOT NULL,
  CONSTRAINT fk_part_category_parent FOREIGN KEY (parent_id) REFERENCES part_category (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE part (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  part_category_id INT UNSIGNED NOT NULL,
  sku VARCHAR(32) NOT NULL,
  title VARCHAR(120) NOT NULL,
  price DECIMAL(10,2) NOT NULL,
  UNIQUE KEY ux_part_sku (sku),
  CONSTRAINT fk_part_category FOREIGN KEY (part_category_id) REFERENCES part_category (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE part_supplier (
  part_id INT UNSIGNED NOT NULL,
  supplier_id INT UNSIGNED NOT NULL,
  supplier_sku VARCHAR(40) NOT NULL,
  cost DECIMAL(10,2) NOT NULL,
  PRIMARY KEY (part_id, supplier_id),
  CONSTRAINT fk_part_supplier_part FOREIGN KEY (part_id) REFERENCES part (id),
  CONSTRAINT fk_part_supplier_supplier FOREIGN KEY (supplier_id) REFERENCES supplier (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE stock (
  part_id INT UNSIGNED NOT NULL PRIMARY KEY,
  on_hand INT NOT NULL DEFAULT 0,
  reserved INT NOT NULL DEFAULT 0,
  CONSTRAINT fk_stock_part FOREIGN KEY (part_id) REFERENCES part (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
INSERT INTO part_category (parent_id, title) VALUES (NULL, 'Wheels'), (NULL, 'Brakes'), (NULL, 'Drivetrain'), (NULL, 'Lights');
INSERT INTO part_category (parent_id, title) SELECT id, 'Tyres' FROM part_category WHERE title = 'Wheels';
INSERT INTO part_category (parent_id, title) SELECT id, 'Tubes' FROM part_category WHERE title = 'Wheels';
INSERT INTO part_category (parent_id, title) SELECT id, 'Chains' FROM part_category WHERE title = 'Drivetrain';
INSERT INTO part_category (parent_id, title) SELECT id, 'Pads' FROM part_category WHERE title = 'Brakes';
INSERT INTO supplier (title, country_code) VALUES ('Radhaus', 'DE'), ('Velo Nord', 'DK'), ('Ciclo', 'IT');
INSERT INTO part (part_category_id, sku, title, price) SELECT id, 'TY-28', 'Tyre 28 inch', 24.90 FROM part_category WHERE title = 'Tyres';
INSERT INTO part (part_category_id, sku, title, price) SELECT id, 'TY-26', 'Tyre 26 inch', 22.90 FROM part_category WHERE title = 'Tyres';
INSERT INTO part (part_category_id, sku, title, price) SELECT id, 'TU-28', 'Tube 28 inch', 6.50 FROM part_category WHERE title = 'Tubes';
INSERT INTO part (part_category_id, sku, title, price) SELECT id, 'CH-11', 'Chain, 11 speeds', 31.00 FROM part_category WHERE title = 'Chains';
INSERT INTO part (part_category_id, sku, title, price) SELECT id, 'CH-8', 'Chain, 8 speeds', 18.00 FROM part_category WHERE title = 'Chains';
INSERT INTO part (part_category_id, sku, title, price) SELECT id, 'PA-D', 'Disc brake pads', 14.00 FROM part_category WHERE title = 'Pads';
INSERT INTO stock (part_id, on_hand) SELECT id, 20 FROM part;
INSERT INTO part_supplier (part_id, supplier_id, supplier_sku, cost) SELECT p.id, s.id, CONCAT('R-', p.sku), p.price * 0.6 FROM part p JOIN supplier s ON s.title = 'Radhaus';

-- V6: customers want invoices
CREATE TABLE invoice (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  customer_id BIGINT UNSIGNED NOT NULL,
  repair_order_id BIGINT UNSIGNED NULL,
  invoice_number VARCHAR(20) NOT NULL,
  issued_on DATE NOT NULL,
  total DECIMAL(12,2) NOT NULL,
  UNIQUE KEY ux_invoice_number (invoice_number),
  KEY ix_invoice_customer (customer_id, issued_on),
  CONSTRAINT fk_invoice_customer FOREIGN KEY (customer_id) REFERENCES customer (id),
  CONSTRAINT fk_invoice_repair_order FOREIGN KEY (repair_order_id) REFERENCES repair_order (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE invoice_line (
  invoice_id BIGINT UNSIGNED NOT NULL,
  position_number SMALLINT UNSIGNED NOT NULL,
  description VARCHAR(190) NOT NULL,
  amount DECIMAL(12,2) NOT NULL,
  PRIMARY KEY (invoice_id, position_number),
  CONSTRAINT fk_invoice_line_invoice FOREIGN KEY (invoice_id) REFERENCES invoice (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE payment (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  invoice_id BIGINT UNSIGNED NOT NULL,
  paid_at DATETIME NOT NULL,
  amount DECIMAL(12,2) NOT NULL,
  method VARCHAR(16) NOT NULL,
  KEY ix_payment_invoice (invoice_id),
  CONSTRAINT fk_payment_invoice FOREIGN KEY (invoice_id) REFERENCES invoice (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
ALTER TABLE invoice ADD COLUMN due_on DATE NULL AFTER issued_on;
ALTER TABLE invoice ADD COLUMN paid_on DATE NULL AFTER due_on;
ALTER TABLE invoice ADD INDEX ix_invoice_due (paid_on, due_on);

-- V7: the first thousand customers come from the old card index
INSERT INTO customer (first_name, last_name, email, created_at) VALUES ('Eva', 'Esche', 'eva@example.org', '2016-01-01 09:00:00'), ('Finn', 'Farn', 'finn@example.org', '2016-01-01 09:05:00');
INSERT INTO customer (first_name, last_name, email, created_at) VALUES ('Gerd', 'Ginster', 'gerd@example.org', '2016-01-01 09:10:00'), ('Hanna', 'Heide', 'hanna@example.org', '2016-01-01 09:15:00');
INSERT INTO customer (first_name, last_name, email, created_at) SELECT first_name, last_name, CONCAT('a', email), created_at FROM customer;
INSERT INTO customer (first_name, last_name, email, created_at) SELECT first_name, last_name, CONCAT('b', email), created_at FROM customer;
INSERT INTO customer (first_name, last_name, email, created_at) SELECT first_name, last_name, CONCAT('c', email), created_at FROM customer;
INSERT INTO customer (first_name, last_name, email, created_at) SELECT first_name, last_name, CONCAT('d', email), created_at FROM customer;
INSERT INTO customer (first_name, last_name, email, created_at) SELECT first_name, last_name, CONCAT('e', email), created_at FROM customer;
INSERT INTO customer (first_name, last_name, email, created_at) SELECT first_name, last_name, CONCAT('f', email), created_at FROM customer;
INSERT INTO customer (first_name, last_name, email, created_at) SELECT first_name, last_name, CONCAT('g', email), created_at FROM customer;
INSERT INTO customer (first_name, last_name, email, created_at) SELECT first_name, last_name, CONCAT('h', email), created_at FROM customer;
INSERT INTO customer_address (customer_id, street, city, zip, country_code) SELECT id, 'Am Anger 1', 'Musterstadt', '12345', 'DE' FROM customer;
INSERT INTO bicycle (customer_id, brand_id, model, frame_number, bought_on) SELECT c.id, b.id, 'Tour', CONCAT('F', LPAD(c.id, 8, '0')), '2015-05-01' FROM customer c JOIN brand b ON b.title = 'Alder';
INSERT INTO repair_order (bicycle_id, employee_id, state, opened_at, closed_at) SELECT b.id, e.id, 'closed', '2016-02-01 10:00:00', '2016-02-02 16:00:00' FROM bicycle b JOIN employee e ON e.login = 'bert';
INSERT INTO repair_order_line (repair_order_id, position_number, description, unit_price) SELECT id, 1, 'Inspection', 49.00 FROM repair_order;

-- V8: phone numbers, languages, consent
ALTER TABLE customer ADD COLUMN phone VARCHAR(40) NULL AFTER email;
ALTER TABLE customer ADD COLUMN mobile VARCHAR(40) NULL AFTER phone;
ALTER TABLE customer ADD COLUMN preferred_language CHAR(2) NOT NULL DEFAULT 'de';
ALTER TABLE customer ADD COLUMN newsletter TINYINT NOT NULL DEFAULT 0;
ALTER TABLE customer ADD COLUMN consent_at DATETIME NULL;
UPDATE customer SET newsletter = 1, consent_at = '2018-05-25 00:00:00' WHERE id % 3 = 0;
CREATE INDEX ix_customer_last_name ON customer (last_name, first_name);
CREATE INDEX ix_customer_newsletter ON customer (newsletter);

-- V9: rental
CREATE TABLE rental_station (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  title VARCHAR(80) NOT NULL,
  latitude DECIMAL(9,6) NOT NULL,
  longitude DECIMAL(9,6) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE rental_bicycle (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  rental_station_id INT UNSIGNED NULL,
  brand_id INT UNSIGNED NOT NULL,
  label VARCHAR(16) NOT NULL,
  in_service TINYINT NOT NULL DEFAULT 1,
  UNIQUE KEY ux_rental_bicycle_label (label),
  CONSTRAINT fk_rental_bicycle_station FOREIGN KEY (rental_station_id) REFERENCES rental_station (id),
  CONSTRAINT fk_rental_bicycle_brand FOREIGN KEY (brand_id) REFERENCES brand (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE tariff (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  title VARCHAR(60) NOT NULL,
  price_per_day DECIMAL(8,2) NOT NULL,
  deposit DECIMAL(8,2) NOT NULL DEFAULT 0
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE rental (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  customer_id BIGINT UNSIGNED NOT NULL,
  rental_bicycle_id INT UNSIGNED NOT NULL,
  tariff_id INT UNSIGNED NOT NULL,
  starts_at DATETIME NOT NULL,
  ends_at DATETIME NULL,
  KEY ix_rental_customer (customer_id),
  KEY ix_rental_bicycle (rental_bicycle_id, starts_at),
  CONSTRAINT fk_rental_customer FOREIGN KEY (customer_id) REFERENCES customer (id),
  CONSTRAINT fk_rental_bicycle FOREIGN KEY (rental_bicycle_id) REFERENCES rental_bicycle (id),
  CONSTRAINT fk_rental_tariff FOREIGN KEY (tariff_id) REFERENCES tariff (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
INSERT INTO rental_station (title, latitude, longitude) VALUES ('Station square', 48.137154, 11.576124), ('Old mill', 48.140000, 11.560000);
INSERT INTO rental_station (title, latitude, longitude) VALUES ('River bank', 48.150000, 11.590000), ('University', 48.150700, 11.580500);
INSERT INTO tariff (title, price_per_day, deposit) VALUES ('City', 12.00, 50.00), ('Trekking', 18.00, 100.00);
INSERT INTO tariff (title, price_per_day, deposit) VALUES ('Electric', 35.00, 300.00), ('Child', 8.00, 30.00);
INSERT INTO rental_bicycle (rental_station_id, brand_id, label) SELECT s.id, b.id, CONCAT('R', s.id, '-', b.id) FROM rental_station s JOIN brand b;
INSERT INTO rental (customer_id, rental_bicycle_id, tariff_id, starts_at, ends_at) SELECT c.id, r.id, t.id, '2019-07-01 10:00:00', '2019-07-03 18:00:00' FROM customer c JOIN rental_bicycle r ON r.label = 'R1-1' JOIN tariff t ON t.title = 'City' WHERE c.id % 5 = 0;

-- V10: prices need a currency and a tax rate
CREATE TABLE tax_rate (
  id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  country_code CHAR(2) NOT NULL,
  percentage DECIMAL(5,2) NOT NULL,
  valid_from DATE NOT NULL,
  UNIQUE KEY ux_tax_rate (country_code, valid_from, percentage),
  CONSTRAINT fk_tax_rate_country FOREIGN KEY (country_code) REFERENCES country (code)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE currency (
  code CHAR(3) NOT NULL PRIMARY KEY,
  title VARCHAR(40) NOT NULL,
  decimals TINYINT UNSIGNED NOT NULL DEFAULT 2
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
INSERT INTO currency (code, title) VALUES ('EUR', 'Euro'), ('CHF', 'Swiss franc'), ('DKK', 'Danish krone');
INSERT INTO tax_rate (country_code, percentage, valid_from) VALUES ('DE', 19.00, '2007-01-01'), ('DE', 7.00, '2007-01-01'), ('AT', 20.00, '1984-01-01');
ALTER TABLE part ADD COLUMN currency_code CHAR(3) NOT NULL DEFAULT 'EUR';
ALTER TABLE part ADD CONSTRAINT fk_part_currency FOREIGN KEY (currency_code) REFERENCES currency (code);
ALTER TABLE tariff ADD COLUMN currency_code CHAR(3) NOT NULL DEFAULT 'EUR';
ALTER TABLE tariff ADD CONSTRAINT fk_tariff_currency FOREIGN KEY (currency_code) REFERENCES currency (code);
ALTER TABLE invoice ADD COLUMN currency_code CHAR(3) NOT NULL DEFAULT 'EUR';
ALTER TABLE invoice ADD CONSTRAINT fk_invoice_currency FOREIGN KEY (currency_code) REFERENCES currency (code);
ALTER TABLE invoice_line ADD COLUMN tax_rate_id SMALLINT UNSIGNED NULL;
ALTER TABLE invoice_line ADD CONSTRAINT fk_invoice_line_tax_rate FOREIGN KEY (tax_rate_id) REFERENCES tax_rate (id);
ALTER TABLE repair_order_line ADD COLUMN discount_percentage DECIMAL(5,2) NOT NULL DEFAULT 0;

-- V11: longer texts, wider numbers
ALTER TABLE customer MODIFY COLUMN first_name VARCHAR(120) NOT NULL;
ALTER TABLE customer MODIFY COLUMN last_name VARCHAR(120) NOT NULL;
ALTER TABLE customer_address MODIFY COLUMN street VARCHAR(190) NOT NULL;
ALTER TABLE customer_address MODIFY COLUMN city VARCHAR(120) NOT NULL;
ALTER TABLE part MODIFY COLUMN title VARCHAR(190) NOT NULL;
ALTER TABLE repair_order_line MODIFY COLUMN quantity DECIMAL(10,3) NOT NULL DEFAULT 1;
ALTER TABLE stock MODIFY COLUMN on_hand BIGINT NOT NULL DEFAULT 0;
ALTER TABLE stock MODIFY COLUMN reserved BIGINT NOT NULL DEFAULT 0;
ALTER TABLE bicycle CHANGE COLUMN bought_on purchased_on DATE NULL;
ALTER TABLE repair_order CHANGE COLUMN note_to_customer customer_note VARCHAR(400) NULL;

-- V12: who changed what
CREATE TABLE change_log (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  table_title VARCHAR(64) NOT NULL,
  row_id BIGINT UNSIGNED NOT NULL,
  changed_by INT UNSIGNED NULL,
  changed_at DATETIME(3) NOT NULL,
  payload MEDIUMTEXT NULL,
  KEY ix_change_log_row (table_title, row_id),
  KEY ix_change_log_time (changed_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
ALTER TABLE customer ADD COLUMN updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP;
ALTER TABLE bicycle ADD COLUMN updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP;
ALTER TABLE repair_order ADD COLUMN updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP;
ALTER TABLE invoice ADD COLUMN updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP;
ALTER TABLE rental ADD COLUMN updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP;
ALTER TABLE part ADD COLUMN updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP;
INSERT INTO change_log (table_title, row_id, changed_at) SELECT 'customer', id, '2019-01-01 00:00:00' FROM customer;
ALTER TABLE change_log ADD CONSTRAINT fk_change_log_employee FOREIGN KEY (changed_by) REFERENCES employee (id) ON DELETE SET NULL;

-- V13: states become a table
CREATE TABLE repair_state (
  code VARCHAR(16) NOT NULL PRIMARY KEY,
  title VARCHAR(60) NOT NULL,
  sort_order TINYINT UNSIGNED NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
INSERT INTO repair_state (code, title, sort_order) VALUES ('open', 'Waiting', 1);
INSERT INTO repair_state (code, title, sort_order) VALUES ('parts', 'Waiting for parts', 2);
INSERT INTO repair_state (code, title, sort_order) VALUES ('bench', 'On the bench', 3);
INSERT INTO repair_state (code, title, sort_order) VALUES ('ready', 'Ready for collection', 4);
INSERT INTO repair_state (code, title, sort_order) VALUES ('closed', 'Collected', 5);
ALTER TABLE repair_order ADD CONSTRAINT fk_repair_order_state FOREIGN KEY (state) REFERENCES repair_state (code);
CREATE INDEX ix_repair_order_state_promise ON repair_order (state, promised_for);
ALTER TABLE repair_order DROP INDEX ix_repair_order_state;

-- V14: purchase orders
CREATE TABLE purchase_order (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  supplier_id INT UNSIGNED NOT NULL,
  ordered_by INT UNSIGNED NOT NULL,
  ordered_at DATETIME NOT NULL,
  received_at DATETIME NULL,
  KEY ix_purchase_order_supplier (supplier_id, ordered_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE purchase_order_line (
  purchase_order_id BIGINT UNSIGNED NOT NULL,
  part_id INT UNSIGNED NOT NULL,
  quantity INT UNSIGNED NOT NULL,
  cost DECIMAL(10,2) NOT NULL,
  PRIMARY KEY (purchase_order_id, part_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
ALTER TABLE purchase_order ADD CONSTRAINT fk_purchase_order_supplier FOREIGN KEY (supplier_id) REFERENCES supplier (id);
ALTER TABLE purchase_order ADD CONSTRAINT fk_purchase_order_employee FOREIGN KEY (ordered_by) REFERENCES employee (id);
ALTER TABLE purchase_order_line ADD CONSTRAINT fk_purchase_order_line_order FOREIGN KEY (purchase_order_id) REFERENCES purchase_order (id) ON DELETE CASCADE;
ALTER TABLE purchase_order_line ADD CONSTRAINT fk_purchase_order_line_part FOREIGN KEY (part_id) REFERENCES part (id);
INSERT INTO purchase_order (supplier_id, ordered_by, ordered_at) SELECT s.id, e.id, '2019-02-01 08:00:00' FROM supplier s JOIN employee e ON e.login = 'ada';
INSERT INTO purchase_order_line (purchase_order_id, part_id, quantity, cost) SELECT o.id, p.id, 10, p.price * 0.6 FROM purchase_order o JOIN part p;
UPDATE purchase_order SET received_at = '2019-02-08 11:00:00';
UPDATE stock SET on_hand = on_hand + 10;

-- V15: stock moves are booked
CREATE TABLE stock_move (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  part_id INT UNSIGNED NOT NULL,
  quantity INT NOT NULL,
  reason VARCHAR(16) NOT NULL,
  booked_at DATETIME NOT NULL,
  KEY ix_stock_move_part (part_id, booked_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
INSERT INTO stock_move (part_id, quantity, reason, booked_at) SELECT part_id, on_hand, 'opening', '2019-03-01 00:00:00' FROM stock;
ALTER TABLE stock_move ADD CONSTRAINT fk_stock_move_part FOREIGN KEY (part_id) REFERENCES part (id);
ALTER TABLE stock ADD COLUMN counted_on DATE NULL;
UPDATE stock SET counted_on = '2019-03-01';
ALTER TABLE stock ADD INDEX ix_stock_counted (counted_on);

-- V16: settings, templates, messages
CREATE TABLE app_setting (
  setting_key VARCHAR(80) NOT NULL PRIMARY KEY,
  setting_value VARCHAR(400) NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE message_template (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  code VARCHAR(40) NOT NULL,
  language_code CHAR(2) NOT NULL,
  subject VARCHAR(190) NOT NULL,
  body TEXT NOT NULL,
  UNIQUE KEY ux_message_template (code, language_code)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE message (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  customer_id BIGINT UNSIGNED NOT NULL,
  message_template_id INT UNSIGNED NOT NULL,
  sent_at DATETIME NULL,
  failed_at DATETIME NULL,
  CONSTRAINT fk_message_customer FOREIGN KEY (customer_id) REFERENCES customer (id),
  CONSTRAINT fk_message_template FOREIGN KEY (message_template_id) REFERENCES message_template (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
INSERT INTO app_setting (setting_key, setting_value) VALUES ('shop.title', 'The workshop'), ('shop.city', 'Musterstadt');
INSERT INTO app_setting (setting_key, setting_value) VALUES ('invoice.prefix', 'R'), ('invoice.days_to_pay', '14');
INSERT INTO app_setting (setting_key, setting_value) VALUES ('rental.max_days', '21'), ('rental.open_from', '09:00');
INSERT INTO message_template (code, language_code, subject, body) VALUES ('ready', 'de', 'Ihr Rad ist fertig', 'Sie können es abholen; wir haben bis 18 Uhr offen.');
INSERT INTO message_template (code, language_code, subject, body) VALUES ('ready', 'en', 'Your bicycle is ready', 'It''s waiting for you; we''re open until 6 p.m.');
INSERT INTO message_template (code, language_code, subject, body) VALUES ('late', 'de', 'Es dauert länger', 'Ein Teil fehlt noch.');
INSERT INTO message_template (code, language_code, subject, body) VALUES ('late', 'en', 'It takes longer', 'A part has not come yet.');
INSERT INTO message (customer_id, message_template_id, sent_at) SELECT c.id, t.id, '2019-04-01 12:00:00' FROM customer c JOIN message_template t ON t.code = 'ready' AND t.language_code = 'de' WHERE c.id % 4 = 0;
CREATE INDEX ix_message_sent ON message (sent_at);
CREATE INDEX ix_message_failed ON message (failed_at);

-- V17: reports
CREATE VIEW open_repairs AS SELECT o.id, o.state, o.opened_at, c.last_name, c.first_name FROM repair_order o JOIN bicycle b ON b.id = o.bicycle_id JOIN customer c ON c.id = b.customer_id WHERE o.state <> 'closed';
CREATE VIEW unpaid_invoices AS SELECT i.invoice_number, i.total, i.due_on, c.last_name FROM invoice i JOIN customer c ON c.id = i.customer_id WHERE i.paid_on IS NULL;
CREATE VIEW parts_to_order AS SELECT p.sku, p.title, s.on_hand, s.reserved FROM part p JOIN stock s ON s.part_id = p.id WHERE s.on_hand - s.reserved < 5;
CREATE TABLE daily_figures (
  day_on DATE NOT NULL,
  figure VARCHAR(40) NOT NULL,
  amount DECIMAL(14,2) NOT NULL,
  PRIMARY KEY (day_on, figure)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
INSERT INTO daily_figures (day_on, figure, amount) SELECT '2019-05-01', 'orders', COUNT(*) FROM repair_order;
INSERT INTO daily_figures (day_on, figure, amount) SELECT '2019-05-01', 'rentals', COUNT(*) FROM rental;
INSERT INTO daily_figures (day_on, figure, amount) SELECT '2019-05-01', 'customers', COUNT(*) FROM customer;

-- V18: invoices for what was repaired so far
INSERT INTO invoice (customer_id, repair_order_id, invoice_number, issued_on, due_on, total) SELECT b.customer_id, o.id, CONCAT('R', LPAD(o.id, 8, '0')), '2019-06-01', '2019-06-15', 49.00 FROM repair_order o JOIN bicycle b ON b.id = o.bicycle_id;
INSERT INTO invoice_line (invoice_id, position_number, description, amount) SELECT id, 1, 'Inspection', 49.00 FROM invoice;
UPDATE invoice_line SET tax_rate_id = (SELECT MIN(id) FROM tax_rate WHERE country_code = 'DE');
INSERT INTO payment (invoice_id, paid_at, amount, method) SELECT id, '2019-06-10 00:00:00', total, 'transfer' FROM invoice WHERE id % 2 = 0;
UPDATE invoice SET paid_on = '2019-06-10' WHERE id % 2 = 0;
ALTER TABLE payment ADD COLUMN reference_text VARCHAR(140) NULL;
ALTER TABLE payment ADD INDEX ix_payment_time (paid_at);

-- V19: bicycles get details
CREATE TABLE bicycle_photo (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  bicycle_id BIGINT UNSIGNED NOT NULL,
  file_title VARCHAR(190) NOT NULL,
  taken_at DATETIME NULL,
  CONSTRAINT fk_bicycle_photo_bicycle FOREIGN KEY (bicycle_id) REFERENCES bicycle (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
ALTER TABLE bicycle ADD COLUMN colour VARCHAR(30) NULL;
ALTER TABLE bicycle ADD COLUMN wheel_inches DECIMAL(4,1) NULL;
ALTER TABLE bicycle ADD COLUMN electric TINYINT NOT NULL DEFAULT 0;
ALTER TABLE bicycle ADD COLUMN battery_serial VARCHAR(60) NULL;
ALTER TABLE bicycle ADD UNIQUE INDEX ux_bicycle_frame (frame_number);
UPDATE bicycle SET colour = 'green', wheel_inches = 28.0 WHERE id % 2 = 1;
UPDATE bicycle SET colour = 'black', wheel_inches = 26.0 WHERE id % 2 = 0;
CREATE INDEX ix_bicycle_electric ON bicycle (electric, brand_id);

-- V20: work is planned by the hour
CREATE TABLE work_shift (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  employee_id INT UNSIGNED NOT NULL,
  starts_at DATETIME NOT NULL,
  ends_at DATETIME NOT NULL,
  KEY ix_work_shift_employee (employee_id, starts_at),
  CONSTRAINT fk_work_shift_employee FOREIGN KEY (employee_id) REFERENCES employee (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE work_slot (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  work_shift_id BIGINT UNSIGNED NOT NULL,
  repair_order_id BIGINT UNSIGNED NULL,
  starts_at DATETIME NOT NULL,
  minutes SMALLINT UNSIGNED NOT NULL,
  CONSTRAINT fk_work_slot_shift FOREIGN KEY (work_shift_id) REFERENCES work_shift (id) ON DELETE CASCADE,
  CONSTRAINT fk_work_slot_repair_order FOREIGN KEY (repair_order_id) REFERENCES repair_order (id) ON DELETE SET NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
INSERT INTO work_shift (employee_id, starts_at, ends_at) SELECT id, '2019-09-02 09:00:00', '2019-09-02 17:00:00' FROM employee;
INSERT INTO work_shift (employee_id, starts_at, ends_at) SELECT id, '2019-09-03 09:00:00', '2019-09-03 17:00:00' FROM employee;
INSERT INTO work_slot (work_shift_id, starts_at, minutes) SELECT id, starts_at, 60 FROM work_shift;
ALTER TABLE employee ADD COLUMN left_on DATE NULL;
ALTER TABLE employee ADD COLUMN hourly_rate DECIMAL(8,2) NOT NULL DEFAULT 15.00;
UPDATE employee SET hourly_rate = 22.50 WHERE login = 'ada';

-- V21: logins for customers
CREATE TABLE customer_login (
  customer_id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
  password_hash VARBINARY(100) NOT NULL,
  last_seen_at DATETIME NULL,
  failed_attempts SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  CONSTRAINT fk_customer_login_customer FOREIGN KEY (customer_id) REFERENCES customer (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE login_token (
  token BINARY(16) NOT NULL PRIMARY KEY,
  customer_id BIGINT UNSIGNED NOT NULL,
  expires_at DATETIME NOT NULL,
  KEY ix_login_token_customer (customer_id),
  KEY ix_login_token_expiry (expires_at),
  CONSTRAINT fk_login_token_login FOREIGN KEY (customer_id) REFERENCES customer_login (customer_id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
INSERT INTO customer_login (customer_id, password_hash) SELECT id, SHA2(email, 256) FROM customer WHERE newsletter = 1;
INSERT INTO login_token (token, customer_id, expires_at) SELECT UNHEX(LEFT(SHA2(CONCAT('t', customer_id), 256), 32)), customer_id, '2019-10-01 00:00:00' FROM customer_login;
DELETE FROM login_token WHERE expires_at < '2019-11-01 00:00:00';

-- V22: the rental business grows
CREATE TABLE rental_extra (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  title VARCHAR(60) NOT NULL,
  price_per_day DECIMAL(8,2) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE rental_extra_booking (
  rental_id BIGINT UNSIGNED NOT NULL,
  rental_extra_id INT UNSIGNED NOT NULL,
  quantity TINYINT UNSIGNED NOT NULL DEFAULT 1,
  PRIMARY KEY (rental_id, rental_extra_id),
  CONSTRAINT fk_rental_extra_booking_rental FOREIGN KEY (rental_id) REFERENCES rental (id) ON DELETE CASCADE,
  CONSTRAINT fk_rental_extra_booking_extra FOREIGN KEY (rental_extra_id) REFERENCES rental_extra (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
INSERT INTO rental_extra (title, price_per_day) VALUES ('Helmet', 3.00), ('Child seat', 5.00), ('Panniers', 4.00), ('Lock', 0.00);
INSERT INTO rental_extra_booking (rental_id, rental_extra_id) SELECT r.id, e.id FROM rental r JOIN rental_extra e ON e.title = 'Helmet';
ALTER TABLE rental ADD COLUMN returned_to INT UNSIGNED NULL;
ALTER TABLE rental ADD CONSTRAINT fk_rental_returned_to FOREIGN KEY (returned_to) REFERENCES rental_station (id);
ALTER TABLE rental ADD COLUMN damage_note VARCHAR(400) NULL;
ALTER TABLE rental_station ADD COLUMN capacity SMALLINT UNSIGNED NOT NULL DEFAULT 12;
ALTER TABLE rental_station ADD COLUMN opened_on DATE NULL;
ALTER TABLE rental_bicycle ADD COLUMN next_inspection_on DATE NULL;
UPDATE rental_bicycle SET next_inspection_on = '2020-03-01';
CREATE INDEX ix_rental_bicycle_inspection ON rental_bicycle (next_inspection_on);

-- V23: warranties
CREATE TABLE warranty (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  bicycle_id BIGINT UNSIGNED NOT NULL,
  starts_on DATE NOT NULL,
  ends_on DATE NOT NULL,
  terms VARCHAR(400) NULL,
  KEY ix_warranty_bicycle (bicycle_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
ALTER TABLE warranty ADD CONSTRAINT fk_warranty_bicycle FOREIGN KEY (bicycle_id) REFERENCES bicycle (id);
INSERT INTO warranty (bicycle_id, starts_on, ends_on) SELECT id, '2019-01-01', '2021-01-01' FROM bicycle WHERE id % 10 = 0;
ALTER TABLE repair_order ADD COLUMN warranty_id BIGINT UNSIGNED NULL;
ALTER TABLE repair_order ADD CONSTRAINT fk_repair_order_warranty FOREIGN KEY (warranty_id) REFERENCES warranty (id);

-- V24: names of indexes follow the rules at last
ALTER TABLE invoice RENAME INDEX ix_invoice_due TO ix_invoice_paid_due;
ALTER TABLE payment RENAME INDEX ix_payment_time TO ix_payment_paid_at;
ALTER TABLE message RENAME INDEX ix_message_sent TO ix_message_sent_at;
ALTER TABLE message RENAME INDEX ix_message_failed TO ix_message_failed_at;
ALTER TABLE customer DROP INDEX ix_customer_newsletter;
ALTER TABLE change_log DROP INDEX ix_change_log_time;
ALTER TABLE change_log ADD INDEX ix_change_log_table_time (table_title, changed_at);

-- V25: address book per customer
ALTER TABLE customer_address ADD COLUMN kind VARCHAR(12) NOT NULL DEFAULT 'home' AFTER customer_id;
ALTER TABLE customer_address ADD COLUMN is_default TINYINT NOT NULL DEFAULT 1;
ALTER TABLE customer_address ADD INDEX ix_customer_address_kind (customer_id, kind);
INSERT INTO customer_address (customer_id, kind, street, city, zip, country_code, is_default) SELECT id, 'work', 'Gewerbering 7', 'Musterstadt', '12347', 'DE', 0 FROM customer WHERE id % 6 = 0;
UPDATE customer_address SET zip = '12346' WHERE city = 'Musterstadt' AND kind = 'home';

-- V26: tags
CREATE TABLE tag (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  title VARCHAR(40) NOT NULL,
  UNIQUE KEY ux_tag_title (title)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE customer_tag (
  customer_id BIGINT UNSIGNED NOT NULL,
  tag_id INT UNSIGNED NOT NULL,
  PRIMARY KEY (customer_id, tag_id),
  KEY ix_customer_tag_tag (tag_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE part_tag (
  part_id INT UNSIGNED NOT NULL,
  tag_id INT UNSIGNED NOT NULL,
  PRIMARY KEY (part_id, tag_id),
  KEY ix_part_tag_tag (tag_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
INSERT INTO tag (title) VALUES ('regular'), ('company'), ('club'), ('season'), ('sale');
INSERT INTO customer_tag (customer_id, tag_id) SELECT c.id, t.id FROM customer c JOIN tag t ON t.title = 'regular' WHERE c.id % 7 = 0;
INSERT INTO part_tag (part_id, tag_id) SELECT p.id, t.id FROM part p JOIN tag t ON t.title = 'season';
ALTER TABLE customer_tag ADD CONSTRAINT fk_customer_tag_customer FOREIGN KEY (customer_id) REFERENCES customer (id) ON DELETE CASCADE;
ALTER TABLE customer_tag ADD CONSTRAINT fk_customer_tag_tag FOREIGN KEY (tag_id) REFERENCES tag (id) ON DELETE CASCADE;
ALTER TABLE part_tag ADD CONSTRAINT fk_part_tag_part FOREIGN KEY (part_id) REFERENCES part (id) ON DELETE CASCADE;
ALTER TABLE part_tag ADD CONSTRAINT fk_part_tag_tag FOREIGN KEY (tag_id) REFERENCES tag (id) ON DELETE CASCADE;

-- V27: tables that nobody used
CREATE TABLE coupon (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  code VARCHAR(20) NOT NULL,
  percentage TINYINT UNSIGNED NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE coupon_use (
  coupon_id INT UNSIGNED NOT NULL,
  invoice_id BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (coupon_id, invoice_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
INSERT INTO coupon (code, percentage) VALUES ('SPRING', 10), ('AUTUMN', 15);
DROP TABLE coupon_use;
DROP TABLE coupon;
RENAME TABLE message TO customer_message;
ALTER TABLE customer_message ADD COLUMN channel VARCHAR(10) NOT NULL DEFAULT 'mail';
DROP VIEW parts_to_order;
CREATE VIEW parts_to_order AS SELECT p.sku, p.title, s.on_hand, s.reserved, s.counted_on FROM part p JOIN stock s ON s.part_id = p.id WHERE s.on_hand - s.reserved < 8;

-- V28: loyalty
CREATE TABLE loyalty_account (
  customer_id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
  points INT NOT NULL DEFAULT 0,
  level_title VARCHAR(12) NOT NULL DEFAULT 'bronze',
  CONSTRAINT fk_loyalty_account_customer FOREIGN KEY (customer_id) REFERENCES customer (id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE loyalty_booking (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  customer_id BIGINT UNSIGNED NOT NULL,
  points INT NOT NULL,
  booked_at DATETIME NOT NULL,
  KEY ix_loyalty_booking_customer (customer_id, booked_at),
  CONSTRAINT fk_loyalty_booking_account FOREIGN KEY (customer_id) REFERENCES loyalty_account (customer_id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
INSERT INTO loyalty_account (customer_id) SELECT id FROM customer;
INSERT INTO loyalty_booking (customer_id, points, booked_at) SELECT customer_id, FLOOR(total), '2020-01-01 00:00:00' FROM invoice;
UPDATE loyalty_account a JOIN loyalty_booking b ON b.customer_id = a.customer_id SET a.points = a.points + b.points;
UPDATE loyalty_account SET level_title = 'silver' WHERE points >= 49 AND customer_id % 9 = 0;
CREATE INDEX ix_loyalty_account_level ON loyalty_account (level_title, points);

-- V29: last corrections before the release
ALTER TABLE part ADD COLUMN discontinued_on DATE NULL;
ALTER TABLE part ADD COLUMN weight_grams INT UNSIGNED NULL;
ALTER TABLE part ADD INDEX ix_part_discontinued (discontinued_on);
ALTER TABLE supplier ADD COLUMN email VARCHAR(190) NULL;
ALTER TABLE supplier ADD COLUMN phone VARCHAR(40) NULL;
ALTER TABLE supplier ADD UNIQUE INDEX ux_supplier_title (title);
UPDATE supplier SET email = CONCAT(LOWER(REPLACE(title, ' ', '.')), '@example.org');
ALTER TABLE repair_order_line ADD COLUMN part_id INT UNSIGNED NULL;
ALTER TABLE repair_order_line ADD CONSTRAINT fk_repair_order_line_part FOREIGN KEY (part_id) REFERENCES part (id);
ALTER TABLE invoice ADD COLUMN cancelled_at DATETIME NULL;
ALTER TABLE invoice ADD COLUMN replaced_by BIGINT UNSIGNED NULL;
ALTER TABLE invoice ADD CONSTRAINT fk_invoice_replaced_by FOREIGN KEY (replaced_by) REFERENCES invoice (id);
CREATE TABLE schema_history_note (
  version_number INT UNSIGNED NOT NULL PRIMARY KEY,
  note VARCHAR(190) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
INSERT INTO schema_history_note (version_number, note) VALUES (1, 'customers'), (4, 'repairs'), (9, 'rental');
INSERT INTO schema_history_note (version_number, note) VALUES (13, 'states'), (21, 'logins'), (28, 'loyalty');
DELETE FROM change_log WHERE changed_at < '2019-06-01 00:00:00';
