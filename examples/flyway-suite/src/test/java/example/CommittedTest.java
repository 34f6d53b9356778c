package example;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.math.BigDecimal;
import java.sql.SQLException;
import java.util.List;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Tests that commit, since others must see what they wrote, and clean up by hand or by a reset. */
@ExtendWith(FlushlabExtension.class)
class CommittedTest {

  @ParameterizedTest
  @ValueSource(strings = {"tag", "role", "campaign", "department"})
  void isSeenByOtherConnectionsAndDeletedAgain(String table, DataSource database) throws SQLException {
    long id;
    try (var writer = database.getConnection()) {
      id = new Shop(writer).insert("INSERT INTO " + table + " (name) VALUES ('seen')");
    }
    try (var reader = database.getConnection()) {
      var shop = new Shop(reader);
      assertEquals(List.of("seen"), shop.texts("SELECT name FROM " + table + " WHERE id = ?", id));
      shop.update("DELETE FROM " + table + " WHERE id = ?", id);
    }
  }

  @Test
  void whatIsNotCommittedIsNotSeen(DataSource database) throws SQLException {
    try (var writer = database.getConnection();
        var reader = database.getConnection()) {
      writer.setAutoCommit(false);
      new Shop(writer).addCustomer("Ada", "France");
      assertEquals(0, new Shop(reader).number("SELECT COUNT(*) FROM customer").intValue());
      writer.rollback();
    }
  }

  @Test
  void aPurchaseIsCommittedAndUndone(DataSource database) throws SQLException {
    try (var connection = database.getConnection()) {
      connection.setAutoCommit(false);
      var shop = new Shop(connection);
      var product = shop.addProduct("Teapot", "Kitchen", new BigDecimal("19.90"));
      shop.stockUp(product, 1);
      var purchase = shop.buy(shop.addCustomer("Ada", "France"), product, 1);
      connection.commit();
      assertEquals(0, shop.inStock(product).signum());
      for (var sql :
          List.of(
              "DELETE FROM purchase_item WHERE purchase_id = " + purchase,
              "DELETE FROM purchase WHERE id = " + purchase,
              "DELETE FROM stock WHERE product_id = " + product,
              "DELETE FROM price WHERE product_id = " + product,
              "DELETE FROM product WHERE id = " + product,
              "DELETE FROM customer")) {
        shop.update(sql);
      }
      connection.commit();
    }
  }

  @Test
  @Pristine
  void aPristineDatabaseHasTheSeedsOnly(DataSource database) throws SQLException {
    try (var connection = database.getConnection()) {
      var shop = new Shop(connection);
      assertEquals(8, shop.number("SELECT COUNT(*) FROM country").intValue());
      assertEquals(0, shop.number("SELECT COUNT(*) FROM customer").intValue());
      assertEquals(9, shop.insert("INSERT INTO country (name) VALUES ('Norway')"), "ids begin where the seeds end");
      shop.update("DELETE FROM country WHERE name = 'Norway'");
    }
  }
}
