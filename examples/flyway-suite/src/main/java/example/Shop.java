package example;

import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;

/** The shop's business, on a connection whose transaction is the caller's. */
public final class Shop {

  private final Connection connection;

  public Shop(Connection connection) {
    this.connection = connection;
  }

  public long addCustomer(String name, String country) throws SQLException {
    return insert(
        "INSERT INTO customer (name, country_id) SELECT ?, id FROM country WHERE name = ?", name, country);
  }

  public long addProduct(String name, String category, BigDecimal price) throws SQLException {
    var product =
        insert(
            "INSERT INTO product (name, category_id) SELECT ?, id FROM category WHERE name = ?", name, category);
    insert("INSERT INTO price (name, product_id, amount) VALUES ('list', ?, ?)", product, price);
    return product;
  }

  public void stockUp(long product, int pieces) throws SQLException {
    if (update("UPDATE stock SET amount = amount + ? WHERE product_id = ?", pieces, product) == 0) {
      insert("INSERT INTO stock (name, product_id, amount) VALUES ('main', ?, ?)", product, pieces);
    }
  }

  public BigDecimal inStock(long product) throws SQLException {
    return number("SELECT COALESCE(SUM(amount), 0) FROM stock WHERE product_id = ?", product);
  }

  /** Takes pieces out of stock and writes them down; a purchase of more than there is leaves nothing. */
  public long buy(long customer, long product, int pieces) throws SQLException {
    if (inStock(product).compareTo(BigDecimal.valueOf(pieces)) < 0) {
      throw new IllegalArgumentException("there are not " + pieces + " of product " + product);
    }
    update("UPDATE stock SET amount = amount - ? WHERE product_id = ?", pieces, product);
    var each = number("SELECT amount FROM price WHERE product_id = ? ORDER BY id DESC LIMIT 1", product);
    var total = each.multiply(BigDecimal.valueOf(pieces));
    var purchase =
        insert("INSERT INTO purchase (name, customer_id, amount) VALUES ('web', ?, ?)", customer, total);
    insert(
        "INSERT INTO purchase_item (name, purchase_id, amount) VALUES (?, ?, ?)",
        "product " + product, purchase, total);
    return purchase;
  }

  public long invoice(long purchase) throws SQLException {
    var invoice =
        insert(
            "INSERT INTO invoice (name, purchase_id, amount) SELECT 'invoice', id, amount FROM purchase WHERE id = ?",
            purchase);
    update("UPDATE purchase SET status = 'invoiced' WHERE id = ?", purchase);
    return invoice;
  }

  public void pay(long invoice, BigDecimal amount) throws SQLException {
    insert("INSERT INTO payment (name, invoice_id, amount) VALUES ('card', ?, ?)", invoice, amount);
    if (open(invoice).signum() <= 0) {
      update("UPDATE invoice SET status = 'paid' WHERE id = ?", invoice);
    }
  }

  /** What is still to be paid. */
  public BigDecimal open(long invoice) throws SQLException {
    return number("SELECT amount FROM invoice WHERE id = ?", invoice)
        .subtract(number("SELECT COALESCE(SUM(amount), 0) FROM payment WHERE invoice_id = ?", invoice));
  }

  public long insert(String sql, Object... values) throws SQLException {
    try (var statement = connection.prepareStatement(sql, Statement.RETURN_GENERATED_KEYS)) {
      bind(statement, values);
      statement.executeUpdate();
      try (var keys = statement.getGeneratedKeys()) {
        if (!keys.next()) {
          throw new IllegalArgumentException("nothing to insert for: " + sql);
        }
        return keys.getLong(1);
      }
    }
  }

  public int update(String sql, Object... values) throws SQLException {
    try (var statement = connection.prepareStatement(sql)) {
      bind(statement, values);
      return statement.executeUpdate();
    }
  }

  public BigDecimal number(String sql, Object... values) throws SQLException {
    try (var statement = connection.prepareStatement(sql)) {
      bind(statement, values);
      try (var rows = statement.executeQuery()) {
        if (!rows.next()) {
          throw new IllegalArgumentException("no row for: " + sql);
        }
        return rows.getBigDecimal(1);
      }
    }
  }

  public List<String> texts(String sql, Object... values) throws SQLException {
    try (var statement = connection.prepareStatement(sql)) {
      bind(statement, values);
      try (var rows = statement.executeQuery()) {
        var found = new ArrayList<String>();
        while (rows.next()) {
          found.add(rows.getString(1));
        }
        return found;
      }
    }
  }

  private static void bind(java.sql.PreparedStatement statement, Object... values) throws SQLException {
    for (int index = 0; index < values.length; index++) {
      statement.setObject(index + 1, values[index]);
    }
  }
}
