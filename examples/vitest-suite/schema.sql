CREATE TABLE account (
  id INT AUTO_INCREMENT PRIMARY KEY,
  owner VARCHAR(80) NOT NULL UNIQUE,
  balance DECIMAL(12, 2) NOT NULL DEFAULT 0
);
CREATE TABLE transfer (
  id INT AUTO_INCREMENT PRIMARY KEY,
  payer INT NOT NULL REFERENCES account (id),
  payee INT NOT NULL REFERENCES account (id),
  amount DECIMAL(12, 2) NOT NULL
);
INSERT INTO account (owner, balance) VALUES ('Ada', 100), ('Bo', 50);
