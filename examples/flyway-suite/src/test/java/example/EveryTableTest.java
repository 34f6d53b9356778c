package example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.sql.SQLException;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What holds for each table after all of its migrations. */
class EveryTableTest extends RolledBack {

  @ParameterizedTest
  @ValueSource(
      strings = {
        "currency", "country", "customer", "address", "category", "supplier", "product", "price",
        "warehouse", "stock", "cart", "cart_item", "purchase", "purchase_item", "invoice",
        "invoice_line", "payment", "refund", "carrier", "shipment", "parcel", "campaign", "coupon",
        "review", "wishlist", "wishlist_item", "department", "employee", "role", "role_grant",
        "tax_rate", "document", "message", "message_template", "tag", "product_tag",
        "supplier_order", "supplier_order_item", "loyalty_account", "loyalty_entry"
      })
  void hasTheColumnsOfItsMigrationsAndTakesARow(String table) throws SQLException {
    var columns = columns(table);
    assertTrue(columns.containsAll(Set.of("id", "name", "created_at", "status")), columns.toString());
    assertFalse(columns.contains("legacy_code"), "dropped by a later migration");

    var before = shop.number("SELECT COUNT(*) FROM " + table);
    var id = shop.insert("INSERT INTO " + table + " (name) VALUES (?)", "new");
    assertEquals("active", shop.texts("SELECT status FROM " + table + " WHERE id = ?", id).get(0));
    assertEquals(before.intValue() + 1, shop.number("SELECT COUNT(*) FROM " + table).intValue());
  }

  @Test
  void thereAreFortyAndTheHistory() throws SQLException {
    var tables =
        shop.texts("SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()");
    assertEquals(41, tables.size(), tables.toString());
    assertTrue(tables.contains("flyway_schema_history"));
  }

  @Test
  void everyMigrationSucceeded() throws SQLException {
    assertEquals(400, shop.number("SELECT COUNT(*) FROM flyway_schema_history WHERE success").intValue());
    assertEquals(0, shop.number("SELECT COUNT(*) FROM flyway_schema_history WHERE NOT success").intValue());
  }

  private Set<String> columns(String table) throws SQLException {
    return new TreeSet<>(
        shop.texts(
            "SELECT column_name FROM information_schema.columns"
                + " WHERE table_schema = DATABASE() AND table_name = ?",
            table));
  }
}
